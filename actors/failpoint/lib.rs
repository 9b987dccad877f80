//! Named places in the daemons at which a test makes the process die, fail or wait.
//!
//! ```text
//!   XCE_FAILPOINTS="wal.append.written=kill@3,spool.append.before=error,shim.exit.before=delay:200"
//!                   └── point ─────────┘ └ action, and at which hit (1 where none is given)
//!   XCE_FAILPOINTS_ONCE=DIR   each point acts once among all processes that name this directory,
//!                             and leaves a file of its name there
//! ```
//! Every process reads the environment when it starts, so a worker's shims have the same points as
//! the worker. Where nothing is armed, a point costs one load of a flag. Production daemons have them
//! too: what is tested is what runs.
//!
//! Invariants
//! * A point that is not armed does nothing.
//! * A name that is unknown, or an action that a point cannot take, is refused at the start.
//! * A process that is armed says so.

mod arm;
mod point;

pub use arm::{ArmError, Armed, ONCE_VARIABLE, VARIABLE, arm, arm_with};
pub use point::{ALL, Part, Point};

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use arm::Effect;

/// Whether anything is armed in this process.
static IS_ARMED: AtomicBool = AtomicBool::new(false);

static ARMED: OnceLock<Vec<Armed>> = OnceLock::new();

/// Passes a point at which nothing can fail. It may not return.
#[inline]
pub fn hit(point: Point) {
    if IS_ARMED.load(Ordering::Relaxed) {
        // A point that takes no error cannot be armed with one.
        let _ = act(point);
    }
}

/// Passes a point at which the caller can take an error, in place of or after what it does there.
///
/// # Errors
/// When the point is armed with one: error 28, no space left on the device.
#[inline]
pub fn check(point: Point) -> io::Result<()> {
    if IS_ARMED.load(Ordering::Relaxed) {
        return act(point);
    }
    Ok(())
}

#[cold]
fn act(point: Point) -> io::Result<()> {
    let armed = ARMED.get().map_or(&[][..], Vec::as_slice);
    for one in armed.iter().filter(|armed| armed.point() == point) {
        match one.pass() {
            None => {}
            Some(Effect::Kill) => {
                eprintln!("failpoint {point}: killed");
                let own = rustix::process::getpid();
                // It cannot fail for the own process, and what follows is never reached.
                let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
                std::process::abort();
            }
            Some(Effect::Delay(time)) => std::thread::sleep(time),
            Some(Effect::Error) => {
                let full = rustix::io::Errno::NOSPC;
                return Err(full.into());
            }
        }
    }
    Ok(())
}

fn install(armed: Vec<Armed>) -> bool {
    let any = !armed.is_empty();
    let is_first = ARMED.set(armed).is_ok();
    if is_first && any {
        IS_ARMED.store(true, Ordering::Relaxed);
    }
    is_first
}

#[cfg(test)]
mod tests;

//! How commands reach an actor that may be starting again.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use xce_model::{Refusal, RefusalKind};
use xce_runtime::{Address, CallError, NotDelivered, Refusal as Absent, Reply};

use crate::control::outcome_unknown;

/// How long a caller waits for a command. Source: chosen; far above a commit on a slow disk.
pub const COMMAND_WITHIN: Duration = Duration::from_secs(10);

/// Gives a message to an actor, where need be once it has started again, and waits for the answer.
///
/// `find` gives its address and starts it where it is not there. A message that was delivered is
/// never given again.
///
/// # Errors
/// `busy` where no incarnation takes it in time; `outcome_unknown` where the actor ended with it.
pub async fn ask<M: Send + 'static, R: Send + 'static>(
    find: impl Fn() -> Result<Address<M>, Absent>,
    message: impl Fn(Reply<R>) -> M,
) -> Result<R, Refusal> {
    let deadline = Instant::now() + COMMAND_WITHIN;
    loop {
        let address = match find() {
            Ok(address) => address,
            // It went away while it was looked for.
            Err(Absent::Unknown(_)) if Instant::now() < deadline => {
                tokio::task::yield_now().await;
                continue;
            }
            Err(absent) => return Err(busy(&absent.to_string())),
        };
        let change = address.change();
        match address.call(&message, COMMAND_WITHIN).await {
            Ok(answer) => return Ok(answer),
            Err(CallError::Unknown(_)) => return Err(outcome_unknown()),
            Err(CallError::NotDelivered(NotDelivered::Down)) => {
                if timeout_at(deadline, change).await.is_err() {
                    return Err(busy(&format!("actor {} is down", address.probe().key())));
                }
            }
            Err(CallError::NotDelivered(NotDelivered::Overloaded)) => {
                return Err(busy(&format!(
                    "actor {} is overloaded",
                    address.probe().key()
                )));
            }
        }
    }
}

/// Tells an actor something, where need be once it has started again. Says whether it was delivered.
pub async fn tell<M: Send + 'static>(
    find: impl Fn() -> Result<Address<M>, Absent>,
    message: impl Fn() -> M,
) -> bool {
    let deadline = Instant::now() + COMMAND_WITHIN;
    loop {
        let address = match find() {
            Ok(address) => address,
            Err(Absent::Unknown(_)) if Instant::now() < deadline => {
                tokio::task::yield_now().await;
                continue;
            }
            Err(_absent) => return false,
        };
        let change = address.change();
        match address.cast(message()) {
            Ok(()) => return true,
            Err(NotDelivered::Overloaded) => return false,
            Err(NotDelivered::Down) => {
                if timeout_at(deadline, change).await.is_err() {
                    return false;
                }
            }
        }
    }
}

fn busy(what: &str) -> Refusal {
    Refusal::new(
        RefusalKind::Unavailable,
        "busy",
        format!("{what}; nothing was changed, try again"),
    )
}

//! The switch: one thread that passes frames on as the links say.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::link::{Lane, Link};

/// Bytes of the largest frame. Source: Ethernet with the default of 1 500 bytes, with room.
const FRAME_BYTES: usize = 2_048;
/// Frames of one host that are taken before another's turn. Source: chosen; bounds the wait of the
/// others.
const TURN: usize = 64;
/// First two bytes of all hardware addresses.
const OURS: [u8; 2] = [0x02, 0x77];
/// Where the parts of a frame begin. Source: RFC 894, RFC 791 without options, RFC 768.
const IP_AT: usize = 14;
const UDP_AT: usize = IP_AT + 20;
const UDP_SUM_AT: usize = UDP_AT + 6;
const DATA_AT: usize = UDP_AT + 8;
/// The number of UDP. Source: RFC 768.
const UDP: u8 = 17;

/// Links by the numbers of sender and receiver.
pub type Links = Vec<Vec<Link>>;

/// What thread and owner share.
#[derive(Debug)]
struct Shared {
    links: Mutex<Links>,
    passed: AtomicU64,
    lost: AtomicU64,
}

/// A running switch.
#[derive(Debug)]
pub struct Switch {
    shared: Arc<Shared>,
    /// Closed to end the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    /// Switches frames between devices.
    ///
    /// # Errors
    /// When there is no thread or pipe for it.
    pub fn start(taps: Vec<File>, seed: u64) -> Result<Self, String> {
        let fault = |error: std::io::Error| format!("the switch: {error}");
        let count = taps.len();
        let shared = Arc::new(Shared {
            links: Mutex::new(vec![vec![Link::default(); count]; count]),
            passed: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        });
        let (stop, stopped) = UnixStream::pair().map_err(fault)?;
        let mut running = Running {
            shared: Arc::clone(&shared),
            lanes: vec![vec![Lane::default(); count]; count],
            taps,
            random: fastrand::Rng::with_seed(seed),
            begun: Instant::now(),
            waiting: BinaryHeap::new(),
            sequence: 0,
        };
        let thread = thread::Builder::new().name("switch".to_owned());
        let thread = thread.spawn(move || running.run(&stopped)).map_err(fault)?;
        Ok(Self {
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Changes links; what is under way arrives.
    pub fn change(&self, change: impl FnOnce(&mut Links)) {
        let links = self.shared.links.lock();
        change(&mut links.unwrap_or_else(PoisonError::into_inner));
    }

    /// Frames passed on and frames lost.
    pub fn counts(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.shared.passed), read(&self.shared.lost))
    }

    /// Ends it; the devices go with it.
    pub fn stop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // Its panic was printed, and there is nothing to save.
            drop(thread.join());
        }
    }
}

/// A frame that has still to arrive: when, in which order, where.
type Waiting = Reverse<(Duration, u64, usize, Vec<u8>)>;

/// The thread's own.
struct Running {
    shared: Arc<Shared>,
    lanes: Vec<Vec<Lane>>,
    taps: Vec<File>,
    random: fastrand::Rng,
    begun: Instant,
    waiting: BinaryHeap<Waiting>,
    sequence: u64,
}

impl Running {
    fn run(&mut self, stopped: &UnixStream) {
        let mut buffer = [0; FRAME_BYTES];
        loop {
            self.deliver();
            let timeout = self.waiting.peek().map(|Reverse((at, ..))| {
                let left = at.saturating_sub(self.begun.elapsed());
                Timespec::try_from(left.max(Duration::from_micros(1))).unwrap_or_default()
            });
            let (readable, ended) = {
                let mut watched: Vec<PollFd<'_>> = self
                    .taps
                    .iter()
                    .map(|tap| PollFd::new(tap, PollFlags::IN))
                    .chain([PollFd::new(stopped, PollFlags::IN)])
                    .collect();
                if poll(&mut watched, timeout.as_ref()).is_err() {
                    continue;
                }
                let mut ready: Vec<bool> = watched
                    .iter()
                    .map(|one| !one.revents().is_empty())
                    .collect();
                let ended = ready.pop().unwrap_or(true);
                (ready, ended)
            };
            if ended {
                return;
            }
            for from in (0..readable.len()).filter(|from| readable[*from]) {
                for _ in 0..TURN {
                    let Ok(length) = (&self.taps[from]).read(&mut buffer) else {
                        break;
                    };
                    self.switch(from, &mut buffer[..length]);
                }
            }
        }
    }

    fn switch(&mut self, from: usize, frame: &mut [u8]) {
        // Hosts know each other's addresses: what goes to all is not needed.
        let to = match frame {
            [a, b, _, _, _, last, ..] if [*a, *b] == OURS => usize::from(*last).wrapping_sub(1),
            _ => return,
        };
        if to >= self.taps.len() {
            return;
        }
        let link = {
            let links = self.shared.links.lock();
            links.unwrap_or_else(PoisonError::into_inner)[from][to]
        };
        let now = self.begun.elapsed();
        let bytes = frame.len() as u64;
        let fate = link.fate(&mut self.lanes[from][to], bytes, now, &mut self.random);
        if fate.is_garbled {
            self.garble(frame);
        }
        let count = if fate.after.is_empty() {
            &self.shared.lost
        } else {
            &self.shared.passed
        };
        count.fetch_add(1, Ordering::Relaxed);
        for after in fate.after {
            if after.is_zero() {
                // A host that takes no more loses it, as on any wire.
                drop((&self.taps[to]).write(frame));
            } else {
                self.sequence += 1;
                let waiting = (now + after, self.sequence, to, frame.to_vec());
                self.waiting.push(Reverse(waiting));
            }
        }
    }

    fn deliver(&mut self) {
        let now = self.begun.elapsed();
        while self
            .waiting
            .peek()
            .is_some_and(|Reverse((at, ..))| *at <= now)
        {
            let Some(Reverse((_, _, to, frame))) = self.waiting.pop() else {
                return;
            };
            // A host that takes no more loses it, as on any wire.
            drop((&self.taps[to]).write(&frame));
        }
    }

    /// Changes a byte of what UDP carries, and says that there is no checksum.
    fn garble(&mut self, frame: &mut [u8]) {
        if frame.len() > DATA_AT && frame[IP_AT + 9] == UDP {
            frame[UDP_SUM_AT..DATA_AT].fill(0);
            let at = self.random.usize(DATA_AT..frame.len());
            frame[at] ^= self.random.u8(1..);
        }
    }
}

//! What one direction between two hosts does to frames.

use std::time::Duration;

/// Bytes that may wait where a link has a rate. Source: chosen; what a small router holds, some
/// seconds at 10 kB/s.
pub const QUEUE_BYTES: u64 = 64 * 1024;

/// One direction between two hosts; by default a perfect wire.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Link {
    /// Nothing passes.
    pub is_cut: bool,
    /// How long each frame takes.
    pub delay: Duration,
    /// By how much longer it may take; frames overtake each other then.
    pub jitter: Duration,
    /// Share of frames that are lost, 0 to 1.
    pub loss: f64,
    /// Share of frames that arrive twice, 0 to 1.
    pub twice: f64,
    /// Share of frames with a wrong byte behind all checksums of the network, 0 to 1.
    pub garbled: f64,
    /// Bytes a second; 0 for no limit.
    pub rate: u64,
}

/// What becomes of one frame: the moments, from now, at which it arrives.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// When; empty where it is lost.
    pub after: Vec<Duration>,
    /// Whether it is changed on the way.
    pub is_garbled: bool,
}

/// A link with what is still under way on it, by the limit of its rate.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lane {
    /// Until when it is busy, from the start of the switch.
    pub busy: Duration,
}

impl Link {
    /// Decides on one frame of so many bytes.
    pub fn fate(
        &self,
        lane: &mut Lane,
        bytes: u64,
        now: Duration,
        random: &mut fastrand::Rng,
    ) -> Fate {
        if self.is_cut || random.f64() < self.loss {
            return Fate::default();
        }
        let mut wait = self.delay;
        if self.rate > 0 {
            let ahead = lane.busy.saturating_sub(now);
            let room = Duration::from_secs_f64(QUEUE_BYTES as f64 / self.rate as f64);
            if ahead > room {
                return Fate::default();
            }
            lane.busy = now + ahead + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
            wait += lane.busy.saturating_sub(now);
        }
        let copies = 1 + usize::from(random.f64() < self.twice);
        let after = (0..copies).map(|_| wait + self.jitter.mul_f64(random.f64()));
        Fate {
            after: after.collect(),
            is_garbled: random.f64() < self.garbled,
        }
    }
}

#[test]
fn a_link_loses_doubles_and_slows_as_it_says() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut count = |link: Link| -> usize {
        let mut lane = Lane::default();
        let fates = (0..1_000).map(|_| {
            link.fate(&mut lane, 1_000, Duration::ZERO, &mut random)
                .after
        });
        fates.map(|after| after.len()).sum()
    };
    let perfect = Link::default();
    assert_eq!(count(perfect), 1_000);
    let cut = Link {
        is_cut: true,
        ..perfect
    };
    assert_eq!(count(cut), 0);
    let lossy = Link {
        loss: 0.3,
        ..perfect
    };
    assert!((600..800).contains(&count(lossy)));
    let doubling = Link {
        twice: 0.5,
        ..perfect
    };
    assert!((1_400..1_600).contains(&count(doubling)));
    // What does not fit into the queue is lost.
    let slow = Link {
        rate: 10_000,
        ..perfect
    };
    assert!((60..70).contains(&count(slow)));
}

//! The clocks of one machine: one that only goes on, at its own rate, and one that is set by people.

use xce_model::WallTime;

/// Parts of a rate. A rate of as many parts is exact.
const PARTS: u64 = 100_000;

#[derive(Debug, Clone)]
pub struct Clock {
    from_world: u64,
    from_mono: u64,
    rate: u64,
    wall_offset: i64,
}

impl Clock {
    pub fn new(now: u64) -> Self {
        Self {
            from_world: now,
            from_mono: now,
            rate: PARTS,
            wall_offset: 0,
        }
    }

    /// From now on it gains or loses so many parts of a hundred thousand.
    pub fn set_rate(&mut self, now: u64, gain: i64) {
        self.from_mono = self.mono(now);
        self.from_world = now;
        self.rate = PARTS.saturating_add_signed(gain);
    }

    pub fn set_wall(&mut self, offset: i64) {
        self.wall_offset = offset;
    }

    /// Its machine boots.
    pub fn boot(&mut self, now: u64) {
        (self.from_world, self.from_mono) = (now, 0);
    }

    pub fn mono(&self, now: u64) -> u64 {
        self.from_mono + now.saturating_sub(self.from_world) * self.rate / PARTS
    }

    /// When it will show a time.
    pub fn when(&self, mono: u64) -> u64 {
        let parts = mono.saturating_sub(self.from_mono) * PARTS;
        self.from_world + parts.div_ceil(self.rate)
    }

    pub fn wall(&self, now: u64) -> WallTime {
        let now = i64::try_from(now).expect("a time of this century");
        WallTime(now.saturating_add(self.wall_offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_when_it_is_said_to_be() {
        for gain in [-4_000, -1, 0, 7, 900] {
            let mut clock = Clock::new(1_000);
            clock.set_rate(5_000, gain);
            for mono in [5_001, 6_000, 777_777] {
                let when = clock.when(mono);
                assert!(clock.mono(when) >= mono, "{gain} {mono}");
                assert!(clock.mono(when - 1) < mono, "{gain} {mono}");
            }
        }
    }
}

//! How processes behave, by the first word of their command.

/// How a launch goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launch {
    Fine,
    /// The program does not exist.
    NotFound,
    /// The host cannot start it.
    HostFails,
}

/// When readiness and startup probes succeed, in milliseconds since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    After(u64),
    Never,
    /// From `first` on, `up` of well and `down` of not, in turns.
    Flaps {
        first: u64,
        up: u64,
        down: u64,
    },
}

/// When liveness probes fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dead {
    Never,
    /// From this time after the start on.
    From(u64),
    /// Until this time after the start.
    Until(u64),
    /// Within these times after the start.
    Within(u64, u64),
}

/// How the processes of one command behave; a process keeps what it began with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behaviour {
    pub launch: Launch,
    pub launch_ms: u64,
    pub ready: Ready,
    pub dead: Dead,
    /// Ends by itself after this time.
    pub crash_ms: Option<u64>,
    pub code: i32,
    /// Time that it takes to stop after the signal.
    pub stop_ms: u64,
    /// Ends only when it is killed.
    pub ignores_term: bool,
    /// Does not end even then, as in uninterruptible sleep.
    pub undying: bool,
    /// Time that a try of a probe takes.
    pub probe_ms: u64,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            launch: Launch::Fine,
            launch_ms: 3,
            ready: Ready::After(0),
            dead: Dead::Never,
            crash_ms: None,
            code: 1,
            stop_ms: 10,
            ignores_term: false,
            undying: false,
            probe_ms: 0,
        }
    }
}

impl Behaviour {
    pub fn good() -> Self {
        Self::default()
    }

    pub fn ready_after(ms: u64) -> Self {
        Self {
            ready: Ready::After(ms),
            ..Self::default()
        }
    }

    pub fn never_ready() -> Self {
        Self {
            ready: Ready::Never,
            ..Self::default()
        }
    }

    pub fn crashes_after(ms: u64) -> Self {
        Self {
            crash_ms: Some(ms),
            ..Self::default()
        }
    }

    /// Ready never, and ends after this time.
    pub fn broken(ms: u64) -> Self {
        Self {
            crash_ms: Some(ms),
            ..Self::never_ready()
        }
    }

    pub fn not_found() -> Self {
        Self {
            launch: Launch::NotFound,
            ..Self::default()
        }
    }

    pub fn host_fails() -> Self {
        Self {
            launch: Launch::HostFails,
            ..Self::default()
        }
    }

    pub fn flaps(first: u64, up: u64, down: u64) -> Self {
        Self {
            ready: Ready::Flaps { first, up, down },
            ..Self::default()
        }
    }

    pub fn slow_stop(ms: u64) -> Self {
        Self {
            stop_ms: ms,
            ..Self::default()
        }
    }

    pub fn ignores_term() -> Self {
        Self {
            ignores_term: true,
            ..Self::default()
        }
    }

    pub fn is_ready(&self, age_ms: u64) -> bool {
        match self.ready {
            Ready::After(after) => age_ms >= after,
            Ready::Never => false,
            Ready::Flaps { first, up, down } => {
                age_ms >= first && (age_ms - first) % (up + down) < up
            }
        }
    }

    pub fn is_dead(&self, age_ms: u64) -> bool {
        match self.dead {
            Dead::Never => false,
            Dead::From(from) => age_ms >= from,
            Dead::Until(until) => age_ms < until,
            Dead::Within(from, until) => (from..until).contains(&age_ms),
        }
    }
}

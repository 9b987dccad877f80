//! Reading what is to happen where.

use std::fmt;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::point::{ALL, Point};

/// Variable of the environment that arms points.
pub const VARIABLE: &str = "XCE_FAILPOINTS";

/// Variable of the environment with a directory: each point acts once among all who share it.
pub const ONCE_VARIABLE: &str = "XCE_FAILPOINTS_ONCE";

/// Longest delay in milliseconds.
/// Source: chosen; longer than any bound of the daemons that a test would want to pass.
const DELAY_MS_MAX: u64 = 600_000;

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Kill,
    Error,
    Delay(Duration),
}

/// A point and what happens there.
#[derive(Debug)]
pub struct Armed {
    point: Point,
    effect: Effect,
    /// At which hit it happens; from 1.
    at: u64,
    hits: AtomicU64,
    once: Option<PathBuf>,
}

/// Why points cannot be armed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArmError {
    /// It is not `POINT=ACTION` or `POINT=ACTION@HIT`.
    Form(String),
    /// There is no such point.
    Unknown(String),
    /// There is no such action, or its number is wrong.
    Action(String),
    /// Nobody at this point could take an error.
    NoError(Point),
    /// It was armed before in this process.
    Twice,
}

impl std::error::Error for ArmError {}

impl fmt::Display for ArmError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(text) => write!(
                out,
                "{VARIABLE}: {text:?} is not of the form POINT=ACTION or POINT=ACTION@HIT"
            ),
            Self::Unknown(name) => {
                let names: Vec<&str> = ALL.iter().map(|point| point.name()).collect();
                let names = names.join(", ");
                write!(
                    out,
                    "{VARIABLE}: there is no point {name:?}; there are {names}"
                )
            }
            Self::Action(text) => write!(
                out,
                "{VARIABLE}: {text:?} is no action; there are kill, error and delay:MILLISECONDS, each \
                 with @HIT from 1 where the first hit is not meant"
            ),
            Self::NoError(point) => {
                write!(
                    out,
                    "{VARIABLE}: nothing at {point} can fail: use kill or delay"
                )
            }
            Self::Twice => write!(out, "{VARIABLE}: points are armed already"),
        }
    }
}

/// Arms what the environment of this process names; says what, one text each. Called once, before
/// anything is done.
///
/// # Errors
/// As [`ArmError`] says; nothing is armed then.
pub fn arm() -> Result<Vec<String>, ArmError> {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let once = std::env::var_os(ONCE_VARIABLE).map(PathBuf::from);
    arm_with(&text, once.as_deref())
}

/// As [`arm`], with the contents of the two variables.
///
/// # Errors
/// As [`ArmError`] says; nothing is armed then.
pub fn arm_with(text: &str, once: Option<&Path>) -> Result<Vec<String>, ArmError> {
    let armed = parse(text, once)?;
    let told = armed.iter().map(Armed::to_string).collect();
    if armed.is_empty() || crate::install(armed) {
        Ok(told)
    } else {
        Err(ArmError::Twice)
    }
}

pub(crate) fn parse(text: &str, once: Option<&Path>) -> Result<Vec<Armed>, ArmError> {
    let parts = text.split(',').map(str::trim);
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(|part| parse_one(part, once)).collect()
}

fn parse_one(text: &str, once: Option<&Path>) -> Result<Armed, ArmError> {
    let (name, action) = text
        .split_once('=')
        .ok_or_else(|| ArmError::Form(text.to_owned()))?;
    let point = Point::find(name).ok_or_else(|| ArmError::Unknown(name.to_owned()))?;
    let wrong = || ArmError::Action(action.to_owned());
    let (word, at) = match action.split_once('@') {
        None => (action, 1),
        Some((word, at)) => (word, at.parse().map_err(|_| wrong())?),
    };
    let effect = match word.split_once(':') {
        None if word == "kill" => Effect::Kill,
        None if word == "error" => Effect::Error,
        Some(("delay", millis)) => {
            let millis = millis.parse().map_err(|_| wrong())?;
            if millis > DELAY_MS_MAX {
                return Err(wrong());
            }
            Effect::Delay(Duration::from_millis(millis))
        }
        None | Some(_) => return Err(wrong()),
    };
    if at == 0 {
        return Err(wrong());
    }
    if effect == Effect::Error && !point.takes_error() {
        return Err(ArmError::NoError(point));
    }
    Ok(Armed {
        point,
        effect,
        at,
        hits: AtomicU64::new(0),
        once: once.map(|directory| directory.join(point.name())),
    })
}

impl Armed {
    /// The point.
    pub fn point(&self) -> Point {
        self.point
    }

    /// Counts a hit; what happens, if this is the one.
    pub(crate) fn pass(&self) -> Option<Effect> {
        let hit = self.hits.fetch_add(1, Ordering::Relaxed) + 1;
        if hit != self.at {
            return None;
        }
        if let Some(path) = &self.once {
            // Where the file is there, another process or an earlier one has acted.
            let made = OpenOptions::new().write(true).create_new(true).open(path);
            made.ok()?;
        }
        Some(self.effect)
    }
}

impl fmt::Display for Armed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let point = self.point;
        match self.effect {
            Effect::Kill => write!(out, "{point}=kill@{}", self.at),
            Effect::Error => write!(out, "{point}=error@{}", self.at),
            Effect::Delay(time) => write!(out, "{point}=delay:{}@{}", time.as_millis(), self.at),
        }
    }
}

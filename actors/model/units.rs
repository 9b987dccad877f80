//! Quantities with their units; user-facing texts such as `10s`, `512MiB` and `0.5`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A duration in milliseconds.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(into = "String", try_from = "DurationText")]
pub struct Millis(pub u64);

/// An amount of memory or storage in bytes.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(into = "String", try_from = "SizeText")]
pub struct Bytes(pub u64);

/// An amount of processor time per time, in thousandths of one processor.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(into = "f64", try_from = "CpuText")]
pub struct MilliCpu(pub u64);

/// A time that never decreases over the whole life of the cluster, in milliseconds.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct ClusterTime(pub u64);

/// A wall-clock time in milliseconds since 1970, for display only.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct WallTime(pub i64);

/// A text that is not a quantity of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted}")]
pub struct UnitError {
    /// What was given, at most 64 characters of it.
    pub text: String,
    /// What is allowed.
    pub wanted: &'static str,
}

const DURATION_WANTED: &str = "a duration: a number with a unit, such as 500ms, 10s, 5m, 2h or 1d";
const SIZE_WANTED: &str =
    "a size: a number with a unit, such as 64KiB, 512MiB, 4GiB, 1TiB or 500MB";
const CPU_WANTED: &str = "a number of processors from 0.001 to 1000000";

/// Longest duration that can be given. Source: derived, a hundred years.
pub const DURATION_MAX: Millis = Millis(100 * 366 * 86_400_000);

impl Millis {
    /// A duration of whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds * 1000)
    }

    /// As the standard library's type.
    pub const fn duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl ClusterTime {
    /// This time and a duration, at most the end of time.
    pub const fn after(self, wait: Millis) -> Self {
        Self(self.0.saturating_add(wait.0))
    }

    /// How long ago `earlier` was; zero when it lies ahead.
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

fn wrong(text: &str, wanted: &'static str) -> UnitError {
    UnitError {
        text: text.chars().take(64).collect(),
        wanted,
    }
}

impl FromStr for Millis {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let trimmed = text.trim();
        if trimmed == "0" {
            return Ok(Self(0));
        }
        let parsed =
            humantime::parse_duration(trimmed).map_err(|_| wrong(text, DURATION_WANTED))?;
        let millis = u64::try_from(parsed.as_millis()).unwrap_or(u64::MAX);
        if millis > DURATION_MAX.0 || (millis == 0 && !parsed.is_zero()) {
            return Err(wrong(text, "a duration from 1ms to 100 years"));
        }
        Ok(Self(millis))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", humantime::format_duration(self.duration()))
    }
}

impl From<Millis> for String {
    fn from(value: Millis) -> Self {
        value.to_string()
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let has_unit = text
            .trim()
            .ends_with(|letter: char| letter.is_ascii_alphabetic());
        if !has_unit && text.trim() != "0" {
            return Err(wrong(text, SIZE_WANTED));
        }
        text.trim()
            .parse::<bytesize::ByteSize>()
            .map(|size| Self(size.as_u64()))
            .map_err(|_| wrong(text, SIZE_WANTED))
    }
}

/// Units of sizes, largest first.
const SIZE_UNITS: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SIZE_UNITS
            .iter()
            .find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of(*unit))
        {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl Bytes {
    /// For people: the largest unit that fits, with one decimal where it is not whole.
    pub fn rounded(self) -> String {
        let unit = SIZE_UNITS.iter().find(|(_, unit)| self.0 >= *unit);
        match unit {
            Some((name, unit)) if self.0.is_multiple_of(*unit) => {
                format!("{}{name}", self.0 / unit)
            }
            Some((name, unit)) => format!("{:.1}{name}", self.0 as f64 / *unit as f64),
            None => format!("{}B", self.0),
        }
    }
}

impl From<Bytes> for String {
    fn from(value: Bytes) -> Self {
        value.to_string()
    }
}

/// Most processors that can be asked for. Source: derived, beyond any cluster's size.
const CPU_MAX: f64 = 1_000_000.0;

impl TryFrom<f64> for MilliCpu {
    type Error = UnitError;

    fn try_from(value: f64) -> Result<Self, UnitError> {
        if !(0.001..=CPU_MAX).contains(&value) {
            return Err(wrong(&value.to_string(), CPU_WANTED));
        }
        // In range, so the conversion cannot lose the sign or overflow.
        Ok(Self((value * 1000.0).round() as u64))
    }
}

impl From<MilliCpu> for f64 {
    fn from(value: MilliCpu) -> Self {
        value.0 as f64 / 1000.0
    }
}

impl FromStr for MilliCpu {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let value = text
            .trim()
            .parse::<f64>()
            .map_err(|_| wrong(text, CPU_WANTED))?;
        Self::try_from(value).map_err(|_| wrong(text, CPU_WANTED))
    }
}

impl fmt::Display for MilliCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(*self))
    }
}

/// What a file may hold where a duration is wanted; a bare number other than 0 gets the same error
/// as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum DurationText {
    Text(String),
    Number(f64),
}

impl TryFrom<DurationText> for Millis {
    type Error = UnitError;

    fn try_from(value: DurationText) -> Result<Self, UnitError> {
        match value {
            DurationText::Text(text) => text.parse(),
            DurationText::Number(0.0) => Ok(Self(0)),
            DurationText::Number(number) => Err(wrong(&number.to_string(), DURATION_WANTED)),
        }
    }
}

/// What a file may hold where a size is wanted.
#[derive(Deserialize)]
#[serde(untagged)]
enum SizeText {
    Text(String),
    Number(f64),
}

impl TryFrom<SizeText> for Bytes {
    type Error = UnitError;

    fn try_from(value: SizeText) -> Result<Self, UnitError> {
        match value {
            SizeText::Text(text) => text.parse(),
            SizeText::Number(number) => Err(wrong(&number.to_string(), SIZE_WANTED)),
        }
    }
}

/// What a file may hold where an amount of processors is wanted.
#[derive(Deserialize)]
#[serde(untagged)]
enum CpuText {
    Number(f64),
    Text(String),
}

impl TryFrom<CpuText> for MilliCpu {
    type Error = UnitError;

    fn try_from(value: CpuText) -> Result<Self, UnitError> {
        match value {
            CpuText::Number(number) => Self::try_from(number),
            CpuText::Text(text) => text.parse(),
        }
    }
}

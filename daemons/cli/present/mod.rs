//! How each kind of object looks to people.

pub mod actor;
pub mod history;
pub mod host;
pub mod job;
pub mod plan;
pub mod policy;
pub mod rollout;
pub mod service;
pub mod session;

use jiff::{Timestamp, ZonedDateTime};

/// A time of machine output as people read it: the time of day today, else with the date.
///
/// A text that is no time is given back as it is.
pub fn time(text: &str, now: &ZonedDateTime) -> String {
    match text.parse::<Timestamp>() {
        Ok(time) => local(time, now),
        Err(_) => text.to_owned(),
    }
}

/// As [`time`], `-` where there is none.
pub fn time_or_dash(text: Option<&str>, now: &ZonedDateTime) -> String {
    text.map_or_else(|| "-".to_owned(), |text| time(text, now))
}

fn local(time: Timestamp, now: &ZonedDateTime) -> String {
    let time = time.to_zoned_datetime(now.time_zone().clone());
    let form = if time.date() == now.date() {
        "%H:%M:%S"
    } else if time.year() == now.year() {
        "%b %d %H:%M"
    } else {
        "%Y-%m-%d %H:%M"
    };
    time.strftime(form).to_string()
}

/// A duration in milliseconds with its largest two units, such as `3m 20s`.
pub fn span(millis: u64) -> String {
    const UNITS: [(&str, u64); 4] = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1000),
    ];
    let Some(first) = UNITS.iter().position(|(_, size)| millis >= *size) else {
        return format!("{millis}ms");
    };
    let (unit, size) = UNITS[first];
    let head = format!("{}{unit}", millis / size);
    match UNITS.get(first + 1) {
        Some((unit, smaller)) if millis % size >= *smaller => {
            format!("{head} {}{unit}", millis % size / smaller)
        }
        Some(_) | None => head,
    }
}

//! How hosts look.

use xce_host::state::HostLife;
use xce_host::view::HostView;
use xce_model::Bytes;

use crate::cli::print::{Field, Look, Row, Tone, cell, pairs_text};

impl Row for HostView {
    fn head(wide: bool) -> Vec<&'static str> {
        let mut head = vec!["NAME", "STATE", "TAKES JOBS", "JOBS", "CPUS", "MEMORY"];
        if wide {
            head.extend(["SINCE", "ADDRESS", "LABELS", "NOT ENFORCED", "INCARNATION"]);
        }
        head.push("REASON");
        head
    }

    fn cells(&self, look: &Look) -> Vec<Field> {
        let mut cells = vec![
            cell(&self.name),
            state(self),
            takes_jobs(self.takes_jobs),
            jobs(self),
            cell(format!("{} of {}", self.cpus_used, self.cpus)),
            cell(format!(
                "{} of {}",
                size(&self.memory_used),
                size(&self.memory)
            )),
        ];
        if look.wide {
            cells.extend([
                cell(&self.since),
                cell(&self.address),
                cell(or_dash(&self.labels)),
                cell(or_dash(&self.not_enforced)),
                cell(&self.incarnation),
            ]);
        }
        cells.push(cell(&self.reason));
        cells
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// One host for people.
pub fn details(host: &HostView, _look: &Look) -> String {
    let mut pairs = vec![
        ("host", host.name.clone()),
        ("state", format!("{}: {}", host.state.word(), host.reason)),
        (
            "takes jobs",
            if host.takes_jobs { "yes" } else { "no" }.to_owned(),
        ),
        ("since", host.since.clone()),
        ("drain", drain(host)),
        ("jobs", jobs_text(host)),
        (
            "cpus",
            format!("{} of {} in use", host.cpus_used, host.cpus),
        ),
        (
            "memory",
            format!(
                "{} of {} in use",
                size(&host.memory_used),
                size(&host.memory)
            ),
        ),
        ("address", host.address.clone()),
        ("labels", host.labels.join(", ")),
        ("not enforced", host.not_enforced.join(", ")),
        ("incarnation", host.incarnation.clone()),
        ("may still run", host.remnants.join(", ")),
    ];
    let left = host.drain.iter().flat_map(|drain| &drain.left);
    pairs.extend(left.map(|line| ("left", line.clone())));
    pairs_text(&pairs)
}

/// A size of machine output as people read it, with one decimal, such as `23.5GiB`.
fn size(text: &str) -> String {
    let Ok(Bytes(bytes)) = text.parse::<Bytes>() else {
        return text.to_owned();
    };
    const UNITS: [(&str, u64); 4] = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
    ];
    let Some((unit, size)) = UNITS.iter().find(|(_, size)| bytes >= *size) else {
        return text.to_owned();
    };
    match (bytes / size, bytes % size * 10 / size) {
        (whole, 0) => format!("{whole}{unit}"),
        (whole, tenth) => format!("{whole}.{tenth}{unit}"),
    }
}

/// Such as `3`, or `3 unreachable` where the host does not answer.
fn jobs_text(host: &HostView) -> String {
    match host.jobs_unreachable {
        0 => host.jobs.to_string(),
        count => format!("{count} unreachable"),
    }
}

fn jobs(host: &HostView) -> Field {
    match host.jobs_unreachable {
        0 => cell(host.jobs),
        _ => Field::toned(jobs_text(host), Tone::Bad),
    }
}

fn or_dash(list: &[String]) -> String {
    if list.is_empty() {
        "-".to_owned()
    } else {
        list.join(",")
    }
}

/// Such as `up`, `draining` or `lost, drained`.
fn state(host: &HostView) -> Field {
    let word = host.state.word();
    match (&host.drain, host.state) {
        (None, life) => Field::toned(word, tone(life)),
        (Some(drain), HostLife::Up) => Field::toned(&drain.state, Tone::Passing),
        (Some(drain), life) => Field::toned(format!("{word}, {}", drain.state), tone(life)),
    }
}

/// Such as `draining since ..., by ann: a new disk`.
fn drain(host: &HostView) -> String {
    let Some(drain) = &host.drain else {
        return String::new();
    };
    let mut text = format!("{} by {}: {}", drain.state, drain.by, drain.reason);
    text += &format!("; since {}", drain.since);
    if let Some(deadline) = &drain.deadline {
        text += &format!(", deadline {deadline}");
    }
    text
}

fn takes_jobs(takes: bool) -> Field {
    if takes {
        Field::toned("yes", Tone::Good)
    } else {
        Field::toned("no", Tone::Bad)
    }
}

fn tone(life: HostLife) -> Tone {
    match life {
        HostLife::Up => Tone::Good,
        HostLife::Suspect | HostLife::Away => Tone::Passing,
        HostLife::Lost => Tone::Bad,
    }
}

//! How hosts look.

use xce_host::state::HostLife;
use xce_host::view::HostView;
use xce_model::Bytes;

use crate::cli::print::{Field, Look, Row, Tone, cell, pairs_text};

impl Row for HostView {
    fn head(wide: bool) -> Vec<&'static str> {
        let mut head = vec!["NAME", "STATE", "TAKES JOBS", "JOBS", "CPUS", "MEMORY"];
        if wide {
            head.extend(["ADDRESS", "LABELS", "NOT ENFORCED", "INCARNATION"]);
        }
        head.push("REASON");
        head
    }

    fn cells(&self, look: &Look) -> Vec<Field> {
        let mut cells = vec![
            cell(&self.name),
            Field::toned(self.state.word(), tone(self.state)),
            takes_jobs(self.takes_jobs),
            cell(self.jobs),
            cell(format!("{} of {}", self.cpus_used, self.cpus)),
            cell(format!(
                "{} of {}",
                size(&self.memory_used),
                size(&self.memory)
            )),
        ];
        if look.wide {
            cells.extend([
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
    pairs_text(&[
        ("host", host.name.clone()),
        ("state", format!("{}: {}", host.state.word(), host.reason)),
        (
            "takes jobs",
            if host.takes_jobs { "yes" } else { "no" }.to_owned(),
        ),
        ("jobs", host.jobs.to_string()),
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
    ])
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

fn or_dash(list: &[String]) -> String {
    if list.is_empty() {
        "-".to_owned()
    } else {
        list.join(",")
    }
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

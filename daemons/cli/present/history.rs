//! How versions look.

use xce_session::history::VersionDetails;

use super::service::word;
use super::time;
use crate::cli::print::{Field, Look, Row, Tone, cell, pairs_text};
use xce_service::state::Outcome;

impl Row for VersionDetails {
    fn head(wide: bool) -> Vec<&'static str> {
        let mut head = vec!["VERSION", "WHY", "OUTCOME", "AUTHOR", "TIME"];
        if wide {
            head.extend(["WANTED", "QUEUE", "READY AFTER"]);
        }
        head.push("RUNS");
        head
    }

    fn cells(&self, look: &Look) -> Vec<Field> {
        let version = &self.version;
        let current = if self.current { " (current)" } else { "" };
        let author = match version.author.as_str() {
            "" => "XCE",
            author => author,
        };
        let mut cells = vec![
            cell(format!("{}{current}", version.number)),
            cell(word(&version.reason)),
            Field::toned(word(&version.outcome), tone(version.outcome)),
            cell(author),
            cell(time(&version.time, &look.now)),
        ];
        if look.wide {
            let ready = self.times.ready;
            cells.extend([
                cell(version.want),
                cell(&self.queue),
                cell(ready.map_or_else(|| "-".to_owned(), |ready| ready.to_string())),
            ]);
        }
        cells.push(cell(&self.summary));
        cells
    }

    fn name(&self) -> String {
        self.version.number.to_string()
    }
}

fn tone(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::Completed => Tone::Good,
        Outcome::Rolling | Outcome::Untested => Tone::Passing,
        Outcome::Superseded => Tone::Plain,
        Outcome::Stuck | Outcome::RolledBack => Tone::Bad,
    }
}

/// One version for people, without what it runs.
pub fn details(details: &VersionDetails, look: &Look) -> String {
    let version = &details.version;
    let times = &details.times;
    let known =
        |time: Option<xce_model::Millis>, what: &str| time.map(|time| format!("{what} {time}"));
    let times: Vec<String> = [
        known(times.start, "started in"),
        known(times.ready, "ready after"),
        known(times.stop, "stopped in"),
    ]
    .into_iter()
    .flatten()
    .collect();
    pairs_text(&[
        ("version", version.number.to_string()),
        ("why", word(&version.reason)),
        ("outcome", word(&version.outcome)),
        ("author", version.author.clone()),
        ("time", time(&version.time, &look.now)),
        ("queue", details.queue.clone()),
        ("measured", times.join(", ")),
    ])
}

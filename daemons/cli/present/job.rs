//! How jobs look.

use xce_replica::view::JobView;

use super::service::state_tone;
use super::{time, time_or_dash};
use crate::cli::print::{Field, Look, Row, cell, pairs_text};

/// Characters of a command in a table. Source: chosen, so that a row fits a usual terminal.
const COMMAND_CHARS_MAX: usize = 40;

impl Row for JobView {
    fn head(wide: bool) -> Vec<&'static str> {
        let mut head = vec!["ID", "NAME", "STATE", "RUN", "HOST", "SUBMITTED"];
        if wide {
            head.extend([
                "STARTED", "ENDED", "EXIT", "OWNER", "PROJECT", "QUEUE", "CPUS", "MEMORY",
                "RESTARTS", "PID", "COMMAND",
            ]);
        }
        head.push("REASON");
        head
    }

    fn cells(&self, look: &Look) -> Vec<Field> {
        let mut cells = vec![
            cell(&self.id),
            cell(&self.name),
            Field::toned(self.state, state_tone(self.state)),
            cell(self.run),
            cell(format!(
                "{}{}",
                self.host.as_deref().unwrap_or("-"),
                silence(self)
            )),
            cell(time(&self.submitted, &look.now)),
        ];
        if look.wide {
            cells.extend([
                cell(time_or_dash(self.started.as_deref(), &look.now)),
                cell(time_or_dash(self.ended.as_deref(), &look.now)),
                cell(exit(self).unwrap_or_else(|| "-".to_owned())),
                cell(&self.owner),
                cell(&self.project),
                cell(&self.queue),
                cell(&self.cpus),
                cell(&self.memory),
                cell(self.restarts),
                cell(
                    self.pid
                        .map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
                ),
                cell(command(self, COMMAND_CHARS_MAX)),
            ]);
        }
        cells.push(cell(&self.reason));
        cells
    }

    fn name(&self) -> String {
        self.id.clone()
    }
}

/// What is told of a host that does not answer.
fn silence(job: &JobView) -> &'static str {
    match (job.lost, job.reachable) {
        (true, _) => " (lost)",
        (false, Some(false)) => " (unreachable)",
        (false, Some(true) | None) => "",
    }
}

/// One job for people.
pub fn details(job: &JobView, look: &Look) -> String {
    let ports: Vec<String> = job
        .ports
        .iter()
        .map(|port| format!("{}={}", port.name, port.port))
        .collect();
    let host = job.host.as_ref();
    let host = host.map(|host| format!("{host}{}", silence(job)));
    let moment = |text: &Option<String>| text.as_deref().map(|text| time(text, &look.now));
    let mut text = pairs_text(&[
        (
            "job",
            format!(
                "{} {} (project {}, queue {})",
                job.id, job.name, job.project, job.queue
            ),
        ),
        ("state", format!("{}: {}", job.state, job.reason)),
        ("code", job.reason_code.clone()),
        ("service", replica(job).unwrap_or_default()),
        ("array", array(job).unwrap_or_default()),
        (
            "run",
            format!("{}, {} restarts in place", job.run, job.restarts),
        ),
        ("host", host.unwrap_or_default()),
        (
            "pid",
            job.pid.map(|pid| pid.to_string()).unwrap_or_default(),
        ),
        ("ports", ports.join(" ")),
        ("exit", exit(job).unwrap_or_default()),
        ("command", command(job, usize::MAX)),
        ("resources", format!("{} cpus, {}", job.cpus, job.memory)),
        ("owner", job.owner.clone()),
        ("submitted", time(&job.submitted, &look.now)),
        ("started", moment(&job.started).unwrap_or_default()),
        ("ended", moment(&job.ended).unwrap_or_default()),
    ]);
    for past in &job.past {
        let ended = time(&past.ended, &look.now);
        let line = format!(
            "  run {} on {}, until {ended}: {}",
            past.run, past.host, past.reason
        );
        text.push_str(&crate::cli::print::visible(&line));
        text.push('\n');
    }
    if !job.stderr.is_empty() {
        text.push_str("stderr:\n");
        for line in job.stderr.lines() {
            text.push_str(&format!("  {}\n", crate::cli::print::visible(line)));
        }
    }
    text
}

fn replica(job: &JobView) -> Option<String> {
    job.service.as_ref().map(|service| {
        let index = job
            .replica
            .map(|index| format!(", replica {index}"))
            .unwrap_or_default();
        let version = job
            .version
            .map(|version| format!(", version {version}"))
            .unwrap_or_default();
        let ready = if job.ready { ", ready" } else { ", not ready" };
        format!("{service}{index}{version}{ready}")
    })
}

fn array(job: &JobView) -> Option<String> {
    job.array.as_ref().map(|array| {
        let limit = array
            .slot_limit
            .map(|limit| format!(", {limit} at once"))
            .unwrap_or_default();
        format!(
            "{} ({} elements{limit}): {} pending, {} running, {} done, {} exited",
            array.elements, array.total, array.pending, array.running, array.done, array.exited
        )
    })
}

fn exit(job: &JobView) -> Option<String> {
    let exit = job.exit.as_ref()?;
    Some(match (exit.code, exit.signal) {
        (Some(code), _) => format!("code {code} ({})", exit.cause),
        (None, Some(signal)) => format!("signal {signal} ({})", exit.cause),
        (None, None) => exit.cause.to_string(),
    })
}

fn command(job: &JobView, most: usize) -> String {
    let text = job
        .command
        .iter()
        .map(|word| quoted(word))
        .collect::<Vec<_>>()
        .join(" ");
    if text.chars().count() <= most {
        return text;
    }
    let cut: String = text.chars().take(most - 1).collect();
    format!("{cut}…")
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "_-./=:,@%+^".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

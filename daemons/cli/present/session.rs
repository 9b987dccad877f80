//! How sessions and the cluster look.

use xce_session::member_wire::MemberView;
use xce_session::wire::{ClusterView, SessionView};

use super::span;
use crate::cli::print::{Field, Look, Row, Tone, cell, pairs_text};

impl Row for SessionView {
    fn head(wide: bool) -> Vec<&'static str> {
        let mut head = vec!["ID", "KIND", "PRINCIPAL", "CONNECTED", "REMOTE"];
        if wide {
            head.extend(["EPOCH", "RECEIVED", "SENT"]);
        }
        head.push("LAST RESUME");
        head
    }

    fn cells(&self, look: &Look) -> Vec<Field> {
        let connected = if self.connected {
            Field::toned("yes", Tone::Good)
        } else {
            Field::toned("no", Tone::Passing)
        };
        let mut cells = vec![
            cell(self.id),
            cell(&self.kind),
            cell(&self.principal),
            connected,
            cell(&self.remote),
        ];
        if look.wide {
            cells.extend([cell(self.epoch), cell(self.received), cell(self.sent)]);
        }
        cells.push(cell(&self.last_resume));
        cells
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

/// One session for people.
pub fn details(session: &SessionView, _look: &Look) -> String {
    pairs_text(&[
        ("session", session.id.to_string()),
        ("kind", session.kind.clone()),
        ("principal", session.principal.clone()),
        (
            "connected",
            if session.connected { "yes" } else { "no" }.to_owned(),
        ),
        ("remote", session.remote.clone()),
        ("epoch", session.epoch.to_string()),
        (
            "messages",
            format!("{} received, {} sent", session.received, session.sent),
        ),
        ("last resume", session.last_resume.clone()),
        ("reads", reads(session)),
    ])
}

/// Endpoints that it reads, with how far it is.
fn reads(session: &SessionView) -> String {
    let reads = session.reads.iter().map(|read| {
        let sent = read
            .sent
            .map_or_else(|| "nothing yet".to_owned(), |sent| sent.to_string());
        let says = match (read.acknowledges, read.acknowledged) {
            (false, _) => "only watches".to_owned(),
            (true, None) => "uses none yet".to_owned(),
            (true, Some(used)) => format!("uses {used}"),
        };
        format!("endpoints of service {}: sent {sent}, {says}", read.service)
    });
    reads.collect::<Vec<_>>().join("; ")
}

impl Row for ClusterView {
    fn head(_wide: bool) -> Vec<&'static str> {
        vec![
            "CLUSTER", "ROLE", "LSN", "SERVICES", "JOBS", "PENDING", "HOSTS UP", "ALARMS",
        ]
    }

    fn cells(&self, _look: &Look) -> Vec<Field> {
        vec![
            cell(&self.cluster),
            cell(&self.role),
            cell(self.lsn),
            cell(self.services),
            cell(self.jobs),
            cell(self.pending),
            cell(format!("{} of {}", self.hosts_up, self.hosts)),
            cell(self.alarms.len()),
        ]
    }

    fn name(&self) -> String {
        self.cluster.clone()
    }
}

impl Row for MemberView {
    fn head(_wide: bool) -> Vec<&'static str> {
        vec![
            "NAME", "ROLE", "ADDRESS", "LSN", "BEHIND", "HEARD", "VERSION", "LEVEL",
        ]
    }

    fn cells(&self, _look: &Look) -> Vec<Field> {
        let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |at| at.to_string());
        let heard = self
            .heard_ms
            .map_or_else(|| "-".to_owned(), |ms| format!("{ms}ms ago"));
        vec![
            cell(&self.name),
            cell(&self.role),
            cell(&self.address),
            cell(number(self.lsn)),
            cell(number(self.behind)),
            cell(heard),
            cell(or_dash(&self.version)),
            cell(number(
                Some(u64::from(self.level)).filter(|level| *level > 0),
            )),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// One controller in a line of the cluster's status.
fn controller(member: &MemberView) -> String {
    let mut text = format!("{}, {} at {}", member.name, member.role, member.address);
    if let Some(behind) = member.behind.filter(|_| member.role != "primary") {
        text += &format!(", {behind} entries behind");
    }
    match member.heard_ms {
        Some(ms) => text += &format!(", heard {} ago", span(ms)),
        None if member.role != "primary" => text += ", not heard",
        None => {}
    }
    text
}

/// The cluster for people.
pub fn cluster(cluster: &ClusterView, _look: &Look) -> String {
    let mut pairs = vec![
        ("cluster".to_owned(), cluster.cluster.clone()),
        (
            "controller".to_owned(),
            format!(
                "{}, pid {}, version {}",
                cluster.role, cluster.pid, cluster.version
            ),
        ),
        (
            "position".to_owned(),
            format!("LSN {}, term {}", cluster.lsn, cluster.term),
        ),
        ("cluster time".to_owned(), span(cluster.time_ms)),
        (
            "primary".to_owned(),
            match (cluster.primary.as_str(), cluster.primary_since.as_str()) {
                ("", _) => "none is known".to_owned(),
                (primary, "") => primary.to_owned(),
                (primary, since) => format!("{primary}, since {since}"),
            },
        ),
        (
            "quorum".to_owned(),
            match cluster.voters {
                0 => "not known here".to_owned(),
                voters => format!(
                    "{} of {voters} controllers with a vote answer, {} must agree",
                    cluster.voters_up, cluster.quorum
                ),
            },
        ),
        (
            "epoch".to_owned(),
            format!("{}, feature level {}", cluster.epoch, cluster.level),
        ),
        (
            "hosts".to_owned(),
            format!("{} up of {}", cluster.hosts_up, cluster.hosts),
        ),
        ("services".to_owned(), cluster.services.to_string()),
        (
            "jobs".to_owned(),
            format!(
                "{} not ended, {} of them pending",
                cluster.jobs, cluster.pending
            ),
        ),
        ("sessions".to_owned(), cluster.sessions.to_string()),
    ];
    let wal = cluster
        .wal
        .iter()
        .map(|(name, value)| (format!("wal {name}"), value.clone()));
    pairs.extend(wal);
    let members = cluster.controllers.iter();
    pairs.extend(members.map(|member| ("member".to_owned(), controller(member))));
    if cluster.alarms.is_empty() {
        pairs.push(("alarms".to_owned(), "none".to_owned()));
    }
    pairs.extend(
        cluster
            .alarms
            .iter()
            .map(|alarm| ("alarm".to_owned(), alarm.clone())),
    );
    pairs_text(&pairs)
}

//! One try of a probe.

use std::time::Duration;

use tokio::net::TcpStream;
use xce_model::spec::{Probe, ProbeAction};

use super::{Outcome, exec, grpc, http};
use crate::environment::Environment;

/// Longest time-out of a try.
///
/// Source: derived; a day, so that no sum of times overflows.
const TIMEOUT_MAX: Duration = Duration::from_secs(86_400);

/// Longest text of an outcome, in bytes.
///
/// Source: derived; one line of a table, and facts stay small.
const TEXT_BYTES_MAX: usize = 256;

/// What a try needs to know of its run.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The job's environment.
    pub environment: Environment,
    /// The job's working directory.
    pub work_dir: String,
    /// Ports by name.
    pub ports: Vec<(String, u16)>,
    /// User and group of the job, where they are not the worker's own.
    pub user: Option<(u32, u32)>,
}

impl Surroundings {
    fn port(&self, name: &str) -> Option<u16> {
        let named = self.ports.iter().find(|(known, _)| known == name);
        named
            .map(|(_, port)| *port)
            .or_else(|| name.parse().ok().filter(|port| *port != 0))
    }
}

/// Tries once, within the probe's time-out.
pub async fn attempt(probe: &Probe, around: &Surroundings) -> Outcome {
    let within = probe
        .timeout
        .duration()
        .clamp(Duration::from_millis(1), TIMEOUT_MAX);
    let outcome = match &probe.action {
        ProbeAction::Http {
            port,
            host,
            path,
            status_min,
            status_max,
            headers,
        } => {
            let Some(port) = around.port(port) else {
                return no_port(port);
            };
            let request = http::Request {
                host,
                port,
                path,
                headers,
            };
            match tokio::time::timeout(within, http::status(&request)).await {
                Ok(Ok(status)) if (*status_min..=*status_max).contains(&status) => Outcome::Success,
                Ok(Ok(status)) => Outcome::Failure(format!(
                    "status {status}, wanted {status_min} to {status_max}"
                )),
                Ok(Err(text)) => Outcome::Failure(text),
                Err(_) => late(within),
            }
        }
        ProbeAction::Tcp { port, host } => {
            let Some(port) = around.port(port) else {
                return no_port(port);
            };
            let connecting = TcpStream::connect((resolvable(host), port));
            match tokio::time::timeout(within, connecting).await {
                Ok(Ok(_)) => Outcome::Success,
                Ok(Err(error)) => Outcome::Failure(format!("{}: {error}", authority(host, port))),
                Err(_) => late(within),
            }
        }
        ProbeAction::Exec { command } => exec::run(command, around, within).await,
        ProbeAction::Grpc {
            port,
            host,
            service,
        } => {
            let Some(port) = around.port(port) else {
                return no_port(port);
            };
            match tokio::time::timeout(within, grpc::check(host, port, service)).await {
                Ok(outcome) => outcome,
                Err(_) => late(within),
            }
        }
    };
    match outcome {
        Outcome::Success => Outcome::Success,
        Outcome::Failure(text) => Outcome::Failure(cut(text)),
        Outcome::Unrunnable(text) => Outcome::Unrunnable(cut(text)),
    }
}

fn no_port(name: &str) -> Outcome {
    Outcome::Unrunnable(cut(format!("the job has no port `{name}`")))
}

pub(super) fn late(within: Duration) -> Outcome {
    Outcome::Failure(format!("no answer within {} ms", within.as_millis()))
}

/// `host:port` as it stands in an address of the web: an IPv6 literal in brackets.
pub(super) fn authority(host: &str, port: u16) -> String {
    let bare = resolvable(host);
    if bare.contains(':') {
        format!("[{bare}]:{port}")
    } else {
        format!("{bare}:{port}")
    }
}

/// A host as the resolver takes it: an IPv6 literal without brackets.
pub(super) fn resolvable(host: &str) -> &str {
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    bare.unwrap_or(host)
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text.retain(|letter| !letter.is_control());
    text
}

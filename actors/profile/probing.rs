//! Probes of a merged document.

use xce_model::Millis;
use xce_model::spec::{PortSpec, Probe, ProbeAction, Probes};

use crate::checks::{command_fault, shown};
use crate::closest;
use crate::defaults;
use crate::document::{HttpFile, PortReference, ProbeFile, ProbesFile};
use crate::problem::Problems;

/// Shortest period and timeout of a probe.
/// Source: derived; one probe costs up to a millisecond of processor time, so this caps it at 10%.
pub const PERIOD_MIN: Millis = Millis(10);
/// Highest threshold of a probe. Source: chosen, beyond any use.
pub const THRESHOLD_MAX: u32 = 1000;

/// Checks and fills in probes. Port names are checked where the ports are known.
pub(crate) fn probes(
    file: Option<&ProbesFile>,
    ports: Option<&[PortSpec]>,
    problems: &mut Problems,
) -> Probes {
    let Some(file) = file else {
        return Probes::default();
    };
    let mut of = |probe: &Option<ProbeFile>, role: &str| {
        let mut reader = Reader {
            path: format!("probes.{role}"),
            ports,
            problems,
        };
        reader.probe(probe.as_ref()?, role == "readiness")
    };
    Probes {
        startup: of(&file.startup, "startup").map(Box::new),
        readiness: of(&file.readiness, "readiness").map(Box::new),
        liveness: of(&file.liveness, "liveness").map(Box::new),
    }
}

struct Reader<'r> {
    path: String,
    ports: Option<&'r [PortSpec]>,
    problems: &'r mut Problems,
}

impl Reader<'_> {
    fn fault(&mut self, field: &str, text: impl Into<String>) {
        let path = if field.is_empty() {
            self.path.clone()
        } else {
            format!("{}.{field}", self.path)
        };
        self.problems.add(path, text);
    }

    fn probe(&mut self, file: &ProbeFile, successes_free: bool) -> Option<Probe> {
        let action = self.action(file);
        let at_least = |reader: &mut Self, name: &str, value: Option<Millis>, default: Millis| {
            let value = value.unwrap_or(default);
            if value < PERIOD_MIN {
                reader.fault(
                    name,
                    format!("{value} is too short, the least is {PERIOD_MIN}"),
                );
            }
            value
        };
        let period = at_least(self, "period", file.period, defaults::PROBE_PERIOD);
        let timeout = at_least(self, "timeout", file.timeout, defaults::PROBE_TIMEOUT);
        let most = if successes_free { THRESHOLD_MAX } else { 1 };
        let successes = file.success_threshold.unwrap_or(defaults::PROBE_SUCCESSES);
        self.range("success_threshold", successes, 1, most);
        let failures = file.failure_threshold.unwrap_or(defaults::PROBE_FAILURES);
        self.range("failure_threshold", failures, 1, THRESHOLD_MAX);
        Some(Probe {
            action: action?,
            initial_delay: file.initial_delay.unwrap_or(Millis(0)),
            period,
            timeout,
            success_threshold: successes,
            failure_threshold: failures,
        })
    }

    fn range(&mut self, field: &str, value: u32, least: u32, most: u32) {
        if !(least..=most).contains(&value) {
            self.fault(
                field,
                format!("{value} is not a whole number from {least} to {most}"),
            );
        }
    }

    fn action(&mut self, file: &ProbeFile) -> Option<ProbeAction> {
        let given = [
            file.http.is_some(),
            file.tcp.is_some(),
            file.exec.is_some(),
            file.grpc.is_some(),
        ];
        let count = given.into_iter().filter(|given| *given).count();
        if count != 1 {
            let text = match count {
                0 => "a probe needs one of http, tcp, exec, grpc".to_owned(),
                _ => format!("a probe has only one of http, tcp, exec, grpc, not {count}"),
            };
            self.fault("", text);
            return None;
        }
        if let Some(http) = &file.http {
            return self.http(http);
        }
        if let Some(tcp) = &file.tcp {
            return Some(ProbeAction::Tcp {
                port: self.port("tcp.port", tcp.port.as_ref())?,
                host: self.host("tcp.host", tcp.host.as_ref()),
            });
        }
        if let Some(grpc) = &file.grpc {
            let service = grpc.service.clone().unwrap_or_default();
            if !service.bytes().all(|byte| byte.is_ascii_graphic()) {
                self.fault(
                    "grpc.service",
                    "a service has no spaces or control characters",
                );
            }
            return Some(ProbeAction::Grpc {
                port: self.port("grpc.port", grpc.port.as_ref())?,
                host: self.host("grpc.host", grpc.host.as_ref()),
                service,
            });
        }
        let Some(command) = file.exec.as_ref().and_then(|exec| exec.command.clone()) else {
            self.fault(
                "exec",
                "`command` is missing: a list with the program and its arguments",
            );
            return None;
        };
        if let Err(text) = command_fault(&command) {
            self.fault("exec.command", text);
        }
        Some(ProbeAction::Exec { command })
    }

    fn http(&mut self, file: &HttpFile) -> Option<ProbeAction> {
        let path = file.path.clone().unwrap_or_else(|| "/".to_owned());
        if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            self.fault(
                "http.path",
                "a path begins with `/` and has no spaces or control characters",
            );
        }
        // Source: RFC 9110 section 15, a status has three digits; 200 to 399 is neither error class.
        let (status_min, status_max) = (
            file.status_min.unwrap_or(200),
            file.status_max.unwrap_or(399),
        );
        self.range("http.status_min", u32::from(status_min), 100, 599);
        self.range("http.status_max", u32::from(status_max), 100, 599);
        if status_min > status_max {
            let text = format!("status_min {status_min} is above status_max {status_max}");
            self.fault("http", text);
        }
        let headers = file.headers.clone().unwrap_or_default();
        for (name, value) in &headers {
            // Source: RFC 9110 section 5.6.2, characters of a token.
            let token =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(token) {
                let text = format!(
                    "`{}`: a header's name has letters, digits and `-` only",
                    shown(name)
                );
                self.fault("http.headers", text);
            }
            if value.chars().any(char::is_control) {
                self.fault("http.headers", "a header's value has no control characters");
            }
        }
        Some(ProbeAction::Http {
            port: self.port("http.port", file.port.as_ref())?,
            host: self.host("http.host", file.host.as_ref()),
            path,
            status_min,
            status_max,
            headers: headers.into_iter().collect(),
        })
    }

    fn host(&mut self, field: &str, host: Option<&String>) -> String {
        let Some(host) = host else {
            return defaults::PROBE_HOST.to_owned();
        };
        if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            self.fault(field, "a host is a name or an address");
        }
        host.clone()
    }

    /// A name that the template declares, or a number.
    fn port(&mut self, field: &str, port: Option<&PortReference>) -> Option<String> {
        let Some(PortReference(name)) = port else {
            let text = format!("it is missing: {}", allowed(self.ports.unwrap_or_default()));
            self.fault(field, text);
            return None;
        };
        let Some(ports) = self.ports else {
            return Some(name.clone());
        };
        let number = name.parse::<u16>().is_ok_and(|number| number > 0);
        if number || ports.iter().any(|port| port.name == *name) {
            return Some(name.clone());
        }
        let proposal = closest(name, ports.iter().map(|port| port.name.as_str()))
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        let text = format!(
            "there is no port `{}`{proposal} ({})",
            shown(name),
            allowed(ports)
        );
        self.fault(field, text);
        None
    }
}

fn allowed(ports: &[PortSpec]) -> String {
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    if names.is_empty() {
        return "no ports are declared; a number from 1 to 65535 is allowed".to_owned();
    }
    format!(
        "declared ports: {}; or a number from 1 to 65535",
        names.join(", ")
    )
}

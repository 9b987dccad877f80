//! The `probes` part of a service file.

use xce_model::Millis;
use xce_model::spec::{PortSpec, Probe, ProbeAction, Probes};

use crate::defaults;
use crate::document::{Field, Section};

/// Fields of one probe.
const PROBE: &[&str] = &[
    "http",
    "tcp",
    "exec",
    "initial_delay",
    "period",
    "timeout",
    "success_threshold",
    "failure_threshold",
];
const HTTP: &[&str] = &[
    "port",
    "host",
    "path",
    "status_min",
    "status_max",
    "headers",
];
const TCP: &[&str] = &["port", "host"];
const EXEC: &[&str] = &["command"];

/// Shortest period and timeout of a probe.
/// Source: derived; one probe costs up to a millisecond of processor time, so this caps it at 10%.
const PERIOD_MIN: Millis = Millis(10);
/// Highest threshold of a probe. Source: chosen, beyond any use.
const THRESHOLD_MAX: u32 = 1000;

/// Reads the probes of a template whose ports are known.
pub(crate) fn probes(root: &Section<'_>, ports: &[PortSpec]) -> Probes {
    let Some(section) = root.section("probes", &["startup", "readiness", "liveness"]) else {
        return Probes::default();
    };
    let probe = |role: &str, successes_fixed: bool| {
        let section = section.field(role)?.section(PROBE)?;
        self::probe(&section, ports, successes_fixed).map(Box::new)
    };
    Probes {
        startup: probe("startup", true),
        readiness: probe("readiness", false),
        liveness: probe("liveness", true),
    }
}

fn probe(section: &Section<'_>, ports: &[PortSpec], successes_fixed: bool) -> Option<Probe> {
    let kinds = ["http", "tcp", "exec"];
    let given: Vec<&str> = kinds
        .into_iter()
        .filter(|kind| section.field(kind).is_some())
        .collect();
    let action = match given.as_slice() {
        ["http"] => http(&section.section("http", HTTP)?, ports),
        ["tcp"] => tcp(&section.section("tcp", TCP)?, ports),
        ["exec"] => exec(&section.section("exec", EXEC)?),
        [] => {
            section.fault("a probe needs one of http, tcp, exec");
            None
        }
        [..] => {
            section.fault(format!(
                "a probe has only one of http, tcp, exec, not {}",
                given.len()
            ));
            None
        }
    };
    let duration = |name: &str, default: Millis, least: Millis| {
        let Some(field) = section.field(name) else {
            return default;
        };
        let value = field.quantity::<Millis>().unwrap_or(default);
        if value < least {
            field.fault(format!("{value} is too short, the least is {least}"));
        }
        value
    };
    let successes = section.field("success_threshold");
    let most = if successes_fixed { 1 } else { THRESHOLD_MAX };
    let success_threshold = successes
        .and_then(|field| field.small_integer(1..=most))
        .unwrap_or(defaults::PROBE_SUCCESSES);
    let failure_threshold = section
        .field("failure_threshold")
        .and_then(|field| field.small_integer(1..=THRESHOLD_MAX))
        .unwrap_or(defaults::PROBE_FAILURES);
    Some(Probe {
        initial_delay: duration("initial_delay", Millis(0), Millis(0)),
        period: duration("period", defaults::PROBE_PERIOD, PERIOD_MIN),
        timeout: duration("timeout", defaults::PROBE_TIMEOUT, PERIOD_MIN),
        success_threshold,
        failure_threshold,
        action: action?,
    })
}

fn http(section: &Section<'_>, ports: &[PortSpec]) -> Option<ProbeAction> {
    let path = match section.field("path") {
        None => "/".to_owned(),
        Some(field) => {
            let path = field.text()?;
            let printable = path.bytes().all(|byte| byte.is_ascii_graphic());
            if !path.starts_with('/') || !printable {
                field.fault("a path begins with `/` and has no spaces or control characters");
            }
            path
        }
    };
    // Source: RFC 9110 section 15, a status has three digits; 200 to 399 is neither error class.
    let status = |name: &str, default: u16| {
        let value = section
            .field(name)
            .and_then(|field| field.small_integer(100..=599));
        value
            .and_then(|value| u16::try_from(value).ok())
            .unwrap_or(default)
    };
    let (status_min, status_max) = (status("status_min", 200), status("status_max", 399));
    if status_min > status_max {
        section.fault(format!(
            "status_min {status_min} is above status_max {status_max}"
        ));
    }
    Some(ProbeAction::Http {
        port: port(section, ports)?,
        host: host(section),
        path,
        status_min,
        status_max,
        headers: headers(section),
    })
}

fn headers(section: &Section<'_>) -> Vec<(String, String)> {
    let Some(fields) = section
        .field("headers")
        .and_then(|field| field.open_section())
    else {
        return Vec::new();
    };
    let mut headers = Vec::new();
    for (name, field) in fields.fields() {
        let Some(value) = field.text() else { continue };
        // Source: RFC 9110 section 5.6.2, characters of a token.
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            field.fault("a header's name has letters, digits and `-` only");
        }
        if value.chars().any(char::is_control) {
            field.fault("a header's value has no control characters");
        }
        headers.push((name, value));
    }
    headers
}

fn tcp(section: &Section<'_>, ports: &[PortSpec]) -> Option<ProbeAction> {
    Some(ProbeAction::Tcp {
        port: port(section, ports)?,
        host: host(section),
    })
}

fn exec(section: &Section<'_>) -> Option<ProbeAction> {
    let Some(field) = section.field("command") else {
        section.fault("`command` is missing: a list with the program and its arguments");
        return None;
    };
    let command = field.texts()?;
    crate::template_file::check_command(&field, &command);
    Some(ProbeAction::Exec { command })
}

fn host(section: &Section<'_>) -> String {
    let Some(host) = section
        .field("host")
        .and_then(|field| Some((field.text()?, field)))
    else {
        return defaults::PROBE_HOST.to_owned();
    };
    let (text, field) = host;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        field.fault("a host is a name or an address");
    }
    text
}

/// The port of a probe: a name that the template declares, or a number.
fn port(section: &Section<'_>, ports: &[PortSpec]) -> Option<String> {
    let Some(field) = section.field("port") else {
        section.fault(format!("`port` is missing: {}", allowed(ports)));
        return None;
    };
    if field.is_integer() {
        return field
            .small_integer(1..=u32::from(u16::MAX))
            .map(|number| number.to_string());
    }
    let name = field.text()?;
    if ports.iter().any(|port| port.name == name) {
        return Some(name);
    }
    report_unknown_port(&field, &name, ports);
    None
}

fn report_unknown_port(field: &Field<'_>, name: &str, ports: &[PortSpec]) {
    let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
    let proposal = crate::closest(name, ports.iter().map(|port| port.name.as_str()))
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_default();
    field.fault(format!(
        "there is no port `{shown}`{proposal} ({})",
        allowed(ports)
    ));
}

fn allowed(ports: &[PortSpec]) -> String {
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    if names.is_empty() {
        return "no [[ports]] are declared; a number from 1 to 65535 is allowed".to_owned();
    }
    format!(
        "declared ports: {}; or a number from 1 to 65535",
        names.join(", ")
    )
}

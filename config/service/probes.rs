//! The `probes` part of a service file.
//!
//! The action of a probe, such as `http`, is one value: a layer above replaces it as a whole. So what
//! an action needs must stand in it, whatever a profile gives.

use std::collections::BTreeMap;

use xce_model::Millis;
use xce_profile::checks::shown;
use xce_profile::document::{
    ExecFile, GrpcFile, HttpFile, PortFile, PortReference, ProbeFile, ProbesFile, TcpFile,
};

use super::template::checked_command;
use super::{Reading, count};
use crate::document::{Field, Section};
use crate::syntax::Format;

/// Fields of one probe.
const PROBE: &[&str] = &[
    "http",
    "tcp",
    "exec",
    "grpc",
    "initial_delay",
    "period",
    "timeout",
    "success_threshold",
    "failure_threshold",
];
/// The fields of [`PROBE`] that say what is tried.
const KINDS: [&str; 4] = ["http", "tcp", "exec", "grpc"];
const HTTP: &[&str] = &[
    "port",
    "host",
    "path",
    "status_min",
    "status_max",
    "headers",
];

/// Shortest period and timeout of a probe.
/// Source: derived; one probe costs up to a millisecond of processor time, so this caps it at 10%.
const PERIOD_MIN: Millis = Millis(10);
/// Highest threshold of a probe. Source: chosen, beyond any use.
const THRESHOLD_MAX: u32 = 1000;

/// What a probe's port may name.
#[derive(Clone, Copy)]
struct Ports<'p> {
    reading: Reading<'p>,
    /// The ports of the text, if it has any.
    declared: Option<&'p [PortFile]>,
}

/// Reads the probes of a text whose ports are known.
pub(super) fn probes(
    root: &Section<'_>,
    reading: Reading<'_>,
    declared: Option<&[PortFile]>,
) -> Option<ProbesFile> {
    let section = root.section("probes", &["startup", "readiness", "liveness"])?;
    let ports = Ports { reading, declared };
    let probe = |role: &str, successes_max: u32| {
        let section = section.field(role)?.section(PROBE)?;
        Some(probe(&section, ports, successes_max))
    };
    Some(ProbesFile {
        startup: probe("startup", 1),
        readiness: probe("readiness", THRESHOLD_MAX),
        liveness: probe("liveness", 1),
    })
}

fn probe(section: &Section<'_>, ports: Ports<'_>, successes_max: u32) -> ProbeFile {
    let given = KINDS
        .into_iter()
        .filter(|kind| section.field(kind).is_some())
        .count();
    let kinds = KINDS.join(", ");
    if given > 1 {
        section.fault(format!("a probe has only one of {kinds}, not {given}"));
        return ProbeFile::default();
    }
    if given == 0 && ports.reading.whole {
        section.fault(format!("a probe needs one of {kinds}"));
    }
    let inner = |kind: &str, allowed: &[&str]| section.section(kind, allowed);
    ProbeFile {
        http: inner("http", HTTP).map(|section| http(&section, ports)),
        tcp: inner("tcp", &["port", "host"]).map(|section| TcpFile {
            port: port(&section, ports),
            host: host(&section),
        }),
        exec: inner("exec", &["command"]).map(|section| exec(&section)),
        grpc: inner("grpc", &["port", "host", "service"]).map(|section| GrpcFile {
            port: port(&section, ports),
            host: host(&section),
            service: service(&section),
        }),
        initial_delay: duration(section, "initial_delay", Millis(0)),
        period: duration(section, "period", PERIOD_MIN),
        timeout: duration(section, "timeout", PERIOD_MIN),
        success_threshold: count(section, "success_threshold", 1..=successes_max),
        failure_threshold: count(section, "failure_threshold", 1..=THRESHOLD_MAX),
    }
}

fn duration(section: &Section<'_>, name: &str, least: Millis) -> Option<Millis> {
    let field = section.field(name)?;
    let value = field.quantity::<Millis>()?;
    if value < least {
        field.fault(format!("{value} is too short, the least is {least}"));
    }
    Some(value)
}

fn http(section: &Section<'_>, ports: Ports<'_>) -> HttpFile {
    // Source: RFC 9110 section 15, a status has three digits and five classes.
    let status =
        |name: &str| count(section, name, 100..=599).and_then(|value| u16::try_from(value).ok());
    let file = HttpFile {
        port: port(section, ports),
        host: host(section),
        path: path(section),
        status_min: status("status_min"),
        status_max: status("status_max"),
        headers: headers(section),
    };
    // Source: design section 7.3, what is neither an error of the client nor of the server.
    let least = ports.reading.known(file.status_min, 200);
    let most = ports.reading.known(file.status_max, 399);
    if let (Some(least), Some(most)) = (least, most)
        && least > most
    {
        section.fault(format!("status_min {least} is above status_max {most}"));
    }
    file
}

fn path(section: &Section<'_>) -> Option<String> {
    let field = section.field("path")?;
    let path = field.text()?;
    let printable = path.bytes().all(|byte| byte.is_ascii_graphic());
    if !path.starts_with('/') || !printable {
        field.fault("a path begins with `/` and has no spaces or control characters");
    }
    Some(path)
}

fn headers(section: &Section<'_>) -> Option<BTreeMap<String, String>> {
    let fields = section.field("headers")?.open_section()?;
    let mut headers = BTreeMap::new();
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
        headers.insert(name, value);
    }
    Some(headers)
}

fn exec(section: &Section<'_>) -> ExecFile {
    let field = section.field("command");
    if field.is_none() {
        section.fault("`command` is missing: a list with the program and its arguments");
    }
    ExecFile {
        command: field.and_then(|field| checked_command(&field)),
    }
}

fn service(section: &Section<'_>) -> Option<String> {
    let field = section.field("service")?;
    let name = field.text()?;
    if name.len() > xce_model::limits::NAME_BYTES_MAX || name.chars().any(char::is_control) {
        field.fault("a service's name has at most 128 bytes and no control characters");
    }
    Some(name)
}

fn host(section: &Section<'_>) -> Option<String> {
    let field = section.field("host")?;
    let text = field.text()?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        field.fault("a host is a name or an address");
    }
    Some(text)
}

/// The port of a probe: a name that the template declares, or a number.
fn port(section: &Section<'_>, ports: Ports<'_>) -> Option<PortReference> {
    let Some(field) = section.field("port") else {
        let allowed = ports.allowed(section.format());
        section.fault(format!("`port` is missing: {allowed}"));
        return None;
    };
    if field.is_integer() {
        return field
            .small_integer(1..=u32::from(u16::MAX))
            .map(|number| PortReference(number.to_string()));
    }
    let name = field.text()?;
    let known = match ports.declared {
        Some(declared) => declared.iter().any(|port| port.name == name),
        None => !ports.reading.whole,
    };
    if !known {
        report_unknown_port(&field, &name, ports, section.format());
    }
    Some(PortReference(name))
}

fn report_unknown_port(field: &Field<'_>, name: &str, ports: Ports<'_>, format: Format) {
    let proposal = crate::closest(name, ports.names())
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_default();
    field.fault(format!(
        "there is no port `{}`{proposal} ({})",
        shown(name),
        ports.allowed(format)
    ));
}

impl<'p> Ports<'p> {
    fn names(self) -> impl Iterator<Item = &'p str> {
        self.declared
            .unwrap_or_default()
            .iter()
            .map(|port| port.name.as_str())
    }

    fn allowed(self, format: Format) -> String {
        let names: Vec<&str> = self.names().collect();
        if names.is_empty() {
            let ports = match format {
                Format::Toml => "[[ports]]",
                Format::Yaml | Format::Json => "`ports`",
            };
            return format!("no {ports} are declared; a number from 1 to 65535 is allowed");
        }
        format!(
            "declared ports: {}; or a number from 1 to 65535",
            names.join(", ")
        )
    }
}

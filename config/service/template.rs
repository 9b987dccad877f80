//! The part of a service file that says what each replica runs.

use std::collections::BTreeMap;

use xce_model::limits::{PORTS_MAX, check_name};
use xce_model::spec::{RestartMode, SingleCopy};
use xce_model::{Bytes, Millis};
use xce_profile::checks::{
    RESTARTS_MAX, command_fault, directory_fault, environment_fault, memory_fault, reference_fault,
    shown, variable_fault,
};
use xce_profile::document::{PortFile, ResourcesFile, RestartFile, SignalName, StopFile};

use super::{Reading, count, quantity};
use crate::document::{Field, Section};

pub(super) fn user(root: &Section<'_>, reading: Reading<'_>) -> Option<String> {
    let field = root.field("user")?;
    let name = field.text()?;
    if !(reading.knows_user)(&name) {
        field.fault(format!(
            "there is no user `{}` on this machine",
            shown(&name)
        ));
    }
    Some(name)
}

pub(super) fn command(
    root: &Section<'_>,
    reading: Reading<'_>,
    ports: Option<&[PortFile]>,
) -> Option<Vec<String>> {
    let Some(field) = root.field("command") else {
        if reading.whole {
            root.fault("`command` is missing: a list with the program and its arguments");
        }
        return None;
    };
    let command = checked_command(&field)?;
    // Ports that the text does not give may come from a profile.
    if reading.whole || ports.is_some() {
        let ports = ports.unwrap_or_default().iter();
        let names: Vec<&str> = ports.map(|port| port.name.as_str()).collect();
        if let Err(sentence) = reference_fault(&command, &names) {
            field.fault(sentence);
        }
    }
    Some(command)
}

/// A program and its arguments.
pub(super) fn checked_command(field: &Field<'_>) -> Option<Vec<String>> {
    let command = field.texts()?;
    if let Err(sentence) = command_fault(&command) {
        field.fault(sentence);
    }
    Some(command)
}

pub(super) fn environment(root: &Section<'_>) -> Option<BTreeMap<String, String>> {
    let field = root.field("env")?;
    let section = field.open_section()?;
    let mut env = BTreeMap::new();
    for (name, field) in section.fields() {
        let Some(value) = field.text() else { continue };
        if let Err(sentence) = variable_fault(&name, &value) {
            field.fault(sentence);
        }
        env.insert(name, value);
    }
    if let Err(sentence) = environment_fault(&env) {
        field.fault(sentence);
    }
    Some(env)
}

pub(super) fn directory(root: &Section<'_>) -> Option<String> {
    let field = root.field("cwd")?;
    let path = field.text()?;
    if let Err(sentence) = directory_fault(&path) {
        field.fault(sentence);
    }
    Some(path)
}

pub(crate) fn resources(root: &Section<'_>) -> Option<ResourcesFile> {
    let section = root.section("resources", &["cpus", "memory"])?;
    let memory = section.field("memory").and_then(|field| {
        let memory = field.quantity::<Bytes>()?;
        if let Err(sentence) = memory_fault(memory) {
            field.fault(sentence);
        }
        Some(memory)
    });
    Some(ResourcesFile {
        cpus: quantity(&section, "cpus"),
        memory,
    })
}

pub(super) fn ports(root: &Section<'_>) -> Option<Vec<PortFile>> {
    let field = root.field("ports")?;
    let list = field.list()?;
    if list.len() > PORTS_MAX {
        let count = list.len();
        field.fault(format!("{count} ports, at most {PORTS_MAX} are allowed"));
        return None;
    }
    let mut ports = Vec::new();
    for entry in list {
        if let Some(port) = port(&entry, &ports) {
            ports.push(port);
        }
    }
    Some(ports)
}

fn port(entry: &Field<'_>, before: &[PortFile]) -> Option<PortFile> {
    let section = entry.section(&["name", "port"])?;
    let number = section.field("port");
    let port = number
        .as_ref()
        .and_then(|field| field.small_integer(1..=u32::from(u16::MAX)))
        .and_then(|value| u16::try_from(value).ok());
    let Some(field) = section.field("name") else {
        section.fault("`name` is missing");
        return None;
    };
    let name = field.text()?;
    let taken = port.is_some() && before.iter().any(|known| known.port == port);
    if let Err(refusal) = check_name("port", &name) {
        field.fault(refusal);
    } else if name.bytes().all(|byte| byte.is_ascii_digit()) {
        field.fault("a port's name has a letter, or a probe could not tell it from a number");
    } else if before.iter().any(|known| known.name == name) {
        field.fault(format!("there are two ports `{name}`"));
    } else if let (Some(field), true) = (number, taken) {
        field.fault("two ports of one replica have the same number");
    }
    Some(PortFile { name, port })
}

pub(super) fn restart(root: &Section<'_>, reading: Reading<'_>) -> Option<RestartFile> {
    let fields = [
        "mode",
        "delay",
        "delay_max",
        "max_restarts",
        "window",
        "stable_after",
    ];
    let section = root.section("restart", &fields)?;
    let modes = [
        ("never", RestartMode::Never),
        ("on_failure", RestartMode::OnFailure),
        ("always", RestartMode::Always),
    ];
    let file = RestartFile {
        mode: section.field("mode").and_then(|field| field.word(&modes)),
        delay: quantity(&section, "delay"),
        delay_max: quantity(&section, "delay_max"),
        max_restarts: count(&section, "max_restarts", 0..=RESTARTS_MAX),
        window: quantity(&section, "window"),
        stable_after: quantity(&section, "stable_after"),
    };
    let default = xce_profile::defaults::restart(RestartMode::Always);
    check_delays(
        &section,
        reading.known(file.delay, default.delay),
        reading.known(file.delay_max, default.delay_max),
    );
    Some(file)
}

/// Notes a first delay that is above the longest one.
pub(super) fn check_delays(
    section: &Section<'_>,
    delay: Option<Millis>,
    delay_max: Option<Millis>,
) {
    if let (Some(delay), Some(delay_max)) = (delay, delay_max)
        && delay > delay_max
    {
        section.fault(format!("delay {delay} is above delay_max {delay_max}"));
    }
}

pub(super) fn stop(root: &Section<'_>) -> Option<StopFile> {
    let section = root.section("stop", &["drain", "signal", "grace"])?;
    Some(StopFile {
        drain: quantity(&section, "drain"),
        signal: section.field("signal").and_then(|field| signal(&field)),
        grace: quantity(&section, "grace"),
    })
}

fn signal(field: &Field<'_>) -> Option<SignalName> {
    if field.is_integer() {
        return field
            .small_integer(1..=64)
            .map(|number| SignalName(number.cast_signed()));
    }
    field
        .text()?
        .parse()
        .map_err(|sentence: String| field.fault(sentence))
        .ok()
}

pub(super) fn run_limit(root: &Section<'_>) -> Option<Millis> {
    let field = root.field("run_limit")?;
    let value = field.quantity::<Millis>()?;
    if value.0 == 0 {
        field.fault("a limit of 0 would let nothing run; leave it out for no limit");
    }
    Some(value)
}

pub(super) fn single_copy(root: &Section<'_>) -> Option<SingleCopy> {
    let words = [("none", SingleCopy::None), ("strict", SingleCopy::Strict)];
    root.field("single_copy")?.word(&words)
}

//! The part of a service file that says what each replica runs.

use std::collections::BTreeMap;

use xce_model::limits::{COMMAND_BYTES_MAX, ENVIRONMENT_BYTES_MAX, PORTS_MAX, check_name};
use xce_model::spec::{PortSpec, Resources, RestartMode, RestartPolicy, StopPolicy, Template};
use xce_model::{Bytes, MilliCpu, Millis};

use crate::defaults::{self, Account};
use crate::document::{Field, Section};
use crate::service_file::Context;

/// Highest number of restarts in a window. Source: chosen, beyond any use.
const RESTARTS_MAX: u32 = 1_000_000;
/// Least memory of a run. Source: measured by its shim alone, which takes 1.1 MB.
const MEMORY_MIN: Bytes = Bytes(2 << 20);
/// Longest name of an environment variable. Source: chosen, as long as any other name.
const VARIABLE_BYTES_MAX: usize = xce_model::limits::NAME_BYTES_MAX;

/// Reads the template; `None` when a part without a default is missing.
pub(crate) fn template(root: &Section<'_>, context: &Context<'_>) -> Option<Template> {
    let account = account(root, context);
    let ports = ports(root);
    let probes = crate::probe_file::probes(root, &ports);
    let rest = (
        environment(root, &account),
        directory(root),
        resources(root),
    );
    let (restart, stop) = (restart(root), stop(root));
    let run_limit = root.field("run_limit").and_then(|field| positive(&field));
    let constraints = pairs(root, "constraints");
    let command = command(root)?;
    let (env, cwd, resources) = rest;
    Some(Template {
        command,
        env,
        cwd,
        user: account.user,
        resources,
        ports,
        probes,
        restart,
        stop,
        run_limit,
        constraints,
    })
}

fn account(root: &Section<'_>, context: &Context<'_>) -> Account {
    let Some((field, name)) = root
        .field("user")
        .and_then(|field| Some((field.text()?, field)))
        .map(|(name, field)| (field, name))
    else {
        return context.account.clone();
    };
    (context.find_account)(&name).unwrap_or_else(|| {
        let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
        field.fault(format!("there is no user `{shown}` on this machine"));
        context.account.clone()
    })
}

fn command(root: &Section<'_>) -> Option<Vec<String>> {
    let Some(field) = root.field("command") else {
        root.fault("`command` is missing: a list with the program and its arguments");
        return None;
    };
    let command = field.texts()?;
    check_command(&field, &command);
    Some(command)
}

/// Notes what is wrong with a program and its arguments.
pub(crate) fn check_command(field: &Field<'_>, command: &[String]) {
    if let Err(sentence) = command_fault(command) {
        field.fault(sentence);
    }
}

/// Checks a program with its arguments.
///
/// # Errors
/// A sentence when it is empty, too large, or holds a NUL byte.
pub fn command_fault(command: &[String]) -> Result<(), String> {
    let bytes: usize = command.iter().map(|word| word.len() + 1).sum();
    if command.first().is_none_or(String::is_empty) {
        Err("the command is empty; give a program and its arguments".to_owned())
    } else if bytes > COMMAND_BYTES_MAX {
        Err(format!(
            "the command has {bytes} bytes, at most {COMMAND_BYTES_MAX} are allowed"
        ))
    } else if command.iter().any(|word| word.contains('\0')) {
        Err("a command cannot contain a NUL character".to_owned())
    } else {
        Ok(())
    }
}

fn environment(root: &Section<'_>, account: &Account) -> Vec<(String, String)> {
    let mut env = defaults::service_environment(account);
    let Some(field) = root.field("env") else {
        return env.into_iter().collect();
    };
    let Some(section) = field.open_section() else {
        return Vec::new();
    };
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
    env.into_iter().collect()
}

/// Checks one variable of an environment.
///
/// # Errors
/// A sentence when the name is no name of a variable or is one that the worker sets.
pub fn variable_fault(name: &str, value: &str) -> Result<(), String> {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let good = name.bytes().next().is_some_and(letter)
        && name
            .bytes()
            .all(|byte| letter(byte) || byte.is_ascii_digit())
        && name.len() <= VARIABLE_BYTES_MAX;
    let shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
    if !good {
        Err(format!(
            "`{shown}` is not a name of a variable: letters, digits and `_`, no digit first, at \
             most {VARIABLE_BYTES_MAX} bytes"
        ))
    } else if name.starts_with("XCE_") {
        Err(format!(
            "`{shown}` cannot be set: names beginning with XCE_ belong to the worker"
        ))
    } else if value.contains('\0') {
        Err(format!("the value of `{shown}` contains a NUL character"))
    } else {
        Ok(())
    }
}

/// Checks the size of an environment.
///
/// # Errors
/// A sentence when it is too large.
pub fn environment_fault(env: &BTreeMap<String, String>) -> Result<(), String> {
    let bytes: usize = env
        .iter()
        .map(|(name, value)| name.len() + value.len() + 2)
        .sum();
    if bytes <= ENVIRONMENT_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "the environment has {bytes} bytes, at most {ENVIRONMENT_BYTES_MAX} are allowed"
    ))
}

fn directory(root: &Section<'_>) -> Option<String> {
    let field = root.field("cwd")?;
    let path = field.text()?;
    if let Err(sentence) = directory_fault(&path) {
        field.fault(sentence);
    }
    Some(path)
}

/// Checks a working directory.
///
/// # Errors
/// A sentence when it is not absolute, too long for the kernel, or holds a NUL byte.
pub fn directory_fault(path: &str) -> Result<(), String> {
    // Source: PATH_MAX of Linux, path_resolution(7).
    const PATH_BYTES_MAX: usize = 4096;
    let shown: String = path.chars().take(64).flat_map(char::escape_debug).collect();
    if !path.starts_with('/') {
        Err(format!(
            "`{shown}` is relative; only an absolute path means the same on every host"
        ))
    } else if path.len() >= PATH_BYTES_MAX || path.contains('\0') {
        Err(format!(
            "a path has less than {PATH_BYTES_MAX} bytes and no NUL character"
        ))
    } else {
        Ok(())
    }
}

fn resources(root: &Section<'_>) -> Resources {
    let mut resources = defaults::SERVICE_RESOURCES;
    let Some(section) = root.section("resources", &["cpus", "memory"]) else {
        return resources;
    };
    if let Some(cpus) = section
        .field("cpus")
        .and_then(|field| field.quantity::<MilliCpu>())
    {
        resources.cpus = cpus;
    }
    if let Some(field) = section.field("memory") {
        resources.memory = field.quantity::<Bytes>().unwrap_or(resources.memory);
        if let Err(sentence) = memory_fault(resources.memory) {
            field.fault(sentence);
        }
    }
    resources
}

/// Checks an amount of memory of one run.
///
/// # Errors
/// A sentence when nothing could run in it.
pub fn memory_fault(memory: Bytes) -> Result<(), String> {
    if memory < MEMORY_MIN {
        return Err(format!("{memory} is too little, the least is {MEMORY_MIN}"));
    }
    Ok(())
}

fn ports(root: &Section<'_>) -> Vec<PortSpec> {
    let mut ports: Vec<PortSpec> = Vec::new();
    let Some((field, list)) = root
        .field("ports")
        .and_then(|field| Some((field.list()?, field)))
        .map(|(list, field)| (field, list))
    else {
        return ports;
    };
    if list.len() > PORTS_MAX {
        field.fault(format!(
            "{} ports, at most {PORTS_MAX} are allowed",
            list.len()
        ));
        return ports;
    }
    for entry in list {
        let Some(section) = entry.section(&["name", "port"]) else {
            continue;
        };
        let number = section.field("port");
        let port = number
            .as_ref()
            .and_then(|field| field.small_integer(1..=65_535));
        let port = port.and_then(|value| u16::try_from(value).ok());
        let Some(name_field) = section.field("name") else {
            section.fault("`name` is missing");
            continue;
        };
        let Some(name) = name_field.text() else {
            continue;
        };
        if let Err(refusal) = check_name("port", &name) {
            name_field.fault(refusal);
        } else if ports.iter().any(|known| known.name == name) {
            name_field.fault(format!("there are two ports `{name}`"));
        } else if let (Some(field), Some(_)) = (
            number,
            port.filter(|port| ports.iter().any(|known| known.port == Some(*port))),
        ) {
            field.fault("two ports of one replica have the same number");
        } else {
            ports.push(PortSpec { name, port });
        }
    }
    ports
}

fn restart(root: &Section<'_>) -> RestartPolicy {
    let mut policy = defaults::restart(RestartMode::Always);
    let fields = [
        "mode",
        "delay",
        "delay_max",
        "max_restarts",
        "window",
        "stable_after",
    ];
    let Some(section) = root.section("restart", &fields) else {
        return policy;
    };
    let modes = [
        ("never", RestartMode::Never),
        ("on_failure", RestartMode::OnFailure),
        ("always", RestartMode::Always),
    ];
    if let Some(mode) = section.field("mode").and_then(|field| field.word(&modes)) {
        policy.mode = mode;
    }
    set_duration(&section, "delay", &mut policy.delay);
    set_duration(&section, "delay_max", &mut policy.delay_max);
    set_duration(&section, "window", &mut policy.window);
    set_duration(&section, "stable_after", &mut policy.stable_after);
    set_count(
        &section,
        "max_restarts",
        0..=RESTARTS_MAX,
        &mut policy.max_restarts,
    );
    check_delays(&section, policy.delay, policy.delay_max);
    policy
}

fn stop(root: &Section<'_>) -> StopPolicy {
    let mut policy = defaults::STOP;
    let Some(section) = root.section("stop", &["drain", "signal", "grace"]) else {
        return policy;
    };
    set_duration(&section, "drain", &mut policy.drain);
    set_duration(&section, "grace", &mut policy.grace);
    if let Some(field) = section.field("signal") {
        let number = if field.is_integer() {
            field.small_integer(1..=64).map(u32::cast_signed)
        } else {
            field.text().and_then(|text| {
                signal_number(&text)
                    .map_err(|sentence| field.fault(sentence))
                    .ok()
            })
        };
        policy.signal = number.unwrap_or(policy.signal);
    }
    policy
}

/// The number of a signal given as `TERM`, `SIGTERM` or `15`.
///
/// # Errors
/// A sentence when there is no such signal.
pub fn signal_number(text: &str) -> Result<i32, String> {
    let shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    let wrong = || format!("`{shown}` is not a signal, such as TERM, INT, QUIT, USR1 or 15");
    if let Ok(number) = text.parse::<i32>() {
        // Source: signal(7), 64 is SIGRTMAX of Linux.
        return (1..=64)
            .contains(&number)
            .then_some(number)
            .ok_or_else(wrong);
    }
    let upper = text.to_ascii_uppercase();
    let name = if upper.starts_with("SIG") {
        upper
    } else {
        format!("SIG{upper}")
    };
    name.parse::<nix::sys::signal::Signal>()
        .map(|signal| signal as i32)
        .map_err(|_| wrong())
}

/// Reads a table of names and texts, sorted by name.
pub(crate) fn pairs(root: &Section<'_>, name: &str) -> Vec<(String, String)> {
    let Some(section) = root.field(name).and_then(|field| field.open_section()) else {
        return Vec::new();
    };
    let mut pairs = BTreeMap::new();
    for (label, field) in section.fields() {
        let Some(value) = field.text() else { continue };
        if let Err(refusal) = check_name("label", &label) {
            field.fault(refusal);
        } else if value.len() > xce_model::limits::NAME_BYTES_MAX
            || value.chars().any(char::is_control)
        {
            field.fault("a label's value has at most 128 bytes and no control characters");
        }
        pairs.insert(label, value);
    }
    pairs.into_iter().collect()
}

pub(crate) fn set_duration(section: &Section<'_>, name: &str, target: &mut Millis) {
    if let Some(value) = section.field(name).and_then(|field| field.quantity()) {
        *target = value;
    }
}

pub(crate) fn set_count(
    section: &Section<'_>,
    name: &str,
    range: std::ops::RangeInclusive<u32>,
    target: &mut u32,
) {
    if let Some(value) = section
        .field(name)
        .and_then(|field| field.small_integer(range))
    {
        *target = value;
    }
}

/// Notes a first delay that is above the longest one.
pub(crate) fn check_delays(section: &Section<'_>, delay: Millis, delay_max: Millis) {
    if delay > delay_max {
        section.fault(format!("delay {delay} is above delay_max {delay_max}"));
    }
}

fn positive(field: &Field<'_>) -> Option<Millis> {
    let value = field.quantity::<Millis>()?;
    if value.0 == 0 {
        field.fault("a limit of 0 would let nothing run; leave it out for no limit");
    }
    Some(value)
}

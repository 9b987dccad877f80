//! Checks of single values, for readers of files and for whoever resolves.

use std::collections::BTreeMap;

use xce_model::Bytes;
use xce_model::limits::{COMMAND_BYTES_MAX, ENVIRONMENT_BYTES_MAX, NAME_BYTES_MAX};

/// Highest number of restarts in a window. Source: chosen, beyond any use.
pub const RESTARTS_MAX: u32 = 1_000_000;
/// Least memory of a run. Source: measured by its shim alone, which takes 1.1 MB.
pub const MEMORY_MIN: Bytes = Bytes(2 << 20);
/// Longest name of an environment variable. Source: chosen, as long as any other name.
const VARIABLE_BYTES_MAX: usize = NAME_BYTES_MAX;
/// Most versions kept in a history. Source: chosen, a year of daily updates is more than enough.
pub const HISTORY_MAX: u32 = 1000;
/// Most failures that a crash limit may name. Source: chosen, beyond any use.
pub const CRASHES_MAX: u32 = 1_000_000;

/// A text as it may be shown in a message: short, and without control characters.
pub fn shown(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
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

/// Begins the variable of a port. Source: what the worker sets.
const PORT_VARIABLE: &str = "XCE_PORT_";

/// Checks that each `${XCE_PORT_name}` of a command names one of its ports.
///
/// # Errors
/// A sentence with the first that does not, and the ports that there are.
pub fn reference_fault(command: &[String], ports: &[&str]) -> Result<(), String> {
    let names = command.iter().flat_map(|word| references(word));
    let unknown = names
        .filter_map(|name| name.strip_prefix(PORT_VARIABLE))
        .find(|name| !ports.contains(name));
    let Some(name) = unknown else { return Ok(()) };
    let known = match ports {
        [] => "there are none: give `ports`".to_owned(),
        ports => format!("there are: {}", ports.join(", ")),
    };
    Err(format!(
        "`${{{PORT_VARIABLE}{}}}` is the variable of a port that is not there ({known})",
        shown(name)
    ))
}

/// Names in `${NAME}`; `$${NAME}` is left as it is, so it names nothing.
fn references(word: &str) -> impl Iterator<Item = &str> {
    let places = word.match_indices("${").map(|(at, _)| at);
    places
        .filter(|at| !word[..*at].ends_with('$'))
        .filter_map(|at| word[at + 2..].split_once('}').map(|(name, _)| name))
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

/// Checks a working directory.
///
/// # Errors
/// A sentence when it is not absolute, too long for the kernel, or holds a NUL byte.
pub fn directory_fault(path: &str) -> Result<(), String> {
    // Source: PATH_MAX of Linux, path_resolution(7).
    const PATH_BYTES_MAX: usize = 4096;
    if !path.starts_with('/') {
        Err(format!(
            "`{}` is relative; only an absolute path means the same on every host",
            shown(path)
        ))
    } else if path.len() >= PATH_BYTES_MAX || path.contains('\0') {
        Err(format!(
            "a path has less than {PATH_BYTES_MAX} bytes and no NUL character"
        ))
    } else {
        Ok(())
    }
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

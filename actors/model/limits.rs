//! Limits that XCE keeps, each with its reason, and the checks of names.

use crate::codes::{Refusal, RefusalKind};

/// Longest name in bytes. Source: design section 15.
pub const NAME_BYTES_MAX: usize = 128;
/// Largest environment of a job in bytes. Source: design section 15.
pub const ENVIRONMENT_BYTES_MAX: usize = 256 * 1024;
/// Most replicas of a service. Source: design section 15.
pub const REPLICAS_MAX: u32 = 100_000;
/// Most jobs that the ledger keeps. Source: design section 15.
pub const JOBS_MAX: u64 = 1_000_000;
/// Most hosts of a cluster. Source: design section 15.
pub const HOSTS_MAX: usize = 10_000;
/// Most elements of one array. Source: as many as a service may have replicas.
pub const ARRAY_ELEMENTS_MAX: u64 = 100_000;
/// Most bytes of a command with its arguments. Source: half of Linux' 128 KiB for one string.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;
/// Most ports of a template. Source: derived, beyond any service seen, bounds host facts.
pub const PORTS_MAX: usize = 64;

/// Checks a name: 1 to 128 bytes of `[a-z0-9][a-z0-9._-]*`.
///
/// # Errors
/// `bad_name` when it is anything else; the text says what and what is allowed.
pub fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
    let first = name.bytes().next();
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let shown: String = name
        .chars()
        .take(40)
        .flat_map(char::escape_default)
        .collect();
    let dots = if name.chars().count() > 40 { "…" } else { "" };
    let problem = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.len() > NAME_BYTES_MAX {
        format!(
            "it has {} bytes, at most {NAME_BYTES_MAX} are allowed",
            name.len()
        )
    } else if !first.is_some_and(good)
        || !name
            .bytes()
            .all(|byte| good(byte) || matches!(byte, b'.' | b'_' | b'-'))
    {
        "allowed are a-z, 0-9, `.`, `_`, `-`, beginning with a letter or digit".to_owned()
    } else {
        return Ok(());
    };
    Err(Refusal::new(
        RefusalKind::Usage,
        "bad_name",
        format!("{what} `{shown}{dots}` is not a name: {problem}"),
    ))
}

//! Checks of what clients submit, beside what the configuration checks: a client may be anything.

use xce_host::rules::lease;
use xce_link::Principal;
use xce_model::limits::{COMMAND_BYTES_MAX, ENVIRONMENT_BYTES_MAX, PORTS_MAX, check_name};
use xce_model::spec::{ArraySpec, SingleCopy, Template};
use xce_model::{Refusal, RefusalKind};

use crate::settings::Settings;

fn bad(code: &str, text: String) -> Refusal {
    Refusal::new(RefusalKind::Usage, code, text)
}

/// Checks a template against the limits, and that its user is the caller.
///
/// # Errors
/// Names what is wrong and what is allowed.
pub fn template(caller: &Principal, template: &Template) -> Result<(), Refusal> {
    user(caller, template)?;
    if template.command.first().is_none_or(String::is_empty) {
        return Err(bad("no_command", "the command is empty".into()));
    }
    let bytes: usize = template.command.iter().map(|word| word.len() + 1).sum();
    if bytes > COMMAND_BYTES_MAX {
        let text =
            format!("the command has {bytes} bytes, at most {COMMAND_BYTES_MAX} are allowed");
        return Err(bad("command_too_long", text));
    }
    let bytes: usize = template
        .env
        .iter()
        .map(|(name, value)| name.len() + value.len() + 2)
        .sum();
    if bytes > ENVIRONMENT_BYTES_MAX {
        let text = format!(
            "the environment has {bytes} bytes, at most {ENVIRONMENT_BYTES_MAX} are allowed"
        );
        return Err(bad("environment_too_large", text));
    }
    let zero = |text: &str| text.contains('\0');
    if template.command.iter().any(|word| zero(word))
        || template
            .env
            .iter()
            .any(|(name, value)| name.is_empty() || name.contains('=') || zero(name) || zero(value))
    {
        let text = "a NUL byte in the command or environment, or a name that is empty or holds `=`";
        return Err(bad("bad_environment", text.into()));
    }
    if template.resources.cpus.0 == 0 {
        return Err(bad(
            "no_cpus",
            "a job needs at least 0.001 processors".into(),
        ));
    }
    ports(template)
}

/// Checks that a strict single copy can be promised with these settings.
///
/// # Errors
/// `single_copy_impossible` with what does not fit.
pub fn single_copy(settings: &Settings, template: &Template) -> Result<(), Refusal> {
    match template.single_copy {
        SingleCopy::None => Ok(()),
        SingleCopy::Strict => lease::check(settings.patience(), settings.kill_budget),
    }
}

fn ports(template: &Template) -> Result<(), Refusal> {
    if template.ports.len() > PORTS_MAX {
        let text = format!(
            "{} ports, at most {PORTS_MAX} are allowed",
            template.ports.len()
        );
        return Err(bad("too_many_ports", text));
    }
    for (place, port) in template.ports.iter().enumerate() {
        check_name("port", &port.name.to_lowercase())?;
        if port.port == Some(0) {
            return Err(bad(
                "bad_port",
                format!("port {} is 0: allowed are 1 to 65535", port.name),
            ));
        }
        if template
            .ports
            .iter()
            .take(place)
            .any(|other| other.name == port.name)
        {
            return Err(bad(
                "port_twice",
                format!("port name `{}` is given twice", port.name),
            ));
        }
    }
    Ok(())
}

/// People run jobs as themselves; whoever administers this machine may name any user.
fn user(caller: &Principal, template: &Template) -> Result<(), Refusal> {
    let user = &template.user;
    if caller.name == "root" {
        return Ok(());
    }
    let known = nix::unistd::User::from_name(&caller.name).ok().flatten();
    let own = known.is_some_and(|known| {
        known.uid.as_raw() == user.uid && known.gid.as_raw() == user.gid && known.name == user.name
    });
    if own {
        return Ok(());
    }
    let text = format!(
        "{} may not run jobs as `{}` ({}:{}); allowed is the own user and its primary group",
        caller.name, user.name, user.uid, user.gid
    );
    Err(Refusal::new(RefusalKind::NotPermitted, "other_user", text))
}

/// Checks the elements of an array.
///
/// # Errors
/// Names the range that is wrong.
pub fn array(array: &ArraySpec) -> Result<(), Refusal> {
    if array.ranges.is_empty() {
        return Err(bad(
            "no_elements",
            "an array needs at least one element".into(),
        ));
    }
    if array.slot_limit == Some(0) {
        return Err(bad(
            "bad_slot_limit",
            "a slot limit of 0 would let no element run".into(),
        ));
    }
    let mut next = 0;
    for (first, last) in &array.ranges {
        if first > last || *first < next || *last >= u32::MAX - 1 {
            let text = format!(
                "array range {first}-{last} is empty, out of order or too large; ranges rise and do \
                 not overlap"
            );
            return Err(bad("bad_range", text));
        }
        next = last + 1;
    }
    Ok(())
}

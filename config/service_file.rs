//! Service files: TOML to a specification with every default filled in.

use xce_model::limits::{REPLICAS_MAX, check_name};
use xce_model::spec::{
    Amount, OnStuck, ReplacementSettings, RolloutSettings, ServiceSettings, ServiceSpec, Spread,
};

use crate::defaults::{self, Account};
use crate::document::{Document, Field, Section, read};
use crate::fault::Faults;
use crate::template_file::{self, check_delays, set_count, set_duration};

pub use crate::template_file::{
    command_fault, directory_fault, environment_fault, memory_fault, signal_number, variable_fault,
};

/// Fields of a service file.
pub const FIELDS: &[&str] = &[
    "name",
    "replicas",
    "profile",
    "project",
    "queue",
    "command",
    "env",
    "cwd",
    "user",
    "resources",
    "ports",
    "probes",
    "restart",
    "stop",
    "spread",
    "rollout",
    "replacement",
    "labels",
    "run_limit",
    "constraints",
];

/// Most versions kept in a history. Source: chosen, a year of daily updates is more than enough.
const HISTORY_MAX: u32 = 1000;
/// Most failures that a crash limit may name. Source: chosen, beyond any use.
const CRASHES_MAX: u32 = 1_000_000;

/// What a service file does not say by itself.
pub struct Context<'c> {
    /// Project that the request names; it wins over the file's.
    pub project: Option<&'c str>,
    /// Account of the caller, for files without a user.
    pub account: Account,
    /// Finds the account of a login name.
    pub find_account: &'c dyn Fn(&str) -> Option<Account>,
}

/// Reads a service file and fills in the built-in defaults.
///
/// The count stays absent when the file names none: an update then keeps what the service has, and
/// a creation takes [`defaults::REPLICAS`].
///
/// # Errors
/// Every fault of the file, each with its line and what is allowed.
pub fn resolve(document: &Document<'_>, context: &Context<'_>) -> Result<ServiceSpec, Faults> {
    read(document, FIELDS, |root| service(root, context))
        .map(|spec| spec.expect("a missing part has been noted as a fault"))
}

fn service(root: &Section<'_>, context: &Context<'_>) -> Option<ServiceSpec> {
    let name = required_name(root);
    let named = |field: &str, default: &str| optional_name(root, field, default);
    let project = named("project", defaults::PROJECT);
    let queue = named("queue", defaults::QUEUE);
    let profile = named("profile", defaults::SERVICE_PROFILE);
    let replicas = root
        .field("replicas")
        .and_then(|field| field.small_integer(0..=REPLICAS_MAX));
    let settings = ServiceSettings {
        spread: spread(root),
        rollout: rollout(root),
        replacement: replacement(root),
        labels: template_file::pairs(root, "labels"),
    };
    let template = template_file::template(root, context);
    Some(ServiceSpec {
        name: name?,
        project: context.project.map_or(project, str::to_owned),
        queue,
        profile,
        replicas,
        origins: Vec::new(),
        template: template?,
        settings,
    })
}

fn required_name(root: &Section<'_>) -> Option<String> {
    let Some(field) = root.field("name") else {
        root.fault("`name` is missing: the name of the service");
        return None;
    };
    checked_name(&field, "service")
}

fn optional_name(root: &Section<'_>, name: &str, default: &str) -> String {
    root.field(name)
        .and_then(|field| checked_name(&field, name))
        .unwrap_or_else(|| default.to_owned())
}

fn checked_name(field: &Field<'_>, what: &str) -> Option<String> {
    let name = field.text()?;
    check_name(what, &name)
        .map_err(|refusal| field.fault(refusal))
        .ok()?;
    Some(name)
}

fn spread(root: &Section<'_>) -> Spread {
    let Some(section) = root.section("spread", &["max_per_host", "mode", "label"]) else {
        return Spread::default();
    };
    let modes = [("strict", false), ("best_effort", true)];
    Spread {
        max_per_host: section
            .field("max_per_host")
            .and_then(|field| field.small_integer(1..=REPLICAS_MAX)),
        best_effort: section
            .field("mode")
            .and_then(|field| field.word(&modes))
            .unwrap_or(Spread::default().best_effort),
        label: section
            .field("label")
            .and_then(|field| checked_name(&field, "label")),
    }
}

fn rollout(root: &Section<'_>) -> RolloutSettings {
    let mut settings = defaults::ROLLOUT;
    let fields = [
        "max_surge",
        "max_unavailable",
        "min_ready",
        "progress_deadline",
        "on_stuck",
        "history_limit",
    ];
    let Some(section) = root.section("rollout", &fields) else {
        return settings;
    };
    set_amount(&section, "max_surge", &mut settings.max_surge);
    set_amount(&section, "max_unavailable", &mut settings.max_unavailable);
    set_duration(&section, "min_ready", &mut settings.min_ready);
    set_duration(
        &section,
        "progress_deadline",
        &mut settings.progress_deadline,
    );
    set_count(
        &section,
        "history_limit",
        1..=HISTORY_MAX,
        &mut settings.history_limit,
    );
    let reactions = [("stop", OnStuck::Stop), ("rollback", OnStuck::Rollback)];
    if let Some(reaction) = section
        .field("on_stuck")
        .and_then(|field| field.word(&reactions))
    {
        settings.on_stuck = reaction;
    }
    if is_zero(settings.max_surge) && is_zero(settings.max_unavailable) {
        section.fault(
            "max_surge and max_unavailable are both 0, so no rollout could move; raise one of them",
        );
    }
    if settings.progress_deadline <= settings.min_ready {
        section.fault(format!(
            "progress_deadline {} must be longer than min_ready {}",
            settings.progress_deadline, settings.min_ready
        ));
    }
    settings
}

const fn is_zero(amount: Amount) -> bool {
    matches!(amount, Amount::Count(0) | Amount::Percent(0))
}

fn set_amount(section: &Section<'_>, name: &str, target: &mut Amount) {
    let Some(field) = section.field(name) else {
        return;
    };
    if field.is_integer() {
        if let Some(count) = field.small_integer(0..=REPLICAS_MAX) {
            *target = Amount::Count(count);
        }
        return;
    }
    let Some(text) = field.text() else { return };
    let percent = text
        .strip_suffix('%')
        .and_then(|digits| digits.trim().parse::<u32>().ok());
    match percent.filter(|percent| *percent <= 100) {
        Some(percent) => *target = Amount::Percent(percent),
        None => {
            let shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
            field.fault(format!(
                "`{shown}` is neither a number of replicas nor a share from \"0%\" to \"100%\""
            ));
        }
    }
}

fn replacement(root: &Section<'_>) -> ReplacementSettings {
    let mut settings = defaults::REPLACEMENT;
    let fields = [
        "stable_after",
        "delay",
        "delay_max",
        "crash_limit",
        "crash_window",
    ];
    let Some(section) = root.section("replacement", &fields) else {
        return settings;
    };
    set_duration(&section, "stable_after", &mut settings.stable_after);
    set_duration(&section, "delay", &mut settings.delay);
    set_duration(&section, "delay_max", &mut settings.delay_max);
    set_duration(&section, "crash_window", &mut settings.crash_window);
    set_count(
        &section,
        "crash_limit",
        1..=CRASHES_MAX,
        &mut settings.crash_limit,
    );
    check_delays(&section, settings.delay, settings.delay_max);
    settings
}

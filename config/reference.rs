//! The reference of a daemon's options, as a file that says the defaults.

use crate::home::Home;
use crate::option::Settings;

/// Writes the reference; every option once, with its kind, default, range and meaning.
///
/// The text is itself a settings file with exactly the defaults.
pub fn reference<S: Settings>() -> String {
    let home = Home::new("XCE_HOME");
    let defaults = serde_json::to_value(S::defaults(&home)).unwrap_or_default();
    let mut text = format!(
        "# Options of the {role}. Generated; a test keeps it equal to the program.\n\
         #\n\
         # Sources, each winning over those before: these defaults, a file such as this one, the\n\
         # environment (XCE_{upper}_ and the option in capitals, with __ for a dot), flags.\n\
         # An unknown option is an error. A change needs a restart of the {role}, where an option does\n\
         # not say that a reload suffices: SIGHUP{command}.\n",
        command = match S::ROLE {
            "controller" => ", or `xcecli config reload`",
            _ => "",
        },
        role = S::ROLE,
        upper = S::ROLE.to_ascii_uppercase(),
    );
    let mut table = "";
    for option in S::OPTIONS {
        let (outer, name) = option.key.rsplit_once('.').unwrap_or(("", option.key));
        text.push('\n');
        if outer != table {
            text.push_str(&format!("[{outer}]\n"));
            table = outer;
        }
        let value = option
            .key
            .split('.')
            .try_fold(&defaults, |value, name| value.get(name));
        let (mark, shown) = match (option.derived, value) {
            (None, Some(value)) => ("", toml_text(value)),
            (Some(source), _) => ("#", format!("{:?}", format!("({source})"))),
            (None, None) => ("#", String::new()),
        };
        let default = option.derived.map_or_else(|| shown.clone(), str::to_owned);
        text.push_str(&format!(
            "# {}\n# Kind: {}. Default: {default}. Allowed: {}. Since 0.1.0.{}\n{mark}{name} = {shown}\n",
            option.text,
            option.kind,
            option.range,
            hints::<S>(option.key)
        ));
    }
    text
}

/// Whether a reload suffices, and the earlier name.
fn hints<S: Settings>(key: &str) -> String {
    let mut text = String::new();
    if S::LIVE.contains(&key) {
        text.push_str(" Changed by a reload.");
    }
    if let Some(one) = S::RENAMED.iter().find(|one| one.new == key) {
        text.push_str(&format!(" Until version {}: `{}`.", one.since - 1, one.old));
    }
    text
}

fn toml_text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => "\"\"".to_owned(),
        serde_json::Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_)
        | serde_json::Value::Array(_)
        | serde_json::Value::Object(_) => value.to_string(),
    }
}

//! What is written down of each option of a daemon.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fault::Fault;
use crate::forms::Renamed;
use crate::home::Home;

/// What an option holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A path of a file or directory.
    Path,
    /// `address:port`.
    Address,
    /// A duration with its unit.
    Duration,
    /// A size with its unit.
    Size,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list of texts; in the environment and in flags separated by commas.
    List,
    /// A table of names and texts; in a file only.
    Table,
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionDoc {
    /// Dotted name.
    pub key: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Allowed values.
    pub range: &'static str,
    /// Where the default comes from, for options whose default is not a constant.
    pub derived: Option<&'static str>,
    /// What it is for, in one sentence.
    pub text: &'static str,
}

/// Settings of one daemon, with what is written down of them.
pub trait Settings: Serialize + DeserializeOwned {
    /// Role, in lower case; `XCE_<ROLE>_` begins its variables of the environment.
    const ROLE: &'static str;
    /// Every option, in the order of the reference.
    const OPTIONS: &'static [OptionDoc];
    /// Options that had another name in earlier versions of the form.
    const RENAMED: &'static [Renamed] = &[];
    /// Options whose change holds without a restart, by a reload.
    const LIVE: &'static [&'static str] = &[];

    /// Defaults for a home.
    fn defaults(home: &Home) -> Self;

    /// Notes every value that is out of range or does not fit the others.
    fn check(&self, faults: &mut Vec<Fault>);
}

/// Version of the configuration's form. Source: counted; 2 put what concerns the silence of hosts into
/// a table of its own.
pub const CONFIG_VERSION: u32 = 2;

/// The option that every daemon has.
pub const CONFIG_VERSION_DOC: OptionDoc = OptionDoc {
    key: "config_version",
    kind: Kind::Number,
    range: "1 or 2; older forms are read for ever",
    derived: None,
    text: "Version of the form of this file; `xced config upgrade FILE` brings it up to the newest.",
};

/// The options of logging, which every daemon has.
pub const LOG_LEVEL_DOC: OptionDoc = OptionDoc {
    key: "log.level",
    kind: Kind::Text,
    range: "off, error, warn, info, debug, trace, or directives such as info,xce_wal=debug",
    derived: None,
    text: "What is logged to stderr; the variable XCE_LOG wins over it.",
};
/// See [`LOG_LEVEL_DOC`].
pub const LOG_FORMAT_DOC: OptionDoc = OptionDoc {
    key: "log.format",
    kind: Kind::Text,
    range: "text or json",
    derived: None,
    text: "Form of log lines.",
};

impl Kind {
    /// The word for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Path => "path",
            Self::Address => "address:port",
            Self::Duration => "duration with its unit",
            Self::Size => "size with its unit",
            Self::Number => "number",
            Self::Boolean => "true or false",
            Self::List => "list of texts",
            Self::Table => "table of names and texts",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.word())
    }
}

/// Notes a value outside its range.
pub(crate) fn check_range<T: PartialOrd + fmt::Display>(
    faults: &mut Vec<Fault>,
    key: &str,
    value: &T,
    least: &T,
    most: &T,
) {
    if value < least || value > most {
        faults.push(Fault::placeless(format!(
            "`{key}` is {value}; allowed: {least} to {most}"
        )));
    }
}

/// Notes another version than ours.
pub(crate) fn check_version(faults: &mut Vec<Fault>, version: u32) {
    if version != CONFIG_VERSION {
        faults.push(Fault::placeless(format!(
            "`config_version` is {version}; this program reads versions 1 to {CONFIG_VERSION}"
        )));
    }
}

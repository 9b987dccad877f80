//! What a reload of a daemon's settings came to.

/// A reload in machine output.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct ReloadView {
    /// The daemon, such as `c1`.
    pub daemon: String,
    /// The file that was read; empty where none is named.
    pub file: String,
    /// What differs from what ran.
    pub changes: Vec<SettingChange>,
    /// Where the settings that run are kept.
    pub kept: String,
}

/// A setting that differs from what ran.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SettingChange {
    /// Dotted name of the option.
    pub option: String,
    /// As it was.
    pub from: String,
    /// As it is, or will be.
    pub to: String,
    /// `applied`, or `restart` where it holds from the next start on.
    pub how: String,
}

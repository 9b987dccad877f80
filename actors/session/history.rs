//! Versions of a service, as shown.

use xce_model::spec::Template;
use xce_service::Times;
use xce_service::view::VersionView;

/// A version with what it runs.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct VersionDetails {
    /// Number, reason, author, time and outcome.
    #[serde(flatten)]
    pub version: VersionView,
    /// Whether it is the current one.
    pub current: bool,
    /// Queue of its replicas.
    pub queue: String,
    /// What it runs, in a line.
    pub summary: String,
    /// How long its replicas took.
    pub times: Times,
    /// All that a replica runs; only where one version was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Box<Template>>,
}

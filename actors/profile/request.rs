//! What a request brings beside its document.

use xce_model::spec::User;

/// The user that something runs as, with what a login of that user would set; a layer above the
/// built-in values and below the profile.
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
pub struct RunAs {
    /// Name and ids.
    pub user: User,
    /// Environment before anybody's own variables, such as HOME and PATH.
    pub env: Vec<(String, String)>,
    /// Working directory; the run's own when absent.
    pub cwd: Option<String>,
}

impl RunAs {
    /// What a service gets: the variables of a login, and nothing else of the caller's.
    pub fn service(account: &crate::defaults::Account) -> Self {
        let env = crate::defaults::service_environment(account);
        Self {
            user: account.user.clone(),
            env: env.into_iter().collect(),
            cwd: None,
        }
    }
}

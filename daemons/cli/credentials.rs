//! Who the user is and where the cluster is: the client file and the identity beside it.

use xce_config::{ClientConfig, Home, Sources};
use xce_link::{Identity, IdentityError};
pub use xce_model::chain;
use xce_model::{ClusterId, Refusal, RefusalKind};

use super::arguments::Global;
use super::failure::Failure;

/// Reads settings and identity.
///
/// # Errors
/// When there is no client file or identity, they cannot be used, or they are of two clusters.
pub fn load(global: &Global) -> Result<(ClientConfig, Identity), Failure> {
    let (config, home) = settings(global)?;
    let identity = Identity::load(&config.identity_dir).map_err(|error| {
        let (kind, code) = match &error {
            IdentityError::Missing(_) => (RefusalKind::Unavailable, "no_identity"),
            IdentityError::File(_)
            | IdentityError::Pem { .. }
            | IdentityError::Principal(_)
            | IdentityError::Key(_) => (RefusalKind::NotPermitted, "bad_identity"),
        };
        Refusal::new(kind, code, format!("{}{}", chain(&error), hint(&home)))
    })?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_s = now.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    });
    if let Some(text) = identity.out_of_time(now_s) {
        return Err(Refusal::new(RefusalKind::NotPermitted, "certificate_time", text).into());
    }
    let cluster = identity.principal().cluster;
    let meant = config
        .cluster
        .as_ref()
        .and_then(|text| text.parse::<ClusterId>().ok());
    if let Some(meant) = meant.filter(|meant| *meant != cluster) {
        let text = format!("client.toml means cluster {meant}, the identity is of {cluster}");
        return Err(Refusal::new(RefusalKind::NotPermitted, "wrong_cluster", text).into());
    }
    Ok((config, identity))
}

fn settings(global: &Global) -> Result<(ClientConfig, Home), Failure> {
    let variable = |name: &str| std::env::var(name).ok();
    let home = Home::find(global.home.as_deref(), variable).ok_or_else(|| {
        Failure::Usage("neither --home nor XCE_HOME nor HOME names a directory".to_owned())
    })?;
    let file = home.client_file();
    let file_exists = file.exists();
    if !file_exists && variable("XCE_CLIENT_CONTROLLERS").is_none() {
        let text = format!("{} does not exist{}", file.display(), hint(&home));
        return Err(Refusal::new(RefusalKind::Unavailable, "no_client_file", text).into());
    }
    let sources = Sources::of_process(file_exists.then_some(file));
    let config = xce_config::load::<ClientConfig>(&home, &sources)
        .map_err(|faults| Failure::Usage(faults.to_string()))?;
    Ok((config, home))
}

fn hint(home: &Home) -> String {
    format!(
        "; `xced dev --home {}` starts a cluster there, --home names another directory",
        home.path().display()
    )
}

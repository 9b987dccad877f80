//! Settings of a client: where the cluster is, and who the user is.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::home::Home;
use crate::option::{CONFIG_VERSION, CONFIG_VERSION_DOC, Kind, OptionDoc, Settings, check_version};

/// Most addresses of controllers. Source: derived, five controllers with three addresses each.
const CONTROLLERS_MAX: usize = 16;

/// Settings of a client; each option is described in `reference/client.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientConfig {
    /// Version of the file's form.
    pub config_version: u32,
    /// Addresses of controllers, each `address:port`.
    pub controllers: Vec<String>,
    /// The cluster that is meant; the identity's own when absent.
    pub cluster: Option<String>,
    /// The user's identity.
    pub identity_dir: PathBuf,
}

impl ClientConfig {
    /// Addresses of the controllers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.controllers
            .iter()
            .filter_map(|text| text.parse().ok())
            .collect()
    }

    /// The file that tells a client of these settings, as `xced dev` writes it.
    pub fn to_file(&self) -> String {
        let text = |value: &str| toml::Value::from(value).to_string();
        let controllers: Vec<String> = self.controllers.iter().map(|entry| text(entry)).collect();
        let mut file = format!(
            "config_version = {}\ncontrollers = [{}]\nidentity_dir = {}\n",
            self.config_version,
            controllers.join(", "),
            text(&self.identity_dir.display().to_string()),
        );
        if let Some(cluster) = &self.cluster {
            file.push_str(&format!("cluster = {}\n", text(cluster)));
        }
        file
    }
}

impl Settings for ClientConfig {
    const ROLE: &'static str = "client";

    const OPTIONS: &'static [OptionDoc] = &[
        CONFIG_VERSION_DOC,
        OptionDoc {
            key: "controllers",
            kind: Kind::List,
            range: "1 to 16 of `address:port`",
            derived: None,
            text: "Addresses of the cluster's controllers.",
        },
        OptionDoc {
            key: "cluster",
            kind: Kind::Text,
            range: "32 hexadecimal digits",
            derived: Some("the cluster of the identity"),
            text: "The cluster that is meant; an identity of another one is refused.",
        },
        OptionDoc {
            key: "identity_dir",
            kind: Kind::Path,
            range: "a directory with identity.pem, identity.key and ca.pem",
            derived: Some("XCE_HOME/client"),
            text: "The user's certificate and key, and the cluster's authority.",
        },
    ];

    fn defaults(home: &Home) -> Self {
        Self {
            config_version: CONFIG_VERSION,
            controllers: default_controllers(),
            cluster: None,
            identity_dir: home.client(),
        }
    }

    fn check(&self, faults: &mut Vec<Fault>) {
        check_version(faults, self.config_version);
        check_controllers(faults, &self.controllers);
        if let Some(cluster) = &self.cluster
            && let Err(error) = cluster.parse::<xce_model::ClusterId>()
        {
            faults.push(Fault::placeless(format!("`cluster`: {error}")));
        }
    }
}

/// The controller of this machine.
pub(crate) fn default_controllers() -> Vec<String> {
    vec![format!("127.0.0.1:{}", crate::controller::PORT)]
}

/// Notes what is wrong with a list of controllers.
pub(crate) fn check_controllers(faults: &mut Vec<Fault>, controllers: &[String]) {
    if controllers.is_empty() || controllers.len() > CONTROLLERS_MAX {
        faults.push(Fault::placeless(format!(
            "`controllers` has {} addresses; allowed: 1 to {CONTROLLERS_MAX}",
            controllers.len()
        )));
    }
    for text in controllers {
        if text.parse::<SocketAddr>().is_err() {
            let shown: String = text.chars().take(64).flat_map(char::escape_debug).collect();
            faults.push(Fault::placeless(format!(
                "`controllers`: `{shown}` is not an `address:port`, such as 127.0.0.1:7477"
            )));
        }
    }
}

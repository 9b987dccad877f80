//! Makes what a cluster of one machine needs: directories, the authority, identities.

use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use xce_config::{ClientConfig, Home};
use xce_link::{Authority, Identity, Role};
use xce_model::ClusterId;

/// Least life of a certificate that is kept; one with less is issued again.
/// Source: design section 12.1, warned a month before.
const CERTIFICATE_LEFT_S: i64 = 31 * 86_400;

/// Refuses an identity whose certificate is out of its time, in words.
pub fn in_time(identity: &Identity) -> anyhow::Result<()> {
    match identity.out_of_time(unix_seconds()) {
        None => Ok(()),
        Some(text) => anyhow::bail!(text),
    }
}

/// The wall clock as certificates know it.
pub fn unix_seconds() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Makes a directory that only its owner may enter.
pub fn directory(path: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot make the directory {}", path.display()))?;
    let meta = std::fs::metadata(path)
        .with_context(|| format!("cannot read the directory {}", path.display()))?;
    anyhow::ensure!(meta.is_dir(), "{} is not a directory", path.display());
    Ok(())
}

/// The cluster's authority, which is made at first start.
pub fn authority(home: &Home) -> anyhow::Result<Authority> {
    let path = home.authority();
    directory(&path)?;
    let file = path.join("cluster");
    let cluster = match std::fs::read_to_string(&file) {
        Ok(text) => text
            .trim()
            .parse::<ClusterId>()
            .with_context(|| format!("{} does not hold the cluster's id", file.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => new_cluster(&file)?,
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", file.display()));
        }
    };
    Authority::load_or_create(&path, cluster, unix_seconds())
        .with_context(|| format!("the authority in {}", path.display()))
}

fn new_cluster(file: &Path) -> anyhow::Result<ClusterId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system gives no randomness: {error}"))?;
    let cluster = ClusterId(bytes);
    xce_link::secret_file::replace(file, format!("{cluster}\n").as_bytes())?;
    Ok(cluster)
}

/// The identity in a directory, which is issued where there is none that is good for long.
pub fn identity(
    authority: &Authority,
    path: &Path,
    role: Role,
    name: &str,
) -> anyhow::Result<Identity> {
    directory(path)?;
    if let Ok(identity) = Identity::load(path) {
        let principal = identity.principal();
        let good = principal.cluster == authority.cluster()
            && principal.role == role
            && principal.name == name
            && identity.expires_unix_s() - unix_seconds() > CERTIFICATE_LEFT_S;
        if good {
            return Ok(identity);
        }
    }
    let identity = authority.issue(role, name, unix_seconds())?;
    identity.store(path)?;
    Ok(identity)
}

/// Tells clients on this machine where the cluster is.
pub fn client(home: &Home, cluster: ClusterId, address: SocketAddr) -> anyhow::Result<()> {
    client_of(home, cluster, &[address])
}

/// Tells clients on this machine where the controllers of the cluster are.
pub fn client_of(home: &Home, cluster: ClusterId, addresses: &[SocketAddr]) -> anyhow::Result<()> {
    let config = ClientConfig {
        config_version: xce_config::option::CONFIG_VERSION,
        controllers: addresses.iter().map(ToString::to_string).collect(),
        cluster: Some(cluster.to_string()),
        identity_dir: home.client(),
    };
    let file = home.client_file();
    xce_link::secret_file::replace(&file, config.to_file().as_bytes())
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Login name of whoever runs this process.
pub fn login_name() -> anyhow::Result<String> {
    let uid = nix::unistd::Uid::effective();
    let user = nix::unistd::User::from_uid(uid)
        .with_context(|| format!("cannot look up the user with id {uid}"))?;
    Ok(user.map_or_else(|| format!("uid-{uid}"), |user| user.name))
}

//! A directory whose log cannot be trusted: asked to be taken in anew by a quorum elsewhere, then set
//! aside and begun again. Without such a quorum nothing is touched.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::WalConfig;
use crate::device::sync_directory;
use crate::directory::StateDirectory;
use crate::error::{OpenError, chain};
use crate::notes::Notes;
use crate::peers::{Lane, Member};
use crate::raft::{PeerAnswer, PeerRequest};
use crate::recover::io_error;

/// Says in a directory that its log must not be used, and why.
const MARKER: &str = "REJOIN";
/// How long one controller may take to take this one in: two changes of the membership.
///
/// Source: derived; the bounds of such changes.
const TAKE_IN_WITHIN: Duration = Duration::from_secs(30);
/// Pause between two rounds of asking. Source: derived; an election takes that long.
const PAUSE: Duration = Duration::from_millis(300);

/// Notes that the log of this directory must not be used when it is opened next.
///
/// # Errors
/// An error of the system.
pub(crate) fn mark(root: &Path, reason: &str) -> std::io::Result<()> {
    let mut file = File::create(root.join(MARKER))?;
    file.write_all(reason.as_bytes())?;
    file.sync_all()?;
    sync_directory(root)
}

/// What the marker says.
pub(crate) fn marked(root: &Path) -> Option<OpenError> {
    let reason = std::fs::read_to_string(root.join(MARKER)).ok()?;
    Some(OpenError::Outdated {
        directory: root.to_path_buf(),
        detail: reason,
    })
}

/// Whether others can help against this.
pub(crate) fn is_curable(error: &OpenError) -> bool {
    match error {
        OpenError::Damage(_) | OpenError::Snapshot(_) | OpenError::Outdated { .. } => true,
        OpenError::Setting { .. }
        | OpenError::Locked { .. }
        | OpenError::NotInitialised { .. }
        | OpenError::Foreign { .. }
        | OpenError::Newer { .. }
        | OpenError::Io { .. }
        | OpenError::NotTakenIn { .. }
        | OpenError::Consensus { .. } => false,
    }
}

/// Has this controller taken in again by the others, and sets aside what it has. Afterwards the
/// directory is one that waits for a cluster to take it in.
///
/// # Errors
/// The error that led here, when there are no others or none of them can help.
pub(crate) async fn rejoin(config: &WalConfig, error: OpenError) -> Result<(), OpenError> {
    let others = Notes::of(&config.dir).others(config.node_id);
    if others.is_empty() || config.address.is_empty() {
        return Err(error);
    }
    // The lock keeps others out meanwhile.
    let lock = StateDirectory::lock(&config.dir)?;
    tracing::error!(
        error = chain(&error),
        "the log of this controller cannot be used; the others are asked to take it in again"
    );
    if let Err(detail) = ask(config, &others).await {
        return Err(OpenError::NotTakenIn {
            detail,
            source: Box::new(error),
        });
    }
    let reason = chain(&error);
    let root = &config.dir;
    mark(root, &reason).map_err(io_error("write", &root.join(MARKER)))?;
    let aside = set_aside(root)?;
    tracing::error!(
        reason,
        aside = %aside.display(),
        "the state of this controller was set aside; it gets all of it from the others"
    );
    drop(lock);
    Ok(())
}

/// Ends the state of transition once the new directory is there.
///
/// # Errors
/// An error of the system.
pub(crate) fn finish(root: &Path) -> Result<(), OpenError> {
    let path = root.join(MARKER);
    match std::fs::remove_file(&path) {
        Ok(()) => sync_directory(root).map_err(io_error("sync", root)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error("remove", &path)(error)),
    }
}

/// Asks one after another, whoever leads by their account first.
async fn ask(config: &WalConfig, others: &[Member]) -> Result<(), String> {
    let own = Member {
        node: config.node_id,
        address: config.address.clone(),
    };
    let request = PeerRequest::Rejoin(own).encode();
    let deadline = tokio::time::Instant::now() + config.rejoin_within;
    let mut said = "nobody answers".to_owned();
    while tokio::time::Instant::now() < deadline {
        let mut turn: Vec<Member> = others.to_vec();
        let mut asked = 0;
        while let Some(member) = turn.get(asked).cloned() {
            asked += 1;
            let node = member.node;
            let called = config
                .peers
                .call(member, Lane::Control, request.clone(), TAKE_IN_WITHIN);
            let answer = match called.await {
                Ok(bytes) => PeerAnswer::decode(&bytes),
                Err(error) => Err(error.to_string()),
            };
            match answer {
                Ok(PeerAnswer::TakenIn) => return Ok(()),
                Ok(PeerAnswer::NotMember) => {
                    return Err(format!(
                        "controller {node} says that this one is no longer part of the cluster; join \
                         with a new invitation"
                    ));
                }
                Ok(PeerAnswer::NotPrimary(Some(leader)))
                    if asked < MOST_ASKED && leader.node != config.node_id =>
                {
                    turn.insert(asked, leader);
                }
                Ok(PeerAnswer::NotPrimary(_)) => {
                    said = "none of the others is the primary".to_owned();
                }
                Ok(PeerAnswer::Failed(text)) | Err(text) => said = text,
                Ok(other) => said = format!("controller {node} answers {other:?}"),
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(said)
}

/// Most calls of one round. Source: derived; five controllers that all name another one.
const MOST_ASKED: usize = 10;

/// Moves log, snapshots and identity into a folder of their own, which is kept.
fn set_aside(root: &Path) -> Result<PathBuf, OpenError> {
    let free = (1..u32::MAX).map(|number| root.join(format!("set-aside-{number}")));
    let aside = free
        .into_iter()
        .find(|path| !path.exists())
        .expect("there are fewer folders");
    std::fs::create_dir(&aside).map_err(io_error("create", &aside))?;
    // The file that marks the directory as made goes first: without it nothing of it is believed.
    for part in ["IDENTITY", "log", "snapshots"] {
        let path = root.join(part);
        if path.exists() {
            std::fs::rename(&path, aside.join(part)).map_err(io_error("move", &path))?;
        }
    }
    for path in [&aside, &root.to_path_buf()] {
        sync_directory(path).map_err(io_error("sync", path))?;
    }
    Ok(aside)
}

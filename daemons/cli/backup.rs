//! `cluster backup`: the whole cluster in one file.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use xce_backup::{Backup, Controller, Head};
use xce_model::WallTime;
use xce_session::member_wire::{AskMember, BackupHead, ReplyMember};
use xce_session::wire::{Ask, Reply};

use super::arguments::{Form, Global};
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::{journal, print};

/// What was backed up, in machine output.
#[derive(Debug, Serialize)]
struct Done {
    file: PathBuf,
    cluster: String,
    lsn: u64,
    epoch: u32,
    services: usize,
    jobs: u64,
    hosts: usize,
    bytes: u64,
}

/// Writes a backup beside the running cluster, and reads it back as a restore would.
///
/// # Errors
/// See [`Failure`]; nothing is left behind then.
pub async fn run(path: &Path, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    if path.exists() {
        let text = format!("{} exists already; nothing was written", path.display());
        return Err(Failure::Local(text));
    }
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let done = match write(&part, connection).await {
        Ok(()) => verified(&part, path),
        Err(failure) => Err(failure),
    };
    let done = done.and_then(|done| {
        std::fs::rename(&part, path).map_err(failed("rename to", path))?;
        Ok(done)
    });
    match done {
        Ok(done) => say(&done, global),
        Err(failure) => {
            // It is of no use; one that cannot be removed does no harm.
            drop(std::fs::remove_file(&part));
            Err(failure)
        }
    }
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure + use<> {
    let path = path.to_path_buf();
    move |error| Failure::Local(format!("cannot {doing} {}: {error}", path.display()))
}

async fn write(part: &Path, connection: &mut Connection) -> Result<(), Failure> {
    let head = head(connection).await?;
    // Left behind by one that was killed.
    drop(std::fs::remove_file(part));
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(part)
        .map_err(failed("write", part))?;
    let put = |file: &mut File, bytes: &[u8]| file.write_all(bytes).map_err(failed("write", part));
    for attempt in 1.. {
        file.set_len(0).map_err(failed("write", part))?;
        std::io::Seek::rewind(&mut file).map_err(failed("write", part))?;
        put(&mut file, &head.encode())?;
        match journal::copy(connection, &mut |bytes| put(&mut file, bytes)).await {
            Ok(_) => break,
            Err(failure) if journal::begins_again(&failure, attempt) => {}
            Err(failure) => return Err(failure),
        }
    }
    file.sync_all().map_err(failed("write", part))
}

async fn head(connection: &mut Connection) -> Result<Head, Failure> {
    let head: BackupHead = match connection.ask(Ask::Member(AskMember::Backup)).await? {
        Reply::Member(ReplyMember::Backup(head)) => *head,
        other => return Err(unexpected(kind_of(&other))),
    };
    let controllers = head.controllers.into_iter();
    Ok(Head {
        cluster: connection.cluster(),
        taken: WallTime(head.taken_ms),
        version: head.version,
        controllers: controllers
            .map(|(node, address)| Controller { node, address })
            .collect(),
        certificate: head.certificate,
        key: head.key,
    })
}

/// Reads it from front to back: what cannot be restored is no backup.
fn verified(part: &Path, path: &Path) -> Result<Done, Failure> {
    let read = Backup::open(part).and_then(|backup| Ok((backup.contents()?, backup)));
    let (contents, backup) = read.map_err(|error| {
        Failure::Local(format!("what was written cannot be read back: {error}"))
    })?;
    let view = contents.ledger.view();
    Ok(Done {
        file: path.to_path_buf(),
        cluster: backup.head().cluster.to_string(),
        lsn: contents.lsn,
        epoch: view.epoch(),
        services: view.services().len(),
        jobs: view.job_count(),
        hosts: view.hosts().len(),
        bytes: std::fs::metadata(part).map_or(contents.bytes, |meta| meta.len()),
    })
}

fn say(done: &Done, global: &Global) -> Result<(), Failure> {
    match global.output {
        Form::Table | Form::Wide | Form::Plain | Form::Dns => print::text(&format!(
            "{}: as of LSN {}, {} services, {} jobs, {} hosts, {} bytes; read back and verified\n",
            done.file.display(),
            done.lsn,
            done.services,
            done.jobs,
            done.hosts,
            done.bytes
        )),
        Form::Name => print::text(&format!("{}\n", done.file.display())),
        Form::Json => print::text(&print::json(done)?),
        Form::Yaml => print::text(&print::yaml(done)?),
    }
}

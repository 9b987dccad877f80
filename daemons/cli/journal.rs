//! `journal`: the log as a file, and what was refused.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use xce_session::journal_wire::{JournalPart, JournalPosition, RefusalView};
use xce_session::wire::{Ask, AskCluster, Reply};

use super::arguments::Global;
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::present::time;
use super::print;

/// What is done with the journal.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Write the kept log as a file: a snapshot and every committed group after it, for `xced replay`.
    Export {
        /// Where to [default: stdout].
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Print the last changes that were refused.
    Refusals {
        /// Most rows.
        #[arg(long, value_name = "N", default_value_t = LAST)]
        last: u32,
    },
}

/// Refusals that are printed unless said otherwise. Source: chosen, a screen.
const LAST: u32 = 20;
/// How often an export is begun again when a newer snapshot takes the place of the exported one.
/// Source: derived; each time the controller logged 64 MiB meanwhile.
const ATTEMPTS_MAX: u32 = 5;

/// Runs a verb.
///
/// # Errors
/// See [`Failure`].
pub async fn run(verb: Verb, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    match verb {
        Verb::Export { out } => export(out.as_deref(), connection).await,
        Verb::Refusals { last } => {
            let ask = Ask::Cluster(AskCluster::Refusals { last });
            match connection.ask(ask).await? {
                Reply::Refusals(refusals) => print::list(global.output, &refusals),
                other => Err(unexpected(kind_of(&other))),
            }
        }
    }
}

async fn export(out: Option<&Path>, connection: &mut Connection) -> Result<(), Failure> {
    let Some(path) = out else {
        if std::io::stdout().is_terminal() {
            let text = "a journal is no text: name a file with --out, or redirect stdout";
            return Err(Failure::Usage(text.to_owned()));
        }
        // What was written cannot be taken back, so there is one attempt.
        let mut write = |bytes: &[u8]| print::bytes(bytes).map(drop);
        return copy(connection, &mut write).await.map(|done| say(&done));
    };
    let failed = |doing: &str, error: std::io::Error| {
        Failure::Local(format!("cannot {doing} {}: {error}", path.display()))
    };
    // The file appears when it is whole.
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    for attempt in 1.. {
        let mut file = File::create(&part).map_err(|error| failed("write", error))?;
        let mut write = |bytes: &[u8]| {
            file.write_all(bytes)
                .map_err(|error| failed("write", error))
        };
        match copy(connection, &mut write).await {
            Ok(done) => {
                file.sync_all().map_err(|error| failed("write", error))?;
                std::fs::rename(&part, path).map_err(|error| failed("rename to", error))?;
                say(&done);
                return Ok(());
            }
            Err(failure) if begins_again(&failure, attempt) => {}
            Err(failure) => {
                // It is of no use; one that cannot be removed does no harm.
                drop(std::fs::remove_file(&part));
                return Err(failure);
            }
        }
    }
    Ok(())
}

/// Whether an export is begun again, because a newer snapshot took the place of the exported one.
pub(super) fn begins_again(failure: &Failure, attempt: u32) -> bool {
    match failure {
        Failure::Refused(refusal) if refusal.code == "superseded" && attempt < ATTEMPTS_MAX => {
            print::talk(&format!("{}, beginning again", refusal.text));
            true
        }
        Failure::Refused(_)
        | Failure::Usage(_)
        | Failure::TimedOut(_)
        | Failure::Unmet(_)
        | Failure::Local(_) => false,
    }
}

/// What was exported.
pub(super) struct Done {
    last: JournalPosition,
    bytes: u64,
}

/// Asks for part after part, in order.
pub(super) async fn copy(
    connection: &mut Connection,
    write: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<Done, Failure> {
    let (mut after, mut bytes) = (None, 0);
    loop {
        let part = next(connection, after).await?;
        write(&part.bytes)?;
        bytes += part.bytes.len() as u64;
        if part.done {
            let last = part.position;
            return Ok(Done { last, bytes });
        }
        after = Some(part.position);
    }
}

async fn next(
    connection: &mut Connection,
    after: Option<JournalPosition>,
) -> Result<JournalPart, Failure> {
    match connection
        .ask(Ask::Cluster(AskCluster::Journal(after)))
        .await?
    {
        Reply::Journal(part) => Ok(*part),
        other => Err(unexpected(kind_of(&other))),
    }
}

fn say(done: &Done) {
    print::talk(&format!(
        "from lsn {} to lsn {}: {} groups, {} bytes",
        done.last.base, done.last.end, done.last.groups, done.bytes
    ));
}

impl print::Row for RefusalView {
    fn head(wide: bool) -> Vec<&'static str> {
        let mut head = vec!["TIME", "LSN", "PRINCIPAL", "EVENT", "CODE"];
        if wide {
            head.push("OPERATION");
        }
        head.push("TEXT");
        head
    }

    fn cells(&self, look: &print::Look) -> Vec<print::Field> {
        let mut cells = vec![
            print::cell(time(&self.time, &look.now)),
            print::cell(self.lsn),
            print::cell(&self.principal),
            print::cell(&self.event),
            print::cell(&self.code),
        ];
        if look.wide {
            cells.push(print::cell(&self.operation));
        }
        cells.push(print::cell(&self.text));
        cells
    }

    fn name(&self) -> String {
        self.operation.clone()
    }
}

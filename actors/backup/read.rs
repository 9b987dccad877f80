//! Reads a backup as a whole: every checksum, every group, up to the state that it holds.

use std::fs::File;
use std::path::{Path, PathBuf};

use xce_ledger::{Group, Ledger};
use xce_wal::{JournalReader, Position};

use crate::BackupError;
use crate::head::Head;

/// A backup whose head was read.
#[derive(Debug)]
pub struct Backup {
    file: PathBuf,
    head: Head,
    journal: u64,
}

/// What a backup holds, having been read from front to back.
pub struct Contents {
    /// The state as of its last position.
    pub ledger: Ledger,
    /// Last position.
    pub lsn: u64,
    /// Highest term of an entry.
    pub term: u64,
    /// Groups after the snapshot that it begins with.
    pub groups: u64,
    /// Bytes read.
    pub bytes: u64,
}

impl Backup {
    /// Opens a file and reads its head.
    ///
    /// # Errors
    /// It cannot be read, is no backup, or its head is damaged.
    pub fn open(path: &Path) -> Result<Self, BackupError> {
        let io = |source| BackupError::Io {
            file: path.to_path_buf(),
            source,
        };
        let mut input = std::io::BufReader::new(File::open(path).map_err(io)?);
        let (head, journal) = Head::read(path, &mut input)?;
        Ok(Self {
            file: path.to_path_buf(),
            head,
            journal,
        })
    }

    /// What it says of itself.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Reads all of it and applies every group.
    ///
    /// # Errors
    /// Names the file and the offset at which it is damaged, or what cannot be read here.
    pub fn contents(&self) -> Result<Contents, BackupError> {
        let mut reader = JournalReader::open_at(&self.file, self.journal)?;
        if reader.head().cluster_id != self.head.cluster.0 {
            return Err(BackupError::Mixed(self.file.clone()));
        }
        let mut ledger = Ledger::new(Box::new(|_, _| ()));
        reader.restore(&mut ledger)?;
        let (mut groups, mut term) = (0, ledger.view().term());
        while let Some(entry) = reader.next_entry()? {
            for (sub, bytes) in (0..).zip(&entry.groups) {
                let group = Group::decode(bytes).map_err(|source| BackupError::Group {
                    file: self.file.clone(),
                    offset: reader.offset(),
                    lsn: entry.lsn,
                    source,
                })?;
                let at = Position {
                    term: entry.term,
                    lsn: entry.lsn,
                    sub,
                };
                // Whether it was refused in log order then is found again now.
                ledger.commit(at, &group);
                groups += 1;
            }
            ledger.publish(entry.lsn, entry.term);
            term = term.max(entry.term);
        }
        let head = *reader.head();
        Ok(Contents {
            ledger,
            lsn: head.end,
            term,
            groups,
            bytes: reader.offset(),
        })
    }
}

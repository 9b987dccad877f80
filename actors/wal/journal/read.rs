//! Reads a journal file. Every length is bounded before it is believed.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::{
    ENTRY_HEADER_BYTES, ENTRY_MAGIC, FOOTER_BYTES, FOOTER_MAGIC, FORMAT, HEADER_BYTES, KIND_BLANK,
    KIND_GROUPS, MAGIC,
};
use crate::error::SnapshotError;
use crate::groups;
use crate::machine::Machine;
use crate::record::{u32_at, u64_at};
use crate::snapshot::SnapshotReader;

/// Largest payload of an entry that is believed.
/// Source: derived; twice the largest entry that can be configured.
const PAYLOAD_BYTES_MAX: usize = 128 << 20;

/// What a journal says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalHead {
    /// The cluster.
    pub cluster_id: [u8; 16],
    /// LSN that its snapshot covers; 0 when it begins with nothing.
    pub base: u64,
    /// Last LSN.
    pub end: u64,
    snapshot_bytes: u64,
}

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// Term in which it was committed.
    pub term: u64,
    /// Its position.
    pub lsn: u64,
    /// The groups in it.
    pub groups: Vec<Vec<u8>>,
}

/// Reads a journal from front to back: the head, then the snapshot, then the entries.
#[derive(Debug)]
pub struct JournalReader {
    file: PathBuf,
    input: BufReader<File>,
    head: JournalHead,
    offset: u64,
    lsn: u64,
    groups: u64,
    done: bool,
}

impl JournalReader {
    /// Opens a file and reads its head.
    ///
    /// # Errors
    /// It cannot be read, is no journal, is damaged, or was written by a newer program.
    pub fn open(path: &Path) -> Result<Self, SnapshotError> {
        Self::open_at(path, 0)
    }

    /// The same for one that begins at an offset of the file, up to its end.
    ///
    /// # Errors
    /// As [`JournalReader::open`].
    pub fn open_at(path: &Path, offset: u64) -> Result<Self, SnapshotError> {
        let io = |source| SnapshotError::Io {
            doing: "open",
            file: path.to_path_buf(),
            source,
        };
        let mut file = File::open(path).map_err(io)?;
        file.seek(SeekFrom::Start(offset)).map_err(io)?;
        let input = BufReader::with_capacity(1 << 16, file);
        let mut reader = Self {
            file: path.to_path_buf(),
            input,
            head: JournalHead {
                cluster_id: [0; 16],
                base: 0,
                end: 0,
                snapshot_bytes: 0,
            },
            offset,
            lsn: 0,
            groups: 0,
            done: false,
        };
        reader.read_head()?;
        Ok(reader)
    }

    /// What it says of itself.
    pub fn head(&self) -> &JournalHead {
        &self.head
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn read_head(&mut self) -> Result<(), SnapshotError> {
        let mut bytes = [0; HEADER_BYTES];
        self.fill(&mut bytes, "the header is cut off")?;
        if &bytes[..8] != MAGIC {
            return Err(self.damaged("this is not a journal"));
        }
        let covered = HEADER_BYTES - 4;
        if u32_at(&bytes, covered) != crc32c::crc32c(&bytes[..covered]) {
            return Err(self.damaged("the header does not match its checksum"));
        }
        let found = u32_at(&bytes, 8);
        if found > FORMAT {
            return Err(SnapshotError::Newer {
                file: self.file.clone(),
                found,
                known: FORMAT,
            });
        }
        self.head.cluster_id.copy_from_slice(&bytes[12..28]);
        self.head.base = u64_at(&bytes, 28);
        self.head.end = u64_at(&bytes, 36);
        self.head.snapshot_bytes = u64_at(&bytes, 44);
        if self.head.base > self.head.end
            || (self.head.base == 0) != (self.head.snapshot_bytes == 0)
        {
            return Err(self.damaged("the header contradicts itself"));
        }
        self.offset += HEADER_BYTES as u64;
        self.lsn = self.head.base;
        Ok(())
    }

    /// Puts the snapshot in place of the machine's state; to be called once, before the entries.
    ///
    /// # Errors
    /// It is damaged, or the machine does not accept a record.
    pub fn restore<M: Machine>(&mut self, machine: &mut M) -> Result<(), SnapshotError> {
        let bytes = self.head.snapshot_bytes;
        if bytes == 0 {
            return Ok(());
        }
        let part = (&mut self.input).take(bytes);
        let (mut records, head) =
            SnapshotReader::of(&self.file, part, self.offset, self.head.cluster_id)?;
        machine.restore(&mut records)?;
        // The footer must have been reached, whether the machine read that far or not.
        if let Some(error) = records.find_map(Result::err) {
            return Err(error);
        }
        let left = records.into_input().limit();
        let lsn = head.last.map_or(0, |last| last.index);
        if left > 0 || lsn != self.head.base {
            return Err(self.damaged("the snapshot is not the one that the header names"));
        }
        self.offset += bytes;
        Ok(())
    }

    /// The next entry; nothing when the footer was read and is right.
    ///
    /// # Errors
    /// The file ends, or is damaged.
    pub fn next_entry(&mut self) -> Result<Option<JournalEntry>, SnapshotError> {
        if self.done {
            return Ok(None);
        }
        let mut magic = [0; 4];
        self.fill(&mut magic, "the footer is missing: the journal is cut off")?;
        match &magic {
            FOOTER_MAGIC => {
                self.footer()?;
                self.done = true;
                Ok(None)
            }
            ENTRY_MAGIC => self.entry().map(Some),
            _ => Err(self.damaged("no entry starts here")),
        }
    }

    fn entry(&mut self) -> Result<JournalEntry, SnapshotError> {
        let mut header = [0; ENTRY_HEADER_BYTES];
        header[..4].copy_from_slice(ENTRY_MAGIC);
        self.fill(&mut header[4..], "an entry is cut off")?;
        let (kind, len) = (u32_at(&header, 4), u32_at(&header, 8) as usize);
        let (term, lsn) = (u64_at(&header, 12), u64_at(&header, 20));
        if len > PAYLOAD_BYTES_MAX {
            return Err(self.damaged(&format!("an entry of {len} bytes is not possible")));
        }
        let mut payload = Vec::new();
        let read = (&mut self.input).take(len as u64).read_to_end(&mut payload);
        read.map_err(|source| self.io(source))?;
        if payload.len() < len {
            return Err(self.damaged("an entry is cut off"));
        }
        let covered = ENTRY_HEADER_BYTES - 4;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..covered]), &payload);
        if u32_at(&header, covered) != crc {
            return Err(self.damaged("an entry does not match its checksum"));
        }
        if lsn != self.lsn + 1 {
            let text = format!("entry {lsn} follows entry {}", self.lsn);
            return Err(self.damaged(&text));
        }
        let groups = match kind {
            KIND_BLANK => Vec::new(),
            KIND_GROUPS => groups::unpack(&payload)
                .map_err(|detail| self.damaged(&detail))?
                .into_iter()
                .map(<[u8]>::to_vec)
                .collect(),
            other => return Err(self.damaged(&format!("entry kind {other} is not known"))),
        };
        self.lsn = lsn;
        self.groups += groups.len() as u64;
        self.offset += (ENTRY_HEADER_BYTES + len) as u64;
        Ok(JournalEntry { term, lsn, groups })
    }

    fn footer(&mut self) -> Result<(), SnapshotError> {
        let mut footer = [0; FOOTER_BYTES];
        footer[..4].copy_from_slice(FOOTER_MAGIC);
        self.fill(&mut footer[4..], "the footer is cut off")?;
        let covered = FOOTER_BYTES - 4;
        if u32_at(&footer, covered) != crc32c::crc32c(&footer[..covered]) {
            return Err(self.damaged("the footer does not match its checksum"));
        }
        let found = [
            self.lsn - self.head.base,
            self.groups,
            self.head.end,
            self.lsn,
        ];
        let said = [
            u64_at(&footer, 4),
            u64_at(&footer, 12),
            u64_at(&footer, 20),
            self.head.end,
        ];
        if found != said {
            return Err(self.damaged("entries are missing before the footer"));
        }
        let mut more = [0];
        match self.input.read(&mut more) {
            Ok(0) => Ok(()),
            Ok(_) => {
                self.offset += FOOTER_BYTES as u64;
                Err(self.damaged("bytes follow the footer"))
            }
            Err(source) => Err(self.io(source)),
        }
    }

    fn fill(&mut self, bytes: &mut [u8], cut_off: &str) -> Result<(), SnapshotError> {
        self.input
            .read_exact(bytes)
            .map_err(|source| match source.kind() {
                io::ErrorKind::UnexpectedEof => self.damaged(cut_off),
                _ => self.io(source),
            })
    }

    fn io(&self, source: io::Error) -> SnapshotError {
        SnapshotError::Io {
            doing: "read",
            file: self.file.clone(),
            source,
        }
    }

    fn damaged(&self, detail: &str) -> SnapshotError {
        SnapshotError::Damaged {
            file: self.file.clone(),
            offset: self.offset,
            detail: detail.to_owned(),
        }
    }
}

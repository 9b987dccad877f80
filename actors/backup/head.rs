//! The head of a backup.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use xce_model::{ClusterId, WallTime};

use crate::BackupError;

const MAGIC: &[u8; 8] = b"XCEBACK1";
/// Highest format that this program reads, and the one that it writes.
const FORMAT: u32 = 1;
/// Magic, format, bytes of the text.
const FIXED_BYTES: usize = 8 + 4 + 4;
/// Longest text that is believed. Source: derived; some KiB, and a table of five controllers.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// A controller as the cluster knew it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controller {
    /// Its number.
    pub node: u64,
    /// Where it listened.
    pub address: String,
}

/// What a backup says of itself. Holds a secret: it is printed without it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The cluster.
    pub cluster: ClusterId,
    /// When it was taken, by the primary's wall clock.
    pub taken: WallTime,
    /// Version of the program of the primary.
    pub version: String,
    /// Its controllers then.
    pub controllers: Vec<Controller>,
    /// Certificate of its authority, as PEM text.
    pub certificate: String,
    /// Key of its authority, as PEM text: a secret.
    pub key: String,
}

impl fmt::Debug for Head {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Head")
            .field("cluster", &self.cluster)
            .field("taken", &self.taken)
            .field("version", &self.version)
            .field("controllers", &self.controllers)
            .finish_non_exhaustive()
    }
}

impl Head {
    /// The bytes that a backup begins with; the journal follows.
    pub fn encode(&self) -> Vec<u8> {
        let text = serde_json::to_vec(self).expect("a head is plain data");
        let length = u32::try_from(text.len()).expect("a head is some KiB");
        let mut out = Vec::with_capacity(FIXED_BYTES + text.len() + 4);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&text);
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the head at the start of a file; with the offset at which the journal begins.
    ///
    /// # Errors
    /// The file is none, is damaged, or was written by a newer program.
    pub(crate) fn read(
        file: &Path,
        input: &mut impl std::io::Read,
    ) -> Result<(Self, u64), BackupError> {
        let damaged = |offset, detail: &str| BackupError::Damaged {
            file: file.to_path_buf(),
            offset,
            detail: detail.to_owned(),
        };
        let mut fill = |bytes: &mut [u8], offset: u64| match input.read_exact(bytes) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(damaged(offset, "the head is cut off"))
            }
            Err(source) => Err(BackupError::Io {
                file: file.to_path_buf(),
                source,
            }),
        };
        let mut whole = vec![0; FIXED_BYTES];
        fill(&mut whole, 0)?;
        if &whole[..8] != MAGIC {
            return Err(damaged(0, "this is not a backup"));
        }
        let word = |at: usize| {
            u32::from_le_bytes([whole[at], whole[at + 1], whole[at + 2], whole[at + 3]])
        };
        let (found, length) = (word(8), word(12) as usize);
        if found > FORMAT {
            return Err(BackupError::Newer {
                file: file.to_path_buf(),
                found,
                known: FORMAT,
            });
        }
        if length > TEXT_BYTES_MAX {
            return Err(damaged(12, "the head cannot be as long as it says"));
        }
        whole.resize(FIXED_BYTES + length, 0);
        fill(&mut whole[FIXED_BYTES..], FIXED_BYTES as u64)?;
        let end = whole.len() as u64;
        let mut crc = [0; 4];
        fill(&mut crc, end)?;
        if u32::from_le_bytes(crc) != crc32c::crc32c(&whole) {
            return Err(damaged(0, "the head does not match its checksum"));
        }
        let head = serde_json::from_slice(&whole[FIXED_BYTES..])
            .map_err(|error| damaged(FIXED_BYTES as u64, &error.to_string()))?;
        Ok((head, end + 4))
    }
}

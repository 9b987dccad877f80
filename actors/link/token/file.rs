//! The file of a key ring: one line that says what it is, then one line for each key.

use std::path::Path;

use xce_model::ClusterId;

use super::{KEYS_MAX, KeyRing};
use crate::secret_file::{self, FileFault};

/// First line of a key ring's file.
///
/// Source: chosen.
const FILE_HEAD: &str = "xce session keys 1";

/// A key ring cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// Its file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileFault),
    /// Its file is damaged.
    #[error("{}, line {line}: not a key ring: {reason}", path.display())]
    Damaged {
        /// The file.
        path: std::path::PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: &'static str,
    },
}

impl KeyRing {
    /// Writes the ring to a file, mode 0600, replacing it atomically.
    ///
    /// # Errors
    /// [`RingError::File`].
    pub fn save(&self, path: &Path) -> Result<(), RingError> {
        Ok(secret_file::replace(path, self.to_text().as_bytes())?)
    }

    /// Reads the ring of a cluster from a file; `None` if there is none.
    ///
    /// # Errors
    /// See [`RingError`].
    pub fn load(path: &Path, cluster: ClusterId) -> Result<Option<Self>, RingError> {
        let Some(bytes) = secret_file::read(path)? else {
            return Ok(None);
        };
        let damaged = |line, reason| RingError::Damaged {
            path: path.to_path_buf(),
            line,
            reason,
        };
        let text = String::from_utf8(bytes).map_err(|_| damaged(1, "it is not text"))?;
        let mut lines = text.lines();
        if lines.next() != Some(FILE_HEAD) {
            return Err(damaged(1, "its first line is another"));
        }
        let mut keys: Vec<(u8, [u8; 32])> = Vec::new();
        for (index, line) in lines.enumerate() {
            let key = read_key(line).ok_or_else(|| damaged(index + 2, "not a number and a key"))?;
            if keys.iter().any(|(number, _)| *number == key.0) {
                return Err(damaged(index + 2, "its number is there twice"));
            }
            if keys.len() == KEYS_MAX {
                return Err(damaged(index + 2, "too many keys"));
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return Err(damaged(2, "it has no key"));
        }
        Ok(Some(Self { cluster, keys }))
    }

    /// Reads the ring, or makes one with the given 32 random bytes.
    ///
    /// # Errors
    /// See [`RingError`].
    pub fn load_or_create(
        path: &Path,
        cluster: ClusterId,
        entropy: [u8; 32],
    ) -> Result<Self, RingError> {
        if let Some(ring) = Self::load(path, cluster)? {
            return Ok(ring);
        }
        let ring = Self::new(cluster, entropy);
        if secret_file::create(path, ring.to_text().as_bytes())? {
            return Ok(ring);
        }
        // Another process made it in between; what is in the file counts.
        Ok(Self::load(path, cluster)?.unwrap_or(ring))
    }

    fn to_text(&self) -> String {
        let mut text = format!("{FILE_HEAD}\n");
        for (number, key) in &self.keys {
            text.push_str(&format!(
                "{number} {}\n",
                blake3::Hash::from_bytes(*key).to_hex()
            ));
        }
        text
    }
}

fn read_key(line: &str) -> Option<(u8, [u8; 32])> {
    let (number, key) = line.split_once(' ')?;
    Some((
        number.parse().ok()?,
        *blake3::Hash::from_hex(key).ok()?.as_bytes(),
    ))
}

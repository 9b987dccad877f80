//! Two files of JSON lines: one that grows, and the one before it.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use xce_session::journal_wire::RefusalView;

/// Size at which a file is put aside; the one before it goes.
/// Source: chosen; some 15 000 refusals each.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The two files.
pub struct Files {
    now: PathBuf,
    before: PathBuf,
    /// The file that grows, with its bytes; absent before the first refusal and after an error.
    open: Option<(File, u64)>,
    bytes_max: u64,
}

impl Files {
    /// Files in a directory; none is made before there is a refusal.
    pub fn new(directory: &Path) -> Self {
        Self {
            now: directory.join("refusals.jsonl"),
            before: directory.join("refusals.1.jsonl"),
            open: None,
            bytes_max: FILE_BYTES_MAX,
        }
    }

    /// The same with smaller files.
    #[cfg(test)]
    pub fn with_bytes_max(mut self, bytes_max: u64) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// Appends a refusal.
    ///
    /// # Errors
    /// An error of the system; the next one begins a line of its own.
    pub fn append(&mut self, refusal: &RefusalView) -> io::Result<()> {
        let mut line = serde_json::to_vec(refusal)?;
        line.push(b'\n');
        let (mut file, bytes) = match self.open.take() {
            Some((file, bytes)) if bytes < self.bytes_max => (file, bytes),
            Some(_) => self.rotate()?,
            None => match open(&self.now)? {
                (file, bytes) if bytes < self.bytes_max => (file, bytes),
                (_, _) => self.rotate()?,
            },
        };
        file.write_all(&line)?;
        self.open = Some((file, bytes + line.len() as u64));
        Ok(())
    }

    fn rotate(&self) -> io::Result<(File, u64)> {
        std::fs::rename(&self.now, &self.before)?;
        open(&self.now)
    }

    /// The last refusals, the oldest first; lines that cannot be read are left out.
    pub fn last(&self, count: usize) -> Vec<RefusalView> {
        let mut rows = VecDeque::new();
        for path in [&self.before, &self.now] {
            let Ok(file) = File::open(path) else { continue };
            let lines = BufReader::new(file.take(2 * self.bytes_max.max(1 << 16))).split(b'\n');
            for line in lines.map_while(Result::ok) {
                let Ok(row) = serde_json::from_slice(&line) else {
                    continue;
                };
                if rows.len() == count {
                    rows.pop_front();
                }
                if count > 0 {
                    rows.push_back(row);
                }
            }
        }
        rows.into()
    }
}

/// Opens a file to append to; a line that was cut off is ended first.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let mut file = OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .open(path)?;
    let bytes = file.seek(SeekFrom::End(0))?;
    if bytes > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok((file, bytes))
}

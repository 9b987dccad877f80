//! Reads snapshots. Every length is bounded before it is believed.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::{
    FOOTER_BYTES, FOOTER_MAGIC, FORMAT, FRAME_HEADER_BYTES, FRAME_MAGIC, HEADER_BYTES, MAGIC,
    MEMBERSHIP_BYTES_MAX, RECORD_BYTES_MAX, SnapshotHead,
};
use crate::device::Disk;
use crate::error::SnapshotError;
use crate::record::{LogPosition, u32_at, u64_at};

/// Reads frame after frame; yields records, then ends or fails.
pub(crate) struct SnapshotReader<Input> {
    file: PathBuf,
    input: Input,
    offset: u64,
    frames: u64,
    records: u64,
    raw_bytes: u64,
    hash: blake3::Hasher,
    frame: Vec<u8>,
    at: usize,
    left: u32,
    done: bool,
}

struct FrameHeader {
    raw: usize,
    records: u32,
    stored: Vec<u8>,
}

enum Part {
    Frame(FrameHeader),
    Footer([u8; FOOTER_BYTES]),
}

/// A snapshot on a disk.
pub(super) type OnDisk = SnapshotReader<BufReader<Box<dyn Read + Send>>>;

impl OnDisk {
    /// Opens a snapshot and reads its header.
    pub(super) fn open(
        disk: &dyn Disk,
        path: &Path,
        cluster_id: [u8; 16],
    ) -> Result<(Self, SnapshotHead), SnapshotError> {
        let input = disk.read(path).map_err(|source| SnapshotError::Io {
            doing: "open",
            file: path.to_path_buf(),
            source,
        })?;
        let input = BufReader::with_capacity(1 << 16, input);
        Self::of(path, input, 0, cluster_id)
    }
}

impl<Input: Read> SnapshotReader<Input> {
    /// Reads the header of a snapshot that begins at an offset of a file.
    pub(crate) fn of(
        path: &Path,
        input: Input,
        offset: u64,
        cluster_id: [u8; 16],
    ) -> Result<(Self, SnapshotHead), SnapshotError> {
        let mut reader = Self {
            file: path.to_path_buf(),
            input,
            offset,
            frames: 0,
            records: 0,
            raw_bytes: 0,
            hash: blake3::Hasher::new(),
            frame: Vec::new(),
            at: 0,
            left: 0,
            done: false,
        };
        let head = reader.head(cluster_id)?;
        Ok((reader, head))
    }

    /// What is left of the input.
    pub(crate) fn into_input(self) -> Input {
        self.input
    }

    /// Checks all checksums up to the footer without unpacking anything.
    pub(super) fn verify(mut self) -> Result<(), SnapshotError> {
        let mut records = 0;
        loop {
            match self.part()? {
                Part::Frame(frame) => records += u64::from(frame.records),
                Part::Footer(footer) if u64_at(&footer, 12) == records => return Ok(()),
                Part::Footer(_) => return Err(self.damaged("the count of records is wrong")),
            }
        }
    }

    fn head(&mut self, cluster_id: [u8; 16]) -> Result<SnapshotHead, SnapshotError> {
        let mut bytes = vec![0; HEADER_BYTES];
        self.fill(&mut bytes, "the header is cut off")?;
        let found = u32_at(&bytes, 8);
        let membership = u32_at(&bytes, HEADER_BYTES - 4) as usize;
        if &bytes[..8] != MAGIC {
            return Err(self.damaged("this is not a snapshot"));
        }
        if found > FORMAT {
            return Err(SnapshotError::Newer {
                file: self.file.clone(),
                found,
                known: FORMAT,
            });
        }
        if membership > MEMBERSHIP_BYTES_MAX {
            return Err(self.damaged("the membership is too large"));
        }
        bytes.resize(HEADER_BYTES + membership + 4, 0);
        self.fill(&mut bytes[HEADER_BYTES..], "the header is cut off")?;
        let covered = HEADER_BYTES + membership;
        if u32_at(&bytes, covered) != crc32c::crc32c(&bytes[..covered]) {
            return Err(self.damaged("the header does not match its checksum"));
        }
        if bytes[12..28] != cluster_id {
            return Err(self.damaged("it belongs to another cluster"));
        }
        self.offset += bytes.len() as u64;
        let last = LogPosition {
            term: u64_at(&bytes, 28),
            index: u64_at(&bytes, 36),
        };
        Ok(SnapshotHead {
            last: (u32_at(&bytes, 44) & 1 == 1).then_some(last),
            membership: bytes[HEADER_BYTES..covered].to_vec(),
            installed: u32_at(&bytes, 44) & 2 == 2,
        })
    }

    /// Reads the next frame or the footer, checksums and all.
    fn part(&mut self) -> Result<Part, SnapshotError> {
        let mut header = [0; FRAME_HEADER_BYTES];
        self.fill(&mut header, "the footer is missing")?;
        if &header[..4] == FOOTER_MAGIC {
            let mut footer = [0; FOOTER_BYTES];
            footer[..FRAME_HEADER_BYTES].copy_from_slice(&header);
            self.fill(&mut footer[FRAME_HEADER_BYTES..], "the footer is cut off")?;
            if u32_at(&footer, 60) != crc32c::crc32c(&footer[..60]) {
                return Err(self.damaged("the footer does not match its checksum"));
            }
            if u64_at(&footer, 4) != self.frames {
                return Err(self.damaged("the count of frames is wrong"));
            }
            return Ok(Part::Footer(footer));
        }
        let raw = u32_at(&header, 4) as usize;
        let stored_bytes = u32_at(&header, 8) as usize;
        let most = RECORD_BYTES_MAX + 4;
        if &header[..4] != FRAME_MAGIC
            || raw > most
            || stored_bytes > lz4_flex::block::get_maximum_output_size(most)
        {
            return Err(self.damaged("no frame starts here"));
        }
        let mut stored = vec![0; stored_bytes];
        self.fill(&mut stored, "the frame is cut off")?;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..16]), &stored);
        if u32_at(&header, 16) != crc {
            return Err(self.damaged("the frame does not match its checksum"));
        }
        self.frames += 1;
        self.offset += (FRAME_HEADER_BYTES + stored_bytes) as u64;
        Ok(Part::Frame(FrameHeader {
            raw,
            records: u32_at(&header, 12),
            stored,
        }))
    }

    fn next_record(&mut self) -> Result<Option<Vec<u8>>, SnapshotError> {
        while self.left == 0 {
            match self.part()? {
                Part::Frame(frame) => self.unpack(&frame)?,
                Part::Footer(footer) => {
                    let whole = u64_at(&footer, 12) == self.records
                        && u64_at(&footer, 20) == self.raw_bytes
                        && footer[28..60] == *self.hash.finalize().as_bytes();
                    return if whole {
                        Ok(None)
                    } else {
                        Err(self.damaged("the hash is wrong"))
                    };
                }
            }
        }
        let start = self.at + 4;
        let len = self
            .frame
            .get(self.at..start)
            .map(|len| u32_at(len, 0) as usize);
        let record = len.and_then(|len| self.frame.get(start..start.checked_add(len)?));
        let Some(record) = record.map(<[u8]>::to_vec) else {
            return Err(self.damaged("a record is cut off"));
        };
        self.at = start + record.len();
        self.left -= 1;
        self.records += 1;
        Ok(Some(record))
    }

    fn unpack(&mut self, frame: &FrameHeader) -> Result<(), SnapshotError> {
        let raw = lz4_flex::block::decompress(&frame.stored, frame.raw)
            .ok()
            .filter(|raw| raw.len() == frame.raw)
            .ok_or_else(|| self.damaged("the frame cannot be unpacked"))?;
        self.hash.update(&raw);
        self.raw_bytes += raw.len() as u64;
        self.frame = raw;
        self.at = 0;
        self.left = frame.records;
        Ok(())
    }

    fn fill(&mut self, bytes: &mut [u8], cut_off: &str) -> Result<(), SnapshotError> {
        self.input
            .read_exact(bytes)
            .map_err(|source| match source.kind() {
                io::ErrorKind::UnexpectedEof => self.damaged(cut_off),
                _ => SnapshotError::Io {
                    doing: "read",
                    file: self.file.clone(),
                    source,
                },
            })
    }

    fn damaged(&self, detail: &str) -> SnapshotError {
        SnapshotError::Damaged {
            file: self.file.clone(),
            offset: self.offset,
            detail: detail.to_owned(),
        }
    }
}

impl<Input: Read> Iterator for SnapshotReader<Input> {
    type Item = Result<Vec<u8>, SnapshotError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.next_record().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

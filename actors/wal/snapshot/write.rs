//! Writes a snapshot to a temporary file and renames it into place.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use xce_failpoint::Point;

use super::{
    FOOTER_BYTES, FOOTER_MAGIC, FORMAT, FRAME_HEADER_BYTES, FRAME_MAGIC, FRAME_RAW_BYTES,
    HEADER_BYTES, MAGIC, RECORD_BYTES_MAX, SnapshotHead,
};
use crate::device::{Disk, Onward};

/// Writes all records to `path`; a crash or an error leaves nothing under that name.
pub(super) fn write_snapshot(
    disk: &dyn Disk,
    path: &Path,
    cluster_id: [u8; 16],
    head: &SnapshotHead,
    records: &mut dyn Iterator<Item = Vec<u8>>,
) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let result = write_file(disk, &temporary, cluster_id, head, records)
        .and_then(|()| xce_failpoint::check(Point::SnapshotWritten))
        .and_then(|()| disk.rename(&temporary, path))
        .and_then(|()| xce_failpoint::check(Point::SnapshotRenamed))
        .and_then(|()| {
            path.parent()
                .map_or(Ok(()), |parent| disk.sync_directory(parent))
        });
    xce_failpoint::hit(Point::SnapshotDirectory);
    if result.is_err() {
        // It may not exist; the next start removes it as well.
        drop(disk.remove(&temporary));
    }
    result
}

fn write_file(
    disk: &dyn Disk,
    path: &Path,
    cluster_id: [u8; 16],
    head: &SnapshotHead,
    records: &mut dyn Iterator<Item = Vec<u8>>,
) -> io::Result<()> {
    let file = Onward::new(disk.create(path, false)?);
    let mut out = BufWriter::with_capacity(FRAME_RAW_BYTES, file);
    out.write_all(&header_bytes(cluster_id, head)?)?;
    let mut sums = Sums {
        frames: 0,
        records: 0,
        raw_bytes: 0,
        hash: blake3::Hasher::new(),
    };
    let mut raw = Vec::with_capacity(FRAME_RAW_BYTES);
    let mut count = 0;
    for record in records {
        if record.len() > RECORD_BYTES_MAX {
            let text = format!("a snapshot record of {} bytes is too large", record.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if count > 0 && raw.len() + 4 + record.len() > FRAME_RAW_BYTES {
            sums.frame(&mut out, &raw, count)?;
            raw.clear();
            count = 0;
        }
        raw.extend_from_slice(&(record.len() as u32).to_le_bytes());
        raw.extend_from_slice(&record);
        count += 1;
    }
    if count > 0 {
        sums.frame(&mut out, &raw, count)?;
    }
    out.write_all(&sums.footer())?;
    out.into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync()
}

fn header_bytes(cluster_id: [u8; 16], head: &SnapshotHead) -> io::Result<Vec<u8>> {
    let membership = u32::try_from(head.membership.len()).map_err(io::Error::other)?;
    let last = head
        .last
        .map(|last| (last.term, last.index))
        .unwrap_or_default();
    let mut out = Vec::with_capacity(HEADER_BYTES + head.membership.len() + 4);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&cluster_id);
    out.extend_from_slice(&last.0.to_le_bytes());
    out.extend_from_slice(&last.1.to_le_bytes());
    let flags = u32::from(head.last.is_some()) | u32::from(head.installed) << 1;
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&membership.to_le_bytes());
    out.extend_from_slice(&head.membership);
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    Ok(out)
}

struct Sums {
    frames: u64,
    records: u64,
    raw_bytes: u64,
    hash: blake3::Hasher,
}

impl Sums {
    fn frame(&mut self, out: &mut impl Write, raw: &[u8], records: u32) -> io::Result<()> {
        let stored = lz4_flex::block::compress(raw);
        let mut header = [0; FRAME_HEADER_BYTES];
        header[..4].copy_from_slice(FRAME_MAGIC);
        header[4..8].copy_from_slice(&(raw.len() as u32).to_le_bytes());
        header[8..12].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&records.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..16]), &stored);
        header[16..].copy_from_slice(&crc.to_le_bytes());
        out.write_all(&header)?;
        out.write_all(&stored)?;
        self.frames += 1;
        self.records += u64::from(records);
        self.raw_bytes += raw.len() as u64;
        self.hash.update(raw);
        Ok(())
    }

    fn footer(&self) -> [u8; FOOTER_BYTES] {
        let mut out = [0; FOOTER_BYTES];
        out[..4].copy_from_slice(FOOTER_MAGIC);
        out[4..12].copy_from_slice(&self.frames.to_le_bytes());
        out[12..20].copy_from_slice(&self.records.to_le_bytes());
        out[20..28].copy_from_slice(&self.raw_bytes.to_le_bytes());
        out[28..60].copy_from_slice(self.hash.finalize().as_bytes());
        let crc = crc32c::crc32c(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }
}

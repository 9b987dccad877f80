//! Bytes on disk: pinned for ever, and never able to make a reader panic.

use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use crate::aligned::AlignedBuffer;
use crate::batch::{self, BLOCK_BYTES};
use crate::groups;
use crate::record::{EntryKind, LogMarks, LogPosition, Record, StoredEntry, StoredVote};
use crate::recover::recover;
use crate::segment::SegmentHeader;

fn records() -> Vec<Record> {
    let at = |term, index| LogPosition { term, index };
    let vote = StoredVote {
        term: 7,
        node: 2,
        committed: true,
    };
    let entry = |index, kind, payload: &[u8]| {
        Record::Entry(StoredEntry {
            position: at(7, index),
            kind,
            payload: payload.into(),
        })
    };
    vec![
        Record::Vote(vote),
        Record::Vote(StoredVote {
            committed: false,
            ..vote
        }),
        entry(1, EntryKind::Blank, b""),
        entry(
            2,
            EntryKind::Groups,
            &groups::pack(&[b"ab".as_slice(), b""]),
        ),
        entry(3, EntryKind::Membership, b"members"),
        Record::Truncate(None),
        Record::Truncate(Some(at(7, 2))),
        Record::Committed(at(7, 2)),
        Record::Purged(at(6, 1)),
        Record::Marks(LogMarks::default()),
        Record::Marks(LogMarks {
            vote: Some(vote),
            committed: Some(at(7, 2)),
            purged: None,
            last: Some(at(7, 3)),
        }),
        Record::Sealed,
    ]
}

fn one_batch() -> AlignedBuffer {
    let mut buffer = AlignedBuffer::with_capacity(BLOCK_BYTES);
    batch::begin(&mut buffer);
    let records = records();
    for record in &records {
        let before = buffer.len();
        record.encode(&mut buffer);
        assert_eq!(buffer.len() - before, record.encoded_bytes());
    }
    batch::finish(&mut buffer, 0x1234_5678, 4096, 4096, records.len() as u32);
    buffer
}

#[test]
fn a_batch_brings_back_its_records() {
    let mut segment = vec![0; BLOCK_BYTES];
    segment.extend_from_slice(one_batch().bytes());
    let header = batch::header_at(&segment, 4096, 0x1234_5678).unwrap();
    assert_eq!((header.synced_upto, header.bytes), (4096, 4096));
    assert_eq!(
        batch::records_at(&segment, 4096, 0x1234_5678, header),
        Ok(records())
    );
    assert_eq!(
        batch::header_at(&segment, 4096, 0x1234_5679),
        None,
        "another generation"
    );
    segment.splice(0..0, [0; BLOCK_BYTES]);
    assert_eq!(
        batch::header_at(&segment, 8192, 0x1234_5678),
        None,
        "another place"
    );
}

/// If this fails, bytes that are on disks out there changed: make a new version instead.
#[test]
fn the_bytes_of_segments_and_batches_stay_as_they_are() {
    let mut header = AlignedBuffer::with_capacity(BLOCK_BYTES);
    SegmentHeader {
        cluster_id: *b"0123456789abcdef",
        node_id: 5,
        sequence: 3,
        salt: 9,
        previous_end: 8192,
    }
    .encode(&mut header);
    let golden = b"XCEWALSG\x01\0\0\0\x09\0\0\x000123456789abcdef\x05\0\0\0\0\0\0\0\
        \x03\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0";
    assert_eq!(&header.bytes()[..56], golden);
    let sums = (
        crc32c::crc32c(header.bytes()),
        crc32c::crc32c(one_batch().bytes()),
    );
    assert_eq!(sums, (HEADER_SUM, BATCH_SUM));
}

const HEADER_SUM: u32 = 3_360_734_781;
const BATCH_SUM: u32 = 286_078_738;

#[test]
fn groups_come_back_and_start_aligned() {
    let groups: Vec<Vec<u8>> = (0..40_u8).map(|len| vec![len; usize::from(len)]).collect();
    for count in 0..groups.len() {
        let payload = groups::pack(&groups[..count]);
        let read = groups::unpack(&payload).unwrap();
        assert_eq!(read, groups[..count]);
        for group in read {
            assert_eq!(
                (group.as_ptr() as usize - payload.as_ptr() as usize) % 16,
                0
            );
        }
    }
}

fn recover_bytes(bytes: &[u8]) {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("00000000000000000001.seg"), bytes).unwrap();
    // Whether it is accepted does not matter here, only that nothing panics.
    drop(recover(
        super::synced().as_ref(),
        dir.path(),
        *b"0123456789abcdef",
        5,
    ));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(Record::decode(&bytes));
        drop(groups::unpack(&bytes));
        batch::header_at(&bytes, 0, 1);
        drop(SegmentHeader::decode(&bytes, Path::new("any")));
    }

    /// The checksums hold, but what they cover is nonsense: a faulty or malicious writer.
    #[test]
    fn a_valid_batch_of_nonsense_is_read_without_a_panic(
        body in prop::collection::vec(any::<u8>(), 0..300),
        start in prop::collection::vec(0..8_u8, 0..30),
        count in 0..9_u32,
    ) {
        let mut segment = AlignedBuffer::with_capacity(BLOCK_BYTES);
        SegmentHeader {
            cluster_id: *b"0123456789abcdef", node_id: 5, sequence: 1, salt: 9, previous_end: 0,
        }
        .encode(&mut segment);
        let mut bytes = segment.bytes().to_vec();
        let mut buffer = AlignedBuffer::with_capacity(BLOCK_BYTES);
        batch::begin(&mut buffer);
        buffer.extend(&start);
        buffer.extend(&body);
        batch::finish(&mut buffer, 9, 4096, 4096, count);
        bytes.extend_from_slice(buffer.bytes());
        recover_bytes(&bytes);
    }
}

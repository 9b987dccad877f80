//! Frames from bytes: whole, cut anywhere, damaged, and lying about their length.

use rkyv::util::AlignedVec;
use xce_model::Refusal;

use super::quic::{Ask, Told};
use crate::decoder::Decoder;
use crate::frame::{FRAME_BYTES_MAX, Frame, FrameError, HEADER_BYTES, Head, Route, encode_frame};
use crate::message::{DecodeError, EncodeError};

/// The splitmix64 generator: small, and the same everywhere for the same seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

fn ask(number: u64) -> Ask {
    Ask {
        number,
        text: "why is the job pending?".repeat(number as usize % 5),
    }
}

fn told(length: usize) -> Told {
    Told {
        number: 9,
        blob: (0..length).map(|index| index as u8).collect(),
    }
}

/// Three frames of different kinds and lengths, one after the other.
fn stream() -> Vec<u8> {
    let mut bytes = encode_frame(Route::request(1), &ask(3)).unwrap().to_vec();
    bytes.extend_from_slice(&encode_frame(Route::push(2), &told(1000)).unwrap());
    let refusal = Refusal::refused("no", "it is not possible");
    bytes.extend_from_slice(&encode_frame(Route::refusal(3), &refusal).unwrap());
    bytes
}

/// Decodes pieces; the frames, and how it ended.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Frame>, Result<(), FrameError>) {
    let mut decoder = Decoder::new(FRAME_BYTES_MAX);
    let mut frames = Vec::new();
    for mut piece in pieces {
        loop {
            match decoder.decode(&mut piece) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Err(error)),
            }
        }
        assert!(piece.is_empty());
    }
    let end = decoder.end();
    (frames, end)
}

fn check(frames: &[Frame]) {
    assert_eq!(frames.len(), 3);
    assert_eq!(frames[0].route(), Route::request(1));
    assert_eq!(frames[0].decode::<Ask>().unwrap(), ask(3));
    assert_eq!(frames[1].access::<Told>().unwrap().blob.len(), 1000);
    assert_eq!(frames[1].decode::<Told>().unwrap(), told(1000));
    assert_eq!(frames[2].decode::<Refusal>().unwrap().code, "no");
    for frame in frames {
        assert_eq!(frame.payload.as_ptr() as usize % HEADER_BYTES, 0);
    }
}

#[test]
fn frames_survive_every_way_of_cutting_them() {
    let bytes = stream();
    assert_eq!(bytes.len() % HEADER_BYTES, 0);
    for size in [1, 2, 3, 7, 15, 16, 17, 64, 999, bytes.len()] {
        let (frames, end) = decode(bytes.chunks(size));
        check(&frames);
        assert_eq!(end, Ok(()), "pieces of {size}");
    }
}

#[test]
fn the_end_of_a_stream_is_never_the_end_of_a_frame() {
    let bytes = stream();
    let first = HEADER_BYTES + encode_frame(Route::request(1), &ask(3)).unwrap().len();
    for length in 1..bytes.len() {
        let (frames, end) = decode([&bytes[..length]]);
        let whole: usize = frames
            .iter()
            .map(|frame| HEADER_BYTES + frame.payload.len().next_multiple_of(HEADER_BYTES))
            .sum();
        if whole == length {
            assert_eq!(end, Ok(()));
        } else {
            let Err(FrameError::Truncated { have, want }) = end else {
                panic!("cut at {length}: {end:?}")
            };
            assert_eq!(have, length - whole);
            assert!(have < want, "{have} of {want}, first frame {first}");
        }
    }
}

#[test]
fn an_empty_message_is_a_frame_of_a_header() {
    let head = Head {
        length: 0,
        kind: 77,
        version: 3,
        route: Route::reply(u64::MAX),
    };
    let (frames, end) = decode([head.to_bytes().as_slice()]);
    assert_eq!(
        (frames[0].head, frames[0].payload.len(), end),
        (head, 0, Ok(()))
    );
}

#[test]
fn a_claimed_length_above_the_limit_is_refused_before_memory_is_given() {
    for claimed in [FRAME_BYTES_MAX + 1, u32::MAX] {
        let head = Head {
            length: claimed,
            kind: 200,
            version: 1,
            route: Route::push(0),
        };
        let mut decoder = Decoder::new(FRAME_BYTES_MAX);
        let error = decoder.decode(&mut head.to_bytes().as_slice()).unwrap_err();
        assert_eq!(
            error,
            FrameError::TooLarge {
                claimed,
                max: FRAME_BYTES_MAX
            }
        );
        assert_eq!(decoder.held_bytes(), 0);
    }
}

#[test]
fn memory_follows_the_bytes_that_came_not_the_claim() {
    let head = Head {
        length: FRAME_BYTES_MAX,
        kind: 200,
        version: 1,
        route: Route::push(0),
    };
    let mut decoder = Decoder::new(FRAME_BYTES_MAX);
    assert!(
        decoder
            .decode(&mut head.to_bytes().as_slice())
            .unwrap()
            .is_none()
    );
    assert!(decoder.held_bytes() <= 64 * 1024);
    let piece = [0; 10_000];
    for round in 1..=300 {
        assert!(decoder.decode(&mut piece.as_slice()).unwrap().is_none());
        let came = round * piece.len();
        assert!(
            decoder.held_bytes() <= (2 * came).max(64 * 1024),
            "after {came}"
        );
    }
}

#[test]
fn the_largest_message_passes_and_a_larger_one_is_refused_by_its_sender() {
    let largest = told(FRAME_BYTES_MAX as usize - 64);
    let bytes = encode_frame(Route::push(0), &largest).unwrap();
    let (frames, end) = decode(bytes.chunks(65_536));
    assert_eq!(
        (frames[0].decode::<Told>().unwrap() == largest, end),
        (true, Ok(()))
    );
    let error = encode_frame(Route::push(0), &told(FRAME_BYTES_MAX as usize + 1)).unwrap_err();
    assert!(matches!(
        error,
        EncodeError::TooLarge {
            kind: 201,
            max: FRAME_BYTES_MAX,
            ..
        }
    ));
}

#[test]
fn another_kind_or_version_is_named() {
    let (frames, _) = decode([stream().as_slice()]);
    let error = frames[0].decode::<Told>().unwrap_err();
    assert_eq!(error.to_string(), "expected a message of kind 201, not 200");
    let mut newer = frames[0].clone();
    newer.head.version = 9;
    let error = newer.decode::<Ask>().unwrap_err();
    let expected = "message of kind 200 has version 9; this program knows version 1";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn damage_to_each_field_of_the_header_is_named() {
    let table: [(usize, u8, FrameError); 3] = [
        (7, 0, FrameError::Magic { found: 0 }),
        (6, 4, FrameError::Flags { found: 4 }),
        (
            3,
            1,
            FrameError::TooLarge {
                claimed: 0x0100_0000 + 128,
                max: FRAME_BYTES_MAX,
            },
        ),
    ];
    let mut bytes = encode_frame(Route::request(1), &ask(3)).unwrap();
    bytes[0] = 128;
    for (place, value, error) in table {
        let mut damaged = bytes.clone();
        damaged[place] = value;
        assert_eq!(decode([damaged.as_slice()]).1, Err(error));
    }
}

#[test]
fn padding_that_is_not_zero_is_refused() {
    let frame = (0..5).map(|number| encode_frame(Route::request(1), &ask(number)).unwrap());
    let mut frame: AlignedVec = frame
        .into_iter()
        .find(|bytes| {
            !u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).is_multiple_of(16)
        })
        .unwrap_or_else(|| encode_frame(Route::request(1), &told(1)).unwrap());
    let last = frame.len() - 1;
    frame[last] = 1;
    assert_eq!(decode([frame.as_slice()]).1, Err(FrameError::Padding));
}

#[test]
fn a_hundred_thousand_mutations_neither_panic_nor_take_memory() {
    let mut random = Random(0x5eed);
    let original = stream();
    let (mut refused, mut damaged, mut passed) = (0, 0, 0);
    for _ in 0..100_000 {
        let mut bytes = original.clone();
        for _ in 0..=random.below(4) {
            mutate(&mut bytes, &mut random);
        }
        let mut decoder = Decoder::new(FRAME_BYTES_MAX);
        let mut input = bytes.as_slice();
        let mut ok = true;
        while ok {
            match decoder.decode(&mut input) {
                Ok(Some(frame)) => match try_all(&frame) {
                    Ok(()) => passed += 1,
                    Err(_) => damaged += 1,
                },
                Ok(None) => ok = false,
                Err(_) => {
                    refused += 1;
                    ok = false;
                }
            }
            assert!(decoder.held_bytes() <= 64 * 1024 + 2 * bytes.len());
        }
    }
    assert!(refused > 10_000 && damaged > 10_000 && passed > 10_000);
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let place = random.below(bytes.len());
    match random.below(6) {
        0 => bytes[place] ^= 1 << random.below(8),
        1 => bytes[place] = random.next() as u8,
        2 => bytes.truncate(place),
        3 => bytes.insert(place, random.next() as u8),
        4 => drop(bytes.remove(place)),
        _ => {
            let end = (place + 8).min(bytes.len());
            bytes[place..end].fill(random.next() as u8);
        }
    }
}

fn try_all(frame: &Frame) -> Result<(), DecodeError> {
    match frame.kind() {
        200 => frame.decode::<Ask>().map(drop),
        201 => frame.decode::<Told>().map(drop),
        _ => frame.decode::<Refusal>().map(drop),
    }
}

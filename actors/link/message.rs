//! What may travel in a frame: a type with a number, a version, and a checked archived form.

use rkyv::api::high::{HighDeserializer, HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Deserialize, Serialize};
use xce_model::Refusal;

use crate::frame::FRAME_BYTES_MAX;

/// Kinds below this number belong to this crate; other crates number theirs from here.
///
/// Source: chosen; this crate uses four.
pub const KIND_FIRST: u8 = 8;

/// Kind of the frames that open a control stream and end a bulk stream.
pub(crate) const KIND_LINK: u8 = 0;
/// Kind of [`crate::hello::Hello`].
pub(crate) const KIND_HELLO: u8 = 1;
/// Kind of [`crate::hello::HelloAnswer`].
pub(crate) const KIND_HELLO_ANSWER: u8 = 2;
/// Kind of a [`Refusal`].
pub(crate) const KIND_REFUSAL: u8 = 3;

/// A value that can be sent: any rkyv type with checked bytes, plus a number and a version.
///
/// Implement it with [`crate::messages!`].
pub trait Message:
    Archive<
        Archived: for<'a> CheckBytes<HighValidator<'a, rancor::Error>>
                      + Deserialize<Self, HighDeserializer<rancor::Error>>,
    > + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, rancor::Error>>
    + Sized
{
    /// Number of the type on the wire, [`KIND_FIRST`] to 255; unique in a protocol version.
    const KIND: u8;
    /// Version of the type's form; raised by every change.
    const VERSION: u8;
}

/// Implements [`Message`] for types: `messages! { Submit = 20 v 1; Submitted = 21 v 1; }`.
#[macro_export]
macro_rules! messages {
    ($($kind:ty = $number:literal v $version:literal;)*) => {$(
        impl $crate::Message for $kind {
            const KIND: u8 = $number;
            const VERSION: u8 = $version;
        }
    )*};
}

impl Message for Refusal {
    const KIND: u8 = KIND_REFUSAL;
    const VERSION: u8 = 1;
}

/// A value could not be made into a frame.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// It is too long for one frame.
    #[error("message of kind {kind} has {length} bytes; a frame holds at most {max}")]
    TooLarge {
        /// Number of the type.
        kind: u8,
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        max: u32,
    },
    /// rkyv could not archive it.
    #[error("message of kind {kind} cannot be archived")]
    Archive {
        /// Number of the type.
        kind: u8,
        /// The cause.
        #[source]
        source: rancor::Error,
    },
}

/// Received bytes are not the expected value.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The frame holds another type.
    #[error("expected a message of kind {expected}, not {found}")]
    Kind {
        /// The number that was expected.
        expected: u8,
        /// The number in the frame.
        found: u8,
    },
    /// The frame holds another version of the type.
    #[error("message of kind {kind} has version {found}; this program knows version {known}")]
    Version {
        /// Number of the type.
        kind: u8,
        /// The version in the frame.
        found: u8,
        /// The version this program knows.
        known: u8,
    },
    /// The bytes do not check.
    #[error("message of kind {kind} is damaged: {reason}")]
    Damaged {
        /// Number of the type.
        kind: u8,
        /// What does not check.
        reason: String,
    },
}

/// Archives a value; the bytes are 16-aligned.
///
/// # Errors
/// [`EncodeError::TooLarge`] above [`FRAME_BYTES_MAX`], [`EncodeError::Archive`] when rkyv fails.
pub fn encode<T: Message>(value: &T) -> Result<AlignedVec, EncodeError> {
    encode_into(AlignedVec::new(), value)
}

/// Appends an archived value to a buffer whose length is a multiple of 16.
pub(crate) fn encode_into<T: Message>(
    buffer: AlignedVec,
    value: &T,
) -> Result<AlignedVec, EncodeError> {
    let before = buffer.len();
    assert!(
        before.is_multiple_of(16),
        "archived values start on 16-byte boundaries"
    );
    let buffer =
        rkyv::api::high::to_bytes_in::<_, rancor::Error>(value, buffer).map_err(|source| {
            EncodeError::Archive {
                kind: T::KIND,
                source,
            }
        })?;
    let length = buffer.len() - before;
    if length > FRAME_BYTES_MAX as usize {
        return Err(EncodeError::TooLarge {
            kind: T::KIND,
            length,
            max: FRAME_BYTES_MAX,
        });
    }
    Ok(buffer)
}

/// Checks archived bytes and gives access to them in place.
///
/// # Errors
/// [`DecodeError::Damaged`] when the bytes do not check, also when they are not 16-aligned.
pub fn access<T: Message>(bytes: &[u8]) -> Result<&T::Archived, DecodeError> {
    rkyv::access::<T::Archived, rancor::Error>(bytes).map_err(|error| damaged::<T>(&error))
}

/// Checks archived bytes and makes the value of them.
///
/// # Errors
/// [`DecodeError::Damaged`] when the bytes do not check, also when they are not 16-aligned.
pub fn decode<T: Message>(bytes: &[u8]) -> Result<T, DecodeError> {
    rkyv::deserialize::<T, rancor::Error>(access::<T>(bytes)?).map_err(|error| damaged::<T>(&error))
}

fn damaged<T: Message>(error: &rancor::Error) -> DecodeError {
    DecodeError::Damaged {
        kind: T::KIND,
        reason: error.to_string(),
    }
}

//! Frames: a header of 16 bytes and a payload padded to 16, so that rkyv reads in place.
//!
//! ```text
//!   0        4      5         6       7       8                16
//!   | length | kind | version | flags | magic | request number | payload | zeros to 16 |
//! ```
//! Numbers are little-endian. The length is of the payload without the padding.

use rkyv::util::AlignedVec;

use crate::message::{self, DecodeError, EncodeError, KIND_LINK, Message};

/// Largest payload of a frame, in bytes.
///
/// Source: design section 15.
pub const FRAME_BYTES_MAX: u32 = 8 * 1024 * 1024;

/// Length of the header, and the alignment of every payload, in bytes.
///
/// Source: foundations section 3; with headers of 1, 4, 5 or 12 bytes no access in place succeeded.
pub const HEADER_BYTES: usize = 16;

/// Eighth byte of every frame; catches a reader that lost its place.
///
/// Source: chosen.
const MAGIC: u8 = 0xCE;

/// What a frame is for its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteRole {
    /// Asks; wants a reply or a refusal with the same number.
    Request,
    /// Answers a request.
    Reply,
    /// Says why a request is not carried out; the payload is a `Refusal`.
    Refusal,
    /// Comes without being asked; the number names a subscription, or is 0.
    Push,
}

impl RouteRole {
    fn flags(self) -> u8 {
        match self {
            Self::Request => 0,
            Self::Reply => 1,
            Self::Refusal => 2,
            Self::Push => 3,
        }
    }

    fn from_flags(flags: u8) -> Option<Self> {
        match flags {
            0 => Some(Self::Request),
            1 => Some(Self::Reply),
            2 => Some(Self::Refusal),
            3 => Some(Self::Push),
            4.. => None,
        }
    }
}

/// Where a frame belongs: its role and the number of its request or subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// What the frame is for its receiver.
    pub role: RouteRole,
    /// Number chosen by whoever asked.
    pub request: u64,
}

impl Route {
    /// The route of a request.
    pub fn request(request: u64) -> Self {
        Self {
            role: RouteRole::Request,
            request,
        }
    }

    /// The route of an answer.
    pub fn reply(request: u64) -> Self {
        Self {
            role: RouteRole::Reply,
            request,
        }
    }

    /// The route of a refusal.
    pub fn refusal(request: u64) -> Self {
        Self {
            role: RouteRole::Refusal,
            request,
        }
    }

    /// The route of what comes without being asked.
    pub fn push(subscription: u64) -> Self {
        Self {
            role: RouteRole::Push,
            request: subscription,
        }
    }
}

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Length of the payload in bytes, without padding.
    pub length: u32,
    /// Number of the message type.
    pub kind: u8,
    /// Version of the message type.
    pub version: u8,
    /// Where the frame belongs.
    pub route: Route,
}

impl Head {
    /// The header's bytes.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4] = self.kind;
        bytes[5] = self.version;
        bytes[6] = self.route.role.flags();
        bytes[7] = MAGIC;
        bytes[8..16].copy_from_slice(&self.route.request.to_le_bytes());
        bytes
    }

    /// Reads and checks a header.
    ///
    /// # Errors
    /// [`FrameError::Magic`], [`FrameError::Flags`], or [`FrameError::TooLarge`] for a length above
    /// `length_max`.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES], length_max: u32) -> Result<Self, FrameError> {
        let [l0, l1, l2, l3, kind, version, flags, magic, request @ ..] = *bytes;
        if magic != MAGIC {
            return Err(FrameError::Magic { found: magic });
        }
        let role = RouteRole::from_flags(flags).ok_or(FrameError::Flags { found: flags })?;
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if length > length_max {
            return Err(FrameError::TooLarge {
                claimed: length,
                max: length_max,
            });
        }
        let route = Route {
            role,
            request: u64::from_le_bytes(request),
        };
        Ok(Self {
            length,
            kind,
            version,
            route,
        })
    }
}

/// Bytes are not a frame; the stream they came on cannot be used further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The claimed length is above the limit; nothing was allocated for it.
    #[error("frame claims {claimed} bytes; at most {max} are allowed")]
    TooLarge {
        /// Length in the header.
        claimed: u32,
        /// The limit.
        max: u32,
    },
    /// This is not the start of a frame.
    #[error("byte {found:#04x} where a frame has {MAGIC:#04x}: not a frame")]
    Magic {
        /// What is there.
        found: u8,
    },
    /// The flags have no meaning.
    #[error("frame has unknown flags {found:#04x}")]
    Flags {
        /// What is there.
        found: u8,
    },
    /// The padding is not zero.
    #[error("padding of a frame is not zero")]
    Padding,
    /// A frame of the link itself is missing at the start, or is where it must not be.
    #[error("stream does not open or end as the protocol says")]
    Misplaced,
    /// The stream ended inside a frame.
    #[error("stream ended inside a frame, after {have} of {want} bytes")]
    Truncated {
        /// Bytes of the frame that came, header included.
        have: usize,
        /// Bytes of the frame with header and padding; 16 when not even the header was whole.
        want: usize,
    },
}

/// A whole frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The header.
    pub head: Head,
    /// The archived message, 16-aligned, without padding.
    pub payload: AlignedVec,
}

impl Frame {
    /// Where the frame belongs.
    pub fn route(&self) -> Route {
        self.head.route
    }

    /// Number of the message type, for dispatch.
    pub fn kind(&self) -> u8 {
        self.head.kind
    }

    /// Makes the message of the payload.
    ///
    /// # Errors
    /// [`DecodeError`] when the frame holds another type or version, or is damaged.
    pub fn decode<T: Message>(&self) -> Result<T, DecodeError> {
        self.check::<T>()?;
        message::decode(&self.payload)
    }

    /// Checks the payload and gives access to the archived message in place.
    ///
    /// # Errors
    /// As [`Frame::decode`].
    pub fn access<T: Message>(&self) -> Result<&T::Archived, DecodeError> {
        self.check::<T>()?;
        message::access::<T>(&self.payload)
    }

    fn check<T: Message>(&self) -> Result<(), DecodeError> {
        let Head { kind, version, .. } = self.head;
        if kind != T::KIND {
            return Err(DecodeError::Kind {
                expected: T::KIND,
                found: kind,
            });
        }
        if version != T::VERSION {
            return Err(DecodeError::Version {
                kind,
                found: version,
                known: T::VERSION,
            });
        }
        Ok(())
    }
}

/// Makes the bytes of a whole frame, header and padding included.
///
/// The same bytes may be sent to many peers.
///
/// # Errors
/// [`EncodeError`] when the message is too large or cannot be archived.
pub fn encode_frame<T: Message>(route: Route, value: &T) -> Result<AlignedVec, EncodeError> {
    let mut bytes = AlignedVec::new();
    bytes.extend_from_slice(&[0; HEADER_BYTES]);
    let mut bytes = message::encode_into(bytes, value)?;
    let length = (bytes.len() - HEADER_BYTES) as u32;
    let head = Head {
        length,
        kind: T::KIND,
        version: T::VERSION,
        route,
    };
    bytes[..HEADER_BYTES].copy_from_slice(&head.to_bytes());
    bytes.resize(bytes.len().next_multiple_of(HEADER_BYTES), 0);
    Ok(bytes)
}

/// Version of the frame form, sent when a control stream opens.
///
/// Source: chosen; raised when the header changes.
pub(crate) const LINK_VERSION: u8 = 1;
/// Request number of the frame that opens a control stream.
const OPEN: u64 = 0;
/// Request number of the frame that ends a bulk stream.
const END: u64 = 1;

/// The frame that each side sends first on the control stream.
pub(crate) fn open_frame() -> Head {
    link_frame(OPEN)
}

/// The frame that ends a bulk stream: without it the stream was cut.
pub(crate) fn end_frame() -> Head {
    link_frame(END)
}

fn link_frame(request: u64) -> Head {
    Head {
        length: 0,
        kind: KIND_LINK,
        version: LINK_VERSION,
        route: Route::push(request),
    }
}

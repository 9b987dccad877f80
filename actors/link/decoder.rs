//! From bytes, however they are cut, to whole frames. Knows no stream.

use rkyv::util::AlignedVec;

use crate::frame::{Frame, FrameError, HEADER_BYTES, Head};

/// Memory given to a payload before its first byte came, in bytes.
///
/// Source: chosen; larger ones grow by doubling as bytes arrive, so a claim alone costs this much.
const FIRST_GRANT: usize = 64 * 1024;

/// Turns bytes into frames, however they are cut.
#[derive(Debug)]
pub struct Decoder {
    length_max: u32,
    header: [u8; HEADER_BYTES],
    header_filled: usize,
    partial: Option<Partial>,
}

#[derive(Debug)]
struct Partial {
    head: Head,
    payload: AlignedVec,
    padding_left: usize,
}

impl Decoder {
    /// Makes a decoder that refuses payloads above `length_max` bytes.
    pub fn new(length_max: u32) -> Self {
        Self {
            length_max,
            header: [0; HEADER_BYTES],
            header_filled: 0,
            partial: None,
        }
    }

    /// Takes bytes off the front of `input` until a frame is whole or the input is used up.
    ///
    /// # Errors
    /// [`FrameError`] when the bytes are not a frame; the decoder must then be thrown away.
    pub fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        if self.partial.is_none() {
            let Some(head) = self.take_header(input)? else {
                return Ok(None);
            };
            let padded = (head.length as usize).next_multiple_of(HEADER_BYTES);
            self.partial = Some(Partial {
                head,
                payload: AlignedVec::with_capacity((head.length as usize).min(FIRST_GRANT)),
                padding_left: padded - head.length as usize,
            });
        }
        let Some(partial) = &mut self.partial else {
            return Ok(None);
        };
        partial.take(input)?;
        if !partial.is_whole() {
            return Ok(None);
        }
        self.header_filled = 0;
        Ok(self
            .partial
            .take()
            .map(|Partial { head, payload, .. }| Frame { head, payload }))
    }

    /// Whether a frame has begun and is not whole.
    pub fn is_inside(&self) -> bool {
        self.header_filled > 0
    }

    /// Memory held for the frame that is not whole, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.partial
            .as_ref()
            .map_or(0, |partial| partial.payload.capacity())
    }

    /// Checks that the stream may end here.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] inside a frame.
    pub fn end(&self) -> Result<(), FrameError> {
        if !self.is_inside() {
            return Ok(());
        }
        let (have, want) = match &self.partial {
            None => (self.header_filled, HEADER_BYTES),
            Some(partial) => {
                let length = partial.head.length as usize;
                let padding = length.next_multiple_of(HEADER_BYTES) - length;
                let padded = padding - partial.padding_left;
                (
                    HEADER_BYTES + partial.payload.len() + padded,
                    HEADER_BYTES + length + padding,
                )
            }
        };
        Err(FrameError::Truncated { have, want })
    }

    fn take_header(&mut self, input: &mut &[u8]) -> Result<Option<Head>, FrameError> {
        let part = take(input, HEADER_BYTES - self.header_filled);
        self.header[self.header_filled..self.header_filled + part.len()].copy_from_slice(part);
        self.header_filled += part.len();
        if self.header_filled < HEADER_BYTES {
            return Ok(None);
        }
        Head::from_bytes(&self.header, self.length_max).map(Some)
    }
}

impl Partial {
    fn take(&mut self, input: &mut &[u8]) -> Result<(), FrameError> {
        let length = self.head.length as usize;
        let part = take(input, length - self.payload.len());
        let needed = self.payload.len() + part.len();
        if needed > self.payload.capacity() {
            let target = (self.payload.capacity() * 2).clamp(needed, length);
            self.payload.reserve_exact(target - self.payload.len());
        }
        self.payload.extend_from_slice(part);
        if self.payload.len() < length {
            return Ok(());
        }
        let padding = take(input, self.padding_left);
        self.padding_left -= padding.len();
        if padding.iter().all(|byte| *byte == 0) {
            Ok(())
        } else {
            Err(FrameError::Padding)
        }
    }

    fn is_whole(&self) -> bool {
        self.payload.len() == self.head.length as usize && self.padding_left == 0
    }
}

fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (front, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    front
}

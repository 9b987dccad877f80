//! One-way streams beside the control stream, for logs, snapshots and feeds.
//!
//! Frames as on the control stream. A last frame says that the stream is whole; a stream that ends
//! without it was cut, and is never taken for a short one.

use std::time::Duration;

use bytes::Bytes;
use quinn::{RecvStream, SendStream};

use crate::close::Closed;
use crate::frame::{Decoder, Frame, FrameError, Route, encode_frame, end_frame};
use crate::message::{EncodeError, KIND_LINK, Message};
use crate::outbox::{ResetOnDrop, WriteFault};
use crate::settings::Settings;

/// Most bytes taken from a stream at once.
///
/// Source: chosen; quinn hands out at most what one packet brought.
const READ_BYTES_MAX: usize = 64 * 1024;

/// A bulk stream failed.
#[derive(Debug, thiserror::Error)]
pub enum BulkError {
    /// The connection has ended.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The message cannot be made into a frame.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Writing failed.
    #[error(transparent)]
    Write(#[from] WriteFault),
    /// The peer sent what is no frame.
    #[error("the peer broke the protocol on a bulk stream")]
    Frame(#[from] FrameError),
    /// The stream ended or was reset before its last frame.
    #[error("bulk stream was cut off: {reason}")]
    Cut {
        /// How.
        reason: String,
    },
    /// A frame that had begun was not whole in time.
    #[error("bulk stream stalled inside a frame")]
    Late,
}

/// Writes one bulk stream. Dropping it before [`BulkSender::finish`] resets the stream.
pub struct BulkSender {
    stream: ResetOnDrop,
    stall: Duration,
}

impl BulkSender {
    pub(crate) fn new(stream: SendStream, stall: Duration) -> Self {
        Self {
            stream: ResetOnDrop::new(stream),
            stall,
        }
    }

    /// Sends a message, waiting while the peer is behind.
    ///
    /// # Errors
    /// [`BulkError::Encode`] for a message that is too large, [`BulkError::Write`] when the stream
    /// fails or the peer stalls. A send that is abandoned midway spoils the stream.
    pub async fn send<T: Message>(&mut self, message: &T) -> Result<(), BulkError> {
        let frame = encode_frame(Route::push(0), message)?;
        Ok(self
            .stream
            .write(Bytes::from_owner(frame), self.stall, |_| ())
            .await?)
    }

    /// Sends the last frame and waits until the peer has acknowledged the whole stream.
    ///
    /// # Errors
    /// [`BulkError::Write`] when the stream fails before.
    pub async fn finish(mut self) -> Result<(), BulkError> {
        let last = Bytes::copy_from_slice(&end_frame().to_bytes());
        self.stream.write(last, self.stall, |_| ()).await?;
        Ok(self.stream.finish().await?)
    }
}

/// Reads one bulk stream. Dropping it tells the peer to stop.
pub struct BulkReceiver {
    stream: RecvStream,
    decoder: Decoder,
    chunk: Bytes,
    frame_deadline: Duration,
    whole: bool,
}

impl BulkReceiver {
    pub(crate) fn new(stream: RecvStream, settings: &Settings) -> Self {
        Self {
            stream,
            decoder: Decoder::new(settings.frame_bytes_max.min(crate::FRAME_BYTES_MAX)),
            chunk: Bytes::new(),
            frame_deadline: settings.frame_deadline,
            whole: false,
        }
    }

    /// Waits for the next frame; `None` after the last frame of a whole stream.
    ///
    /// # Errors
    /// [`BulkError::Cut`] when the stream ends before its last frame, [`BulkError::Frame`] for
    /// what is no frame, [`BulkError::Late`] when the peer stalls inside a frame.
    pub async fn receive(&mut self) -> Result<Option<Frame>, BulkError> {
        while !self.whole {
            let mut rest = self.chunk.as_ref();
            let outcome = self.decoder.decode(&mut rest);
            let used = self.chunk.len() - rest.len();
            bytes::Buf::advance(&mut self.chunk, used);
            match outcome? {
                Some(frame) if frame.head == end_frame() => self.whole = true,
                Some(frame) if frame.head.kind == KIND_LINK => {
                    return Err(BulkError::Frame(FrameError::NoOpening));
                }
                Some(frame) => return Ok(Some(frame)),
                None => self.chunk = self.read().await?,
            }
        }
        Ok(None)
    }

    async fn read(&mut self) -> Result<Bytes, BulkError> {
        let reading = self.stream.read_chunk(READ_BYTES_MAX, true);
        let chunk = if self.decoder.is_inside() {
            match tokio::time::timeout(self.frame_deadline, reading).await {
                Ok(chunk) => chunk,
                Err(_) => return Err(BulkError::Late),
            }
        } else {
            reading.await
        };
        match chunk {
            Ok(Some(chunk)) => Ok(chunk.bytes),
            Ok(None) => {
                self.decoder.end()?;
                Err(BulkError::Cut {
                    reason: "it ended without its last frame".to_owned(),
                })
            }
            Err(quinn::ReadError::ConnectionLost(error)) => Err(Closed::of(&error).into()),
            Err(error) => Err(BulkError::Cut {
                reason: error.to_string(),
            }),
        }
    }
}

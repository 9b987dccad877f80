//! One-way streams beside the control stream, for logs, snapshots and feeds.
//!
//! Frames as on the control stream. A last frame says that the stream is whole; a stream that ends
//! without it was cut, and is never taken for a short one.

use std::time::Duration;

use bytes::Bytes;
use quinn::{RecvStream, SendStream};

use crate::close::Closed;
use crate::frame::{Frame, FrameError, Route, encode_frame, end_frame};
use crate::message::{EncodeError, KIND_LINK, Message};
use crate::outbox::{ResetOnDrop, WriteFault};
use crate::reader::{FrameReader, ReadFault};
use crate::settings::Settings;

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
    #[error("a frame of the bulk stream was not whole within {deadline_ms} ms")]
    Late {
        /// The deadline in milliseconds.
        deadline_ms: u64,
    },
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
#[derive(Debug)]
pub struct BulkReceiver {
    reader: FrameReader,
    whole: bool,
}

impl BulkReceiver {
    pub(crate) fn new(stream: RecvStream, settings: &Settings) -> Self {
        Self {
            reader: FrameReader::new(stream, settings),
            whole: false,
        }
    }

    /// Waits for the next frame; `None` after the last frame of a whole stream.
    ///
    /// # Errors
    /// [`BulkError::Cut`] when the stream ends before its last frame, [`BulkError::Frame`] for
    /// what is no frame, [`BulkError::Late`] when the peer stalls inside a frame.
    pub async fn receive(&mut self) -> Result<Option<Frame>, BulkError> {
        if self.whole {
            return Ok(None);
        }
        let cut = |reason: String| BulkError::Cut { reason };
        let next = self.reader.next().await.map_err(|fault| match fault {
            ReadFault::Frame(error) => BulkError::Frame(error),
            ReadFault::Late { deadline_ms } => BulkError::Late { deadline_ms },
            ReadFault::Lost(error) => BulkError::Closed(Closed::of(&error)),
            ReadFault::Stream(reason) => cut(reason),
        })?;
        let frame = next.ok_or_else(|| cut("it ended without its last frame".to_owned()))?;
        if frame.kind() != KIND_LINK {
            return Ok(Some(frame));
        }
        if frame.head != end_frame() {
            return Err(BulkError::Frame(FrameError::Misplaced));
        }
        self.whole = true;
        Ok(None)
    }
}

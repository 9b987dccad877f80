//! Frames from a QUIC stream, each whole and within its deadline.

use std::time::Duration;

use bytes::{Buf, Bytes};
use quinn::{ConnectionError, ReadError, RecvStream};
use tokio::time::Instant;

use crate::decoder::Decoder;
use crate::frame::{Frame, FrameError};
use crate::settings::Settings;

/// Most bytes taken from the stream at once.
///
/// Source: chosen; quinn hands out at most what one packet brought.
const READ_BYTES_MAX: usize = 64 * 1024;

/// Why no frame came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadFault {
    /// The bytes are no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame that had begun was not whole in time.
    #[error("a frame was not whole within {deadline_ms} ms")]
    Late { deadline_ms: u64 },
    /// The connection has ended.
    #[error(transparent)]
    Lost(#[from] ConnectionError),
    /// The stream has ended in another way than by its end.
    #[error("{0}")]
    Stream(String),
}

/// Reads frames from one stream.
#[derive(Debug)]
pub(crate) struct FrameReader {
    stream: RecvStream,
    decoder: Decoder,
    /// Received bytes that are not decoded yet.
    chunk: Bytes,
    /// When the frame that has begun must be whole.
    frame_due: Option<Instant>,
    frame_deadline: Duration,
}

impl FrameReader {
    pub(crate) fn new(stream: RecvStream, settings: &Settings) -> Self {
        Self {
            stream,
            decoder: Decoder::new(settings.frame_bytes_max.min(crate::FRAME_BYTES_MAX)),
            chunk: Bytes::new(),
            frame_due: None,
            frame_deadline: settings.frame_deadline,
        }
    }

    /// Waits for the next frame; `None` when the stream ends between two frames.
    ///
    /// Nothing is lost when the wait is abandoned. Only waits for the peer count against the
    /// deadline of a frame: bytes that are here already are taken however late they are.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, ReadFault> {
        loop {
            let mut rest = self.chunk.as_ref();
            let outcome = self.decoder.decode(&mut rest);
            let used = self.chunk.len() - rest.len();
            self.chunk.advance(used);
            if let Some(frame) = outcome? {
                self.frame_due = None;
                return Ok(Some(frame));
            }
            match self.read().await? {
                Some(chunk) => self.chunk = chunk,
                None => {
                    self.decoder.end()?;
                    return Ok(None);
                }
            }
        }
    }

    async fn read(&mut self) -> Result<Option<Bytes>, ReadFault> {
        let reading = self.stream.read_chunk(READ_BYTES_MAX, true);
        let chunk = if self.decoder.is_inside() {
            let deadline = self.frame_deadline;
            let due = *self
                .frame_due
                .get_or_insert_with(|| Instant::now() + deadline);
            tokio::time::timeout_at(due, reading)
                .await
                .map_err(|_| ReadFault::Late {
                    deadline_ms: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX),
                })?
        } else {
            reading.await
        };
        match chunk {
            Ok(chunk) => Ok(chunk.map(|chunk| chunk.bytes)),
            Err(ReadError::ConnectionLost(error)) => Err(ReadFault::Lost(error)),
            Err(error) => Err(ReadFault::Stream(error.to_string())),
        }
    }
}

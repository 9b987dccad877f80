//! The receiving half of a connection: the frames of one peer's control stream.

use crate::close::{CloseCode, Closed};
use crate::frame::{Frame, FrameError};
use crate::message::KIND_LINK;
use crate::peer::Peer;
use crate::reader::{FrameReader, ReadFault};

/// Nothing more can be received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The peer has finished its control stream in good order.
    #[error("the peer has nothing more to say")]
    Ended,
    /// The connection has ended.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The peer sent what is no frame; its connection was closed.
    #[error("the peer broke the protocol")]
    Frame(#[from] FrameError),
    /// The peer did not complete a frame in time; its connection was closed.
    #[error("the peer did not complete a frame within {deadline_ms} ms")]
    Late {
        /// The deadline in milliseconds.
        deadline_ms: u64,
    },
}

/// Receives the frames of one peer's control stream.
#[derive(Debug)]
pub struct Inbox {
    peer: Peer,
    reader: FrameReader,
}

impl Inbox {
    pub(crate) fn new(peer: Peer, reader: FrameReader) -> Self {
        Self { peer, reader }
    }

    /// The peer whose frames these are.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Waits for the next whole frame. Nothing is lost when the wait is abandoned.
    ///
    /// Flow control holds the peer back while nobody calls this.
    ///
    /// # Errors
    /// See [`ReceiveError`]; after [`ReceiveError::Frame`] and [`ReceiveError::Late`] the
    /// connection has been closed, and other peers notice nothing.
    pub async fn receive(&mut self) -> Result<Frame, ReceiveError> {
        let frame = self.next().await?;
        if frame.kind() == KIND_LINK {
            return Err(self.broken(FrameError::Misplaced));
        }
        Ok(frame)
    }

    /// Waits for the frame that each side sends first; the version in it.
    pub(crate) async fn receive_open(&mut self) -> Result<u8, ReceiveError> {
        let frame = self.next().await?;
        if frame.kind() == KIND_LINK {
            return Ok(frame.head.version);
        }
        Err(self.broken(FrameError::Misplaced))
    }

    async fn next(&mut self) -> Result<Frame, ReceiveError> {
        match self.reader.next().await {
            Ok(Some(frame)) => Ok(frame),
            Ok(None) => Err(ReceiveError::Ended),
            Err(ReadFault::Frame(error)) => Err(self.broken(error)),
            Err(ReadFault::Late { deadline_ms }) => {
                let error = ReceiveError::Late { deadline_ms };
                self.peer.close(CloseCode::SlowPeer, &error.to_string());
                Err(error)
            }
            Err(ReadFault::Lost(error)) => Err(ReceiveError::Closed(self.peer.ended_by(&error))),
            Err(ReadFault::Stream(reason)) => {
                self.peer.close(CloseCode::Protocol, &reason);
                Err(ReceiveError::Closed(Closed::Transport { reason }))
            }
        }
    }

    fn broken(&self, error: FrameError) -> ReceiveError {
        self.peer.close(CloseCode::Protocol, &error.to_string());
        ReceiveError::Frame(error)
    }
}

//! What waits to be sent to one peer: bounded, written in batches by one task.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quinn::{SendStream, VarInt};
use tokio::sync::Notify;

/// Frames up to this length are copied together into one batch; longer ones are sent as they are.
///
/// Source: chosen; copying 16 KiB costs about a microsecond, less than a write of its own.
const COPIED_BYTES_MAX: usize = 16 * 1024;

/// Bytes handed to the stream at once; the stall time-out is for so many.
///
/// Source: chosen; a peer that takes less than this in the whole time-out is stalled.
const WRITE_BYTES_MAX: usize = 64 * 1024;

/// Code with which a stream is reset when its writer gives up in the middle.
///
/// Source: chosen.
const ABANDONED: VarInt = VarInt::from_u32(1);

/// Why the outbox does not take a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutboxRefusal {
    /// So many bytes wait already.
    Full { waiting: usize },
    /// Nothing is sent any more.
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// No new frames; the rest is written and the stream finished.
    Finishing,
    /// Nothing is written any more.
    Ended {
        delivered: bool,
    },
}

struct State {
    phase: Phase,
    /// Whole batches, oldest first.
    batches: VecDeque<Bytes>,
    /// Short frames, younger than all batches.
    tail: Vec<u8>,
    /// Bytes in batches, tail, and in the hands of the writer.
    waiting: usize,
}

/// Queue of bytes between senders and the writer task.
pub(crate) struct Outbox {
    state: Mutex<State>,
    /// Wakes the writer.
    filled: Notify,
    /// Wakes those who wait for the end.
    ended: Notify,
    waiting_max: usize,
}

impl Outbox {
    pub(crate) fn new(waiting_max: usize) -> Self {
        let state = State {
            phase: Phase::Open,
            batches: VecDeque::new(),
            tail: Vec::new(),
            waiting: 0,
        };
        Self {
            state: Mutex::new(state),
            filled: Notify::new(),
            ended: Notify::new(),
            waiting_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a whole frame, or refuses it.
    pub(crate) fn push<Frame>(&self, frame: Frame) -> Result<(), OutboxRefusal>
    where
        Frame: AsRef<[u8]> + Into<Bytes>,
    {
        let length = frame.as_ref().len();
        let mut state = self.lock();
        if state.phase != Phase::Open {
            return Err(OutboxRefusal::Ended);
        }
        if state.waiting > 0 && state.waiting + length > self.waiting_max {
            return Err(OutboxRefusal::Full {
                waiting: state.waiting,
            });
        }
        state.waiting += length;
        if length <= COPIED_BYTES_MAX {
            state.tail.extend_from_slice(frame.as_ref());
        } else {
            state.seal_tail();
            state.batches.push_back(frame.into());
        }
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Bytes that wait, those in the hands of the writer included.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting
    }

    /// Lets the writer send what waits and then finish the stream.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Finishing;
        }
        drop(state);
        self.filled.notify_one();
    }

    /// Throws away what waits and refuses everything from now on.
    pub(crate) fn end(&self, delivered: bool) {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Ended { .. }) {
            state.phase = Phase::Ended { delivered };
        }
        state.batches = VecDeque::new();
        state.tail = Vec::new();
        state.waiting = 0;
        drop(state);
        self.filled.notify_one();
        self.ended.notify_waiters();
    }

    /// Waits until the writer has ended; whether the peer acknowledged everything.
    pub(crate) async fn ended(&self) -> bool {
        loop {
            let mut woken = std::pin::pin!(self.ended.notified());
            woken.as_mut().enable();
            if let Phase::Ended { delivered } = self.lock().phase {
                return delivered;
            }
            woken.await;
        }
    }

    /// The next bytes for the stream; `None` when there will be none.
    async fn next(&self) -> Option<Bytes> {
        loop {
            {
                let mut state = self.lock();
                if matches!(state.phase, Phase::Ended { .. }) {
                    return None;
                }
                if state.batches.is_empty() {
                    state.seal_tail();
                }
                if let Some(batch) = state.batches.pop_front() {
                    return Some(batch);
                }
                if state.phase == Phase::Finishing {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    fn written(&self, bytes: usize) {
        let mut state = self.lock();
        state.waiting = state.waiting.saturating_sub(bytes);
    }
}

impl State {
    fn seal_tail(&mut self) {
        if !self.tail.is_empty() {
            self.batches
                .push_back(Bytes::from(std::mem::take(&mut self.tail)));
        }
    }
}

/// A stream that is reset when it is dropped before it was finished.
///
/// quinn finishes a dropped stream as if its end were the end of the message.
pub(crate) struct ResetOnDrop {
    stream: SendStream,
    finished: bool,
}

impl ResetOnDrop {
    pub(crate) fn new(stream: SendStream) -> Self {
        Self {
            stream,
            finished: false,
        }
    }

    /// Writes bytes; fails when the peer takes none of a piece for the stall time-out.
    pub(crate) async fn write(
        &mut self,
        mut bytes: Bytes,
        stall: Duration,
        mut progress: impl FnMut(usize),
    ) -> Result<(), WriteFault> {
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(WRITE_BYTES_MAX));
            let length = piece.len();
            match tokio::time::timeout(stall, self.stream.write_chunk(piece)).await {
                Ok(Ok(())) => progress(length),
                Ok(Err(error)) => return Err(WriteFault::Stream(error.to_string())),
                Err(_) => return Err(WriteFault::Stalled),
            }
        }
        Ok(())
    }

    /// Finishes the stream and waits until the peer has acknowledged all of it.
    pub(crate) async fn finish(&mut self) -> Result<(), WriteFault> {
        let fault = |text: String| WriteFault::Stream(text);
        self.stream
            .finish()
            .map_err(|error| fault(error.to_string()))?;
        self.finished = true;
        match self.stream.stopped().await {
            Ok(None) => Ok(()),
            Ok(Some(code)) => Err(fault(format!("peer stopped the stream with code {code}"))),
            Err(error) => Err(fault(error.to_string())),
        }
    }
}

impl Drop for ResetOnDrop {
    fn drop(&mut self) {
        if !self.finished {
            // An error says that the stream is closed already.
            let _ = self.stream.reset(ABANDONED);
        }
    }
}

/// Why bytes were not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteFault {
    /// The peer took nothing for the stall time-out.
    #[error("the peer takes nothing of what is sent to it")]
    Stalled,
    /// The stream or connection failed.
    #[error("stream failed: {0}")]
    Stream(String),
}

/// Writes everything from the outbox to the stream until either ends.
pub(crate) async fn run_writer(
    outbox: &Outbox,
    mut stream: ResetOnDrop,
    stall: Duration,
) -> Result<(), WriteFault> {
    while let Some(batch) = outbox.next().await {
        stream
            .write(batch, stall, |bytes| outbox.written(bytes))
            .await?;
    }
    match outbox.lock().phase {
        Phase::Open | Phase::Finishing => {}
        Phase::Ended { .. } => return Ok(()),
    }
    stream.finish().await
}

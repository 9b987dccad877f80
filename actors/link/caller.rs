//! Calls over a connection: each request finds its answer; what is pushed goes to a queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use xce_model::{Refusal, RefusalKind};

use crate::close::{CloseCode, Closed};
use crate::frame::{Frame, Route, RouteRole};
use crate::inbox::{Inbox, ReceiveError};
use crate::message::{DecodeError, Message};
use crate::peer::{Connected, Peer, SendError};

/// Why a call gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The request was certainly not sent; it may be repeated anywhere.
    #[error("request was not sent")]
    NotDelivered(#[source] SendError),
    /// The connection ended after the request was queued; nobody knows whether it was carried out.
    #[error("outcome unknown: the connection ended before the answer came")]
    Unknown(#[source] ReceiveError),
    /// The peer refused.
    #[error(transparent)]
    Refused(Refusal),
    /// No answer in time; nobody knows whether it was or will be carried out.
    #[error("no answer within {deadline_ms} ms; outcome unknown")]
    Timeout {
        /// The deadline in milliseconds.
        deadline_ms: u64,
    },
    /// An answer came that this program does not understand; the request was carried out or not.
    #[error("the answer is not understood")]
    BadAnswer(#[from] DecodeError),
}

impl CallError {
    /// Whether the request may have been carried out although no answer came.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::NotDelivered(_) | Self::Refused(_) => false,
            Self::Unknown(_) | Self::Timeout { .. } | Self::BadAnswer(_) => true,
        }
    }

    /// The form in which a user hears of it.
    pub fn refusal(&self) -> Refusal {
        let (kind, code) = match self {
            Self::Refused(refusal) => return refusal.clone(),
            Self::NotDelivered(error) => return error.refusal(),
            Self::Unknown(_) => (RefusalKind::OutcomeUnknown, "connection_lost"),
            Self::Timeout { .. } => (RefusalKind::OutcomeUnknown, "no_answer"),
            Self::BadAnswer(_) => (RefusalKind::OutcomeUnknown, "answer_not_understood"),
        };
        Refusal::new(kind, code, self.to_string())
    }
}

/// Makes calls to one peer. Cheap to clone; the connection closes with the last clone.
#[derive(Clone)]
pub struct Caller {
    inner: Arc<Inner>,
}

struct Inner {
    peer: Peer,
    pending: Arc<Pending>,
    reader: tokio::task::AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.reader.abort();
        self.peer.close(CloseCode::Done, "caller dropped");
    }
}

impl Caller {
    /// Takes over a connection: answers find their calls, and all other frames, at most
    /// `pushes_max` of them waiting, are handed out by the receiver.
    ///
    /// While the receiver is full nothing is read, answers neither, and flow control holds the
    /// peer back: drain it in another task than the one that calls. When the receiver is dropped
    /// such frames are dropped.
    pub fn new(connected: Connected, pushes_max: usize) -> (Self, mpsc::Receiver<Frame>) {
        let (pushes, receiver) = mpsc::channel(pushes_max.max(1));
        let Connected { peer, inbox } = connected;
        let pending = Arc::new(Pending::default());
        let reader = tokio::spawn(run_reader(inbox, Arc::clone(&pending), pushes)).abort_handle();
        (
            Self {
                inner: Arc::new(Inner {
                    peer,
                    pending,
                    reader,
                }),
            },
            receiver,
        )
    }

    /// The peer that is called.
    pub fn peer(&self) -> &Peer {
        &self.inner.peer
    }

    /// Sends a request and waits for its answer until the deadline.
    ///
    /// # Errors
    /// See [`CallError`]. Abandoning the wait does not take the request back.
    pub async fn call<Question: Message, Answer: Message>(
        &self,
        question: &Question,
        deadline: Duration,
    ) -> Result<Answer, CallError> {
        let waiting = self.inner.pending.register();
        let route = Route::request(waiting.number);
        self.inner
            .peer
            .send(route, question)
            .map_err(CallError::NotDelivered)?;
        let frame = waiting.answer(deadline).await?;
        match frame.route().role {
            RouteRole::Reply => Ok(frame.decode()?),
            RouteRole::Refusal => Err(CallError::Refused(frame.decode()?)),
            RouteRole::Request | RouteRole::Push => {
                let (expected, found) = (Answer::KIND, frame.kind());
                Err(CallError::BadAnswer(DecodeError::Kind { expected, found }))
            }
        }
    }

    /// Waits until the connection has ended, and says why.
    pub async fn closed(&self) -> Closed {
        self.inner.peer.closed().await
    }
}

/// Calls whose answers have not come.
#[derive(Default)]
struct Pending {
    state: Mutex<PendingState>,
}

#[derive(Default)]
struct PendingState {
    last: u64,
    calls: HashMap<u64, oneshot::Sender<Result<Frame, ReceiveError>>>,
    /// Why no answer will come any more.
    ended: Option<ReceiveError>,
}

/// One call's place; gives it up when dropped.
struct Waiting<'a> {
    pending: &'a Pending,
    number: u64,
    answer: Option<oneshot::Receiver<Result<Frame, ReceiveError>>>,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self) -> Waiting<'_> {
        let (sender, answer) = oneshot::channel();
        let mut state = self.lock();
        state.last += 1;
        let number = state.last;
        // After the end the outbox refuses the request, so that it is known not to be sent.
        if state.ended.is_none() {
            state.calls.insert(number, sender);
        }
        Waiting {
            pending: self,
            number,
            answer: Some(answer),
        }
    }

    fn resolve(&self, frame: Frame) {
        let caller = self.lock().calls.remove(&frame.route().request);
        match caller {
            // Whoever does not wait any more has been told of the time-out.
            Some(caller) => drop(caller.send(Ok(frame))),
            None => tracing::debug!(kind = frame.kind(), "answer without a call"),
        }
    }

    fn end(&self, error: ReceiveError) {
        let mut state = self.lock();
        let calls = std::mem::take(&mut state.calls);
        state.ended = Some(error.clone());
        drop(state);
        for caller in calls.into_values() {
            let _ = caller.send(Err(error.clone()));
        }
    }

    fn ended(&self) -> ReceiveError {
        self.lock().ended.clone().unwrap_or(ReceiveError::Ended)
    }
}

impl Waiting<'_> {
    async fn answer(mut self, deadline: Duration) -> Result<Frame, CallError> {
        let Some(answer) = self.answer.take() else {
            return Err(CallError::Unknown(self.pending.ended()));
        };
        match tokio::time::timeout(deadline, answer).await {
            Ok(Ok(outcome)) => outcome.map_err(CallError::Unknown),
            Ok(Err(_)) => Err(CallError::Unknown(self.pending.ended())),
            Err(_) => {
                let deadline_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
                Err(CallError::Timeout { deadline_ms })
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.pending.lock().calls.remove(&self.number);
    }
}

async fn run_reader(mut inbox: Inbox, pending: Arc<Pending>, pushes: mpsc::Sender<Frame>) {
    let error = loop {
        let frame = match inbox.receive().await {
            Ok(frame) => frame,
            Err(error) => break error,
        };
        match frame.route().role {
            RouteRole::Reply | RouteRole::Refusal => pending.resolve(frame),
            // A dropped receiver says that nobody wants them.
            RouteRole::Push | RouteRole::Request => drop(pushes.send(frame).await),
        }
    };
    inbox
        .peer()
        .close(CloseCode::Done, "nothing more can be received");
    pending.end(error);
}

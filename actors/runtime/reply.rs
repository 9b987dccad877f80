//! The way back of a call.

use tokio::sync::oneshot;

/// Where the answer of one call goes.
///
/// Dropping it unanswered tells the caller that the outcome is unknown.
#[derive(Debug)]
pub struct Reply<R>(oneshot::Sender<R>);

impl<R> Reply<R> {
    /// A reply and where its answer arrives; for calls that do not go through an address.
    pub fn channel() -> (Self, oneshot::Receiver<R>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// Answers the caller. One that no longer waits is nobody's problem.
    pub fn send(self, answer: R) {
        // Err only hands the answer back when the caller is gone.
        drop(self.0.send(answer));
    }

    /// Whether the caller has given up; work for it can be spared.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

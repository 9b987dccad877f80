//! Side work of an actor: tasks that report back as messages.

use std::future::Future;

use tokio::task::JoinHandle;

/// A running side task; dropping it ends the task at its next await.
///
/// Keep it in the actor's state: then it ends together with the incarnation that started it.
#[derive(Debug)]
#[must_use = "the task ends when this is dropped"]
pub struct Task(Option<JoinHandle<()>>);

impl Task {
    /// Starts `work` beside the actor. A panic in it ends the task alone and is logged.
    pub fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Some(tokio::spawn(work)))
    }

    /// Lets the task run to its end, however long its starter lives.
    pub fn detach(mut self) {
        self.0 = None;
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.abort();
        }
    }
}

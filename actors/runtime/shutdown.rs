//! Bounded, ordered end of many children.

use std::time::Duration;

use ractor::ActorCell;
use tokio::time::Instant;

use crate::policy::{Limits, StopOrder};

/// How long to wait in all for killed children to notice.
///
/// Source: derived; a kill takes effect at the next await, and handlers may compute for 10 ms.
const KILL_WAIT: Duration = Duration::from_millis(200);

/// A child that is to end.
pub(crate) struct Leaving {
    pub(crate) cell: ActorCell,
    /// How long it may take by itself.
    pub(crate) within: Duration,
}

/// Ends all children, given in the order in which they were started; returns how many were killed.
pub(crate) async fn stop_all(leaving: Vec<Leaving>, limits: &Limits) -> usize {
    let begin = Instant::now();
    let end = begin + limits.shutdown_within;
    let mut killed = Vec::new();
    if limits.stop_order == StopOrder::Together {
        for child in leaving.iter().rev() {
            child.cell.stop(None);
        }
    }
    for child in leaving.iter().rev() {
        let from = match limits.stop_order {
            StopOrder::Together => begin,
            StopOrder::Reverse => {
                child.cell.stop(None);
                Instant::now()
            }
        };
        let until = end.min(from + child.within);
        let left = until.saturating_duration_since(Instant::now());
        if child.cell.wait(Some(left)).await.is_err() {
            child.cell.kill();
            killed.push(&child.cell);
        }
    }
    let end = Instant::now() + KILL_WAIT;
    for cell in &killed {
        let left = end.saturating_duration_since(Instant::now());
        // One that does not notice sits in blocking code, which nothing can end.
        drop(cell.wait(Some(left)).await);
    }
    killed.len()
}

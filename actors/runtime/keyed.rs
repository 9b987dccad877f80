//! The actor of a supervisor: starts, restarts and stops its children, one for one.
//!
//! It is an entity like any other: it can be seen, killed and restarted. What it knows beyond the
//! wanted set (who lives, who crashed how often) it may lose.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorCell, ActorId};
use serde::Serialize;
use tokio::time::Instant;

use crate::backoff::{Crashes, Storm, Verdict};
use crate::desk::{Desk, Place};
use crate::inspect::View;
use crate::key::Key;
use crate::policy::{OnLimit, OnStorm, Restart};
use crate::probe::Phase;
use crate::shutdown::{self, Leaving};
use crate::supervised::{ChildEnded, Context, Crash, Entity, NotYet};
use crate::task::Task;

/// What a supervisor is told; never the truth itself, only where to look.
#[derive(Debug)]
pub enum Order {
    /// A child was added.
    Start(Key),
    /// A child is to end.
    Stop(Key),
    /// An operator ends a quarantine.
    Retry(Key),
    /// A delay is over.
    Due(Key),
    /// An incarnation has not ended in time.
    Overdue(Key),
}

/// The supervisor as an entity.
pub(crate) struct Keyed {
    desk: Arc<Desk>,
}

/// A child as one incarnation of the supervisor knows it.
struct Child {
    place: Arc<dyn Place>,
    live: Option<ActorCell>,
    /// Present once it has crashed or is to stop.
    trouble: Option<Box<Trouble>>,
}

#[derive(Default)]
struct Trouble {
    crashes: Crashes,
    timer: Option<Task>,
}

/// What one incarnation of a supervisor knows.
pub(crate) struct Children {
    by_key: BTreeMap<Key, Child>,
    by_id: HashMap<ActorId, Key>,
    storm: Storm,
    random: fastrand::Rng,
    since: Instant,
}

impl Keyed {
    pub(crate) fn new(desk: Arc<Desk>) -> Self {
        Self { desk }
    }

    async fn start(
        &self,
        context: &Context<Order>,
        children: &mut Children,
        key: &Key,
    ) -> Result<(), Crash> {
        let Some(place) = self.desk.wants(key) else {
            return Ok(());
        };
        let child = children.by_key.entry(key.clone()).or_insert_with(|| Child {
            place,
            live: None,
            trouble: None,
        });
        if child.live.is_some() {
            return Ok(());
        }
        if let Some(trouble) = &mut child.trouble {
            trouble.timer = None;
        }
        match child.place.start(Some(context.cell().clone())).await {
            Ok(cell) => {
                children.by_id.insert(cell.get_id(), key.clone());
                child.live = Some(cell);
                self.desk.started(key);
                Ok(())
            }
            Err(crash) => self.again(context, children, key, Some(crash)),
        }
    }

    fn stop(&self, context: &Context<Order>, children: &mut Children, key: &Key) {
        let Some(child) = children.by_key.get_mut(key) else {
            self.desk.finish(key);
            return;
        };
        let trouble = child.trouble.get_or_insert_default();
        match &child.live {
            Some(cell) => {
                cell.stop(None);
                let within = child.place.policy().stop_within;
                trouble.timer = Some(after(context, within, Order::Overdue(key.clone())));
            }
            None => {
                children.by_key.remove(key);
                self.desk.finish(key);
            }
        }
    }

    fn ended(
        &self,
        context: &Context<Order>,
        children: &mut Children,
        ended: ChildEnded,
    ) -> Result<(), Crash> {
        // An incarnation that is not known any more is none of ours.
        let Some(key) = children.by_id.remove(&ended.cell.get_id()) else {
            return Ok(());
        };
        let Some(child) = children.by_key.get_mut(&key) else {
            return Ok(());
        };
        child.live = None;
        child.place.vacate(ended.cell.get_id());
        let again = match child.place.policy().restart {
            Restart::Always => true,
            Restart::OnFailure => ended.crash.is_some(),
            Restart::Never => false,
        };
        if !again || self.desk.wants(&key).is_none() {
            children.by_key.remove(&key);
            self.desk.finish(&key);
            return Ok(());
        }
        self.again(context, children, &key, ended.crash)
    }

    /// Decides when a child starts again that has just ended.
    fn again(
        &self,
        context: &Context<Order>,
        children: &mut Children,
        key: &Key,
        crash: Option<Crash>,
    ) -> Result<(), Crash> {
        let now = children.since.elapsed();
        let random = children.random.u64(..);
        let Some(child) = children.by_key.get_mut(key) else {
            return Ok(());
        };
        let policy = *child.place.policy();
        let probe = child.place.probe();
        let trouble = child.trouble.get_or_insert_default();
        probe.count_restart();
        if let Some(crash) = &crash {
            probe.set_error(context.clock().monotonic_ms(), &crash.to_string());
        }
        if crash.as_ref().is_some_and(|crash| crash.is::<NotYet>()) {
            probe.set_phase(Phase::Waiting);
            note(key, Phase::Waiting, probe.restarts(), crash.as_ref());
            let delay = trouble.crashes.waits(&policy.backoff, random);
            trouble.timer = due(context, delay, key);
            return Ok(());
        }
        let limits = self.desk.limits();
        let storm = children
            .storm
            .count(now, limits.storm_max, limits.storm_window);
        let verdict = trouble.crashes.crashed(&policy.backoff, now, random);
        let (phase, delay) = match verdict {
            Verdict::Again(delay) => (Phase::Backoff, Some(delay)),
            Verdict::SetAside => match policy.on_limit {
                OnLimit::Quarantine { retry_after } => (Phase::Quarantined, retry_after),
                OnLimit::Escalate => {
                    return Err(self.gives_up(context, format!("{key} crashed too often"), crash));
                }
            },
        };
        let at_least = match limits.on_storm {
            OnStorm::Escalate if storm => {
                return Err(self.gives_up(context, format!("restart storm, last {key}"), crash));
            }
            OnStorm::Spread(over) if storm => spread(over, random),
            OnStorm::Escalate | OnStorm::Spread(_) => Duration::ZERO,
        };
        probe.set_phase(phase);
        note(key, phase, probe.restarts(), crash.as_ref());
        trouble.timer = delay
            .map(|delay| delay.max(at_least))
            .and_then(|delay| due(context, delay, key));
        Ok(())
    }

    /// The supervisor's own crash; noted here because the top one has nobody above to note it.
    fn gives_up(&self, context: &Context<Order>, what: String, crash: Option<Crash>) -> Crash {
        let why = match crash {
            Some(crash) => format!("{what}: {crash}"),
            None => what,
        };
        let now_ms = context.clock().monotonic_ms();
        self.desk.probe().set_error(now_ms, &why);
        tracing::error!(actor = %self.desk.key(), error = %why, "supervisor gives up");
        why.into()
    }
}

/// Logs that a child has ended and what follows; the field names are those of [`crate::trace`].
fn note(key: &Key, phase: Phase, restarts: u32, crash: Option<&Crash>) {
    let error = crash.map(tracing::field::display);
    if phase == Phase::Quarantined {
        tracing::error!(actor = %key, restarts, error, "actor quarantined");
    } else if phase == Phase::Waiting {
        tracing::debug!(actor = %key, restarts, error, "actor waits for a dependency");
    } else if crash.is_some() {
        tracing::warn!(actor = %key, restarts, error, "actor crashed");
    } else {
        tracing::debug!(actor = %key, restarts, "actor ended and starts again");
    }
}

/// A moment within `over`, from 64 random bits.
fn spread(over: Duration, random: u64) -> Duration {
    let over_ns = u64::try_from(over.as_nanos()).unwrap_or(u64::MAX - 1);
    Duration::from_nanos(random % (over_ns + 1))
}

/// Orders the start of a child after a delay. One that is due at once goes through the mailbox all
/// the same, so that a handler stays short when many end together.
fn due(context: &Context<Order>, delay: Duration, key: &Key) -> Option<Task> {
    let order = Order::Due(key.clone());
    if delay.is_zero() {
        let _ = context.address().cast_unbounded(order);
        return None;
    }
    Some(after(context, delay, order))
}

fn after(context: &Context<Order>, delay: Duration, order: Order) -> Task {
    let address = context.address().clone();
    Task::spawn(async move {
        tokio::time::sleep(delay).await;
        // Err says that this incarnation has ended; the next one starts all that is wanted.
        let _ = address.cast_unbounded(order);
    })
}

impl Entity for Keyed {
    type Message = Order;
    type State = Children;
    const KIND: &'static str = "supervisor";

    async fn recover(&self, context: &Context<Order>) -> Result<Children, Crash> {
        let mut children = Children {
            by_key: BTreeMap::new(),
            by_id: HashMap::new(),
            storm: Storm::default(),
            random: fastrand::Rng::with_seed(self.desk.node().next_seed()),
            since: Instant::now(),
        };
        for (place, leaving) in self.desk.wishes() {
            let key = place.probe().key().clone();
            if leaving {
                self.desk.finish(&key);
            } else {
                if place.probe().started_ns().is_some() {
                    place.probe().count_restart();
                }
                self.start(context, &mut children, &key).await?;
            }
        }
        Ok(children)
    }

    async fn handle(
        &self,
        context: &Context<Order>,
        order: Order,
        children: &mut Children,
    ) -> Result<(), Crash> {
        match order {
            Order::Start(key) | Order::Due(key) => self.start(context, children, &key).await,
            Order::Stop(key) => {
                self.stop(context, children, &key);
                Ok(())
            }
            Order::Retry(key) => {
                let child = children.by_key.get_mut(&key);
                if let Some(trouble) = child.and_then(|child| child.trouble.as_mut()) {
                    trouble.crashes.clear();
                }
                self.start(context, children, &key).await
            }
            Order::Overdue(key) => {
                let child = children.by_key.get(&key);
                if let Some(cell) = child.and_then(|child| child.live.as_ref()) {
                    cell.kill();
                }
                Ok(())
            }
        }
    }

    fn view(&self, children: &Children) -> View {
        #[derive(Serialize)]
        struct Summary {
            children: usize,
            live: usize,
        }
        View::of(&Summary {
            children: children.by_key.len(),
            live: children.by_id.len(),
        })
    }

    async fn child_ended(
        &self,
        context: &Context<Order>,
        ended: ChildEnded,
        children: &mut Children,
    ) -> Result<(), Crash> {
        self.ended(context, children, ended)
    }

    /// ractor would kill all children at once and wait for none; this ends them in order.
    async fn stopping(&self, _context: &Context<Order>, children: &mut Children) {
        self.desk.close();
        let mut leaving = Vec::new();
        for (place, _leaving) in self.desk.wishes() {
            let key = place.probe().key();
            let live = children
                .by_key
                .get_mut(key)
                .and_then(|child| child.live.take());
            leaving.extend(live.map(|cell| Leaving {
                cell,
                within: place.policy().stop_within,
            }));
        }
        let killed = shutdown::stop_all(leaving, self.desk.limits()).await;
        self.desk.set_killed(killed);
        for (place, _leaving) in self.desk.wishes() {
            self.desk.finish(place.probe().key());
        }
        children.by_key.clear();
    }
}

//! The time in which a controller is the primary: its actors live as long, and no longer.
//!
//! ```text
//!   standby ─► primary of a term ─► cluster time is tied to this machine ─► actors ─► the door opens
//!      ▲                                                                               │
//!      └── actors end ◄── connections end ◄── the door closes ◄── another term ◄───────┘
//! ```

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use xce_model::chain;

use tokio::sync::watch;
use xce_ledger::{Anchor, ClockFact, Group, Ledger, Reader};
use xce_link::{CloseCode, HelloCode, HelloRefusal};
use xce_model::{Lsn, Millis};
use xce_runtime::{Limits, Node, Policy, RealClock, Root, Shards, Task};
use xce_wal::{PersistError, Role, Wal};

use crate::barrier::Barrier;
use crate::connections::Connections;
use crate::control::{Control, here};
use crate::endpoints::Readers;
use crate::losing::Doubts;
use crate::members_known::{self, Known};
use crate::peers::{LinkPeers, name_of};
use crate::publisher::{Publisher, Touched};
use crate::refusals::Refusals;
use crate::scheduler::Scheduling;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::start::{StartError, entropy};
use crate::{janitor, log, publisher, scheduler};

/// Silence of the primary after which a standby no longer leads others to it.
/// Source: derived; thirty of its beats, and five elections.
const LEADER_SILENT_MS: u64 = 1_500;
/// Longest wait for the tree to end. Source: derived; twice the bound of an entity's end.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Pause before a reign that could not begin is tried again.
/// Source: chosen; a few beats of consensus.
const BEGIN_PAUSE: Duration = Duration::from_millis(100);

/// What lives as long as the process, whoever leads.
pub struct House {
    /// Settings.
    pub settings: Settings,
    /// Persists, while this controller leads.
    pub wal: Wal<Ledger>,
    /// Reads what is committed.
    pub reader: Reader,
    /// Position of the last published change.
    pub published: watch::Receiver<Lsn>,
    /// What was touched and not yet told.
    pub touched: Arc<Touched>,
    /// The machine's boot id.
    pub boot_id: String,
    /// The journal of refusals.
    pub refusals: Arc<Refusals>,
    /// The way to the other controllers.
    pub peers: Arc<LinkPeers>,
    /// When this certificate ends, in seconds of Unix time.
    pub certificate_ends_s: i64,
    /// The present reign, while this controller is the primary and ready.
    pub reign: watch::Sender<Option<Arc<Control>>>,
}

impl House {
    /// What every shell shares now; nothing on a standby.
    pub fn control(&self) -> Option<Arc<Control>> {
        self.reign.borrow().clone()
    }

    /// What whoever needs the primary is told here.
    pub fn not_primary(&self) -> HelloRefusal {
        let heard = self.wal.status().leader_heard_ms;
        // The last one that led is known for a while after it is gone.
        let is_heard = heard.is_some_and(|ms| ms < LEADER_SILENT_MS);
        let primary = self.primary().filter(|_| is_heard);
        let members = self.wal.members();
        let voters = members.iter().filter(|state| state.voter);
        let names: Vec<String> = voters.map(|state| name_of(state.member.node)).collect();
        if primary.is_some() || names.len() < 2 {
            return HelloRefusal::not_primary(primary);
        }
        let text = format!(
            "this controller, {}, knows of no primary now: {} of the controllers {} have to be up and \
             reach each other to agree on one. Where that cannot be again, `xced force-new` begins \
             anew with one of them",
            name_of(self.settings.node),
            names.len() / 2 + 1,
            names.join(", ")
        );
        HelloRefusal::new(HelloCode::NotPrimary, text)
    }

    /// Where the primary is, when another controller is it and is known.
    pub fn primary(&self) -> Option<String> {
        match &*self.wal.role().borrow() {
            Role::Standby {
                leader: Some(leader),
                ..
            } if !leader.address.is_empty() => Some(leader.address.clone()),
            Role::Standby { .. } | Role::Primary { .. } => None,
        }
    }
}

/// One reign.
struct Reign {
    control: Arc<Control>,
    root: Root,
    _members: Task,
}

/// Why a reign ended.
enum End {
    /// Another term began.
    Deposed,
    /// The process stops.
    Closing,
    /// The actor tree ended by itself; the text says why.
    Tree(String),
}

/// Reigns whenever this controller is the primary, until the process stops or the actor tree ends;
/// the text says why.
pub async fn rule(house: Arc<House>, mut closing: watch::Receiver<bool>) -> String {
    let mut role = house.wal.role();
    let mut has_followed = false;
    loop {
        let mut again = false;
        let term = {
            let role = role.borrow_and_update();
            has_followed |= matches!(
                *role,
                Role::Standby {
                    leader: Some(_),
                    ..
                }
            );
            role.primary_term()
        };
        if let Some(term) = term {
            match Reign::begin(&house, term, has_followed).await {
                Ok(reign) => {
                    tracing::info!(
                        term,
                        lsn = house.reader.lsn(),
                        "this controller is the primary"
                    );
                    house.reign.send_replace(Some(Arc::clone(&reign.control)));
                    let end = reign.last(term, &mut role, &mut closing).await;
                    house.reign.send_replace(None);
                    reign.end(&house, &end).await;
                    match end {
                        End::Deposed => {
                            tracing::warn!(term, "this controller is no longer the primary");
                            continue;
                        }
                        End::Closing => return "the controller was stopped".to_owned(),
                        End::Tree(why) => return why,
                    }
                }
                // It may still lead in this term, when a quorum answers again or there is space: no
                // change of the role would say so.
                Err(StartError::FirstWrite(
                    error @ (PersistError::NotPrimary { .. }
                    | PersistError::Unknown
                    | PersistError::DiskFull
                    | PersistError::Overloaded),
                )) => {
                    tracing::warn!(term, %error, "the reign cannot begin yet");
                    again = true;
                }
                Err(error) => return chain(&error),
            }
        }
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => {
                return "the controller was stopped".to_owned();
            }
            changed = role.changed() => if changed.is_err() {
                return "consensus ended".to_owned();
            },
            () = tokio::time::sleep(BEGIN_PAUSE), if again => {}
        }
    }
}

impl Reign {
    async fn begin(house: &House, term: u64, has_followed: bool) -> Result<Self, StartError> {
        let node = Node::new(Arc::new(RealClock), entropy()?);
        let anchor = anchor(&node, house, has_followed).await?;
        let root = Root::start(&node, Limits::ROOT).await?;
        let control = control(&root, house, node, anchor, term)?;
        start_actors(&root, &control, &house.touched)?;
        let members = members_known::follow(Arc::clone(&control), Arc::clone(&house.peers));
        Ok(Self {
            control,
            root,
            _members: Task::spawn(members),
        })
    }

    /// Waits for what ends it.
    async fn last(
        &self,
        term: u64,
        role: &mut watch::Receiver<Role>,
        closing: &mut watch::Receiver<bool>,
    ) -> End {
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => End::Closing,
            _ = role.wait_for(|role| role.primary_term() != Some(term)) => End::Deposed,
            why = self.root.ended() => {
                End::Tree(why.unwrap_or_else(|| "the actor tree was stopped".to_owned()))
            }
        }
    }

    /// Ends in order: no orders any more, the connections, the actors.
    async fn end(self, house: &House, end: &End) {
        house.touched.tell_nobody();
        let (code, text) = match end {
            End::Deposed => (
                CloseCode::NotPrimary,
                "this controller is no longer the primary",
            ),
            End::Closing | End::Tree(_) => (CloseCode::Shutdown, "the controller stops"),
        };
        for connection in self.control.connections.all() {
            connection.peer.close(code, text);
        }
        let stopped = tokio::time::timeout(STOP_WITHIN, self.root.shutdown()).await;
        if stopped.is_err() {
            tracing::warn!("actors did not end in time");
        }
    }
}

/// Ties cluster time to this machine's clocks, by a committed fact.
///
/// One that followed another primary goes on from what it heard of that, so that no two machines'
/// clocks are ever compared.
async fn anchor(node: &Node, house: &House, has_followed: bool) -> Result<Anchor, StartError> {
    let here = here(node, &house.boot_id);
    let view = house.reader.view();
    let at = if has_followed {
        let ago = house.touched.heard_ago().as_millis();
        view.clock()
            .last
            .after(Millis(u64::try_from(ago).unwrap_or(0)))
    } else {
        view.clock().resume(&here)
    };
    let fact = ClockFact::Anchored {
        boot_id: here.boot_id.clone(),
        boot_ms: here.boot_ms,
        wall: here.wall,
    };
    let group = Group::new(at, here.wall, "start").with(fact);
    house
        .wal
        .persist(group.encode())
        .await
        .map_err(StartError::FirstWrite)?;
    Ok(Anchor {
        at,
        boot_id: here.boot_id,
        boot_ms: here.boot_ms,
        wall: here.wall,
    })
}

fn control(
    root: &Root,
    house: &House,
    node: Arc<Node>,
    anchor: Anchor,
    term: u64,
) -> Result<Arc<Control>, StartError> {
    let above = root.supervisor();
    Ok(Arc::new(Control {
        services: Shards::new(above, "service", Policy::ENTITY)?,
        jobs: Shards::new(above, "job", Policy::ENTITY)?,
        hosts: Shards::new(above, "host", Policy::ENTITY)?,
        endpoints: Shards::new(above, "endpoints", Policy::ENTITY)?,
        session_family: Shards::new(above, "session", Policy::TEMPORARY)?,
        settings: house.settings.clone(),
        node,
        wal: house.wal.clone(),
        reader: house.reader.clone(),
        anchor,
        term,
        published: house.published.clone(),
        connections: Connections::default(),
        doubts: Doubts::default(),
        sessions: Sessions::of_reign(house.reader.lsn()),
        readers: Readers::default(),
        known: Known::default(),
        certificate_ends_s: house.certificate_ends_s,
        refusals: Arc::clone(&house.refusals),
        scheduler: OnceLock::new(),
        scheduler_told: AtomicBool::new(false),
        barrier: Barrier::default(),
        scheduling: Scheduling::default(),
    }))
}

fn start_actors(
    root: &Root,
    control: &Arc<Control>,
    touched: &Arc<Touched>,
) -> Result<(), StartError> {
    let above = root.supervisor();
    let log = log::Log {
        control: Arc::clone(control),
    };
    above.spawn(log::key(), None, log, Policy::WAL)?;
    let address = match control.settings.scheduler_grace {
        None => {
            let plans = scheduler::embedded::Scheduler {
                control: Arc::clone(control),
            };
            above.spawn(scheduler::key(), None, plans, Policy::ENTITY)?
        }
        Some(grace) => {
            let daemon = scheduler::daemon::Daemon {
                control: Arc::clone(control),
                grace,
            };
            above.spawn(scheduler::key(), None, daemon, Policy::ENTITY)?
        }
    };
    // Set once: this function runs once a reign.
    drop(control.scheduler.set(address));
    let publisher = Publisher {
        control: Arc::clone(control),
        touched: Arc::clone(touched),
    };
    above.spawn(publisher::key(), None, publisher, Policy::ENTITY)?;
    let janitor = janitor::Janitor {
        control: Arc::clone(control),
    };
    above.spawn(janitor::key(), None, janitor, Policy::ENTITY)?;
    Ok(())
}

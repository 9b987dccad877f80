//! The actor of a host: a worker's link, beats, facts and orders; silence and loss.

use std::collections::VecDeque;

use xce_controller::{orders, reports};
use xce_deciding::host as deciding;
use xce_deciding::reading::jobs_on;
use xce_host::rules::{Command, MASS_LOSS_PERCENT, Verdict, next_judgement};
use xce_host::wire::{Beat, BeatAck};
use xce_host::{HostFact, HostLife};
use xce_ledger::{Fact, Group, GroupEvent, Joining, Outcome, View};
use xce_model::{JobId, Millis};
use xce_replica::wire::{Order, Orders, Reports, ReportsCommitted};

use super::service::USER;
use super::{ActorKey, Life};
use crate::deciding::group;
use crate::log::Proposal;
use crate::network::{ToController, ToWorker};
use crate::seats::Planted;
use crate::world::World;

/// Least time between two judgements. Source: as in the shell.
const JUDGE_PAUSE: u64 = 100;
/// How often a decision is made again. Source: as in the shell.
const DECISIONS_MAX: u32 = 16;

/// What it is told.
#[derive(Debug, Clone)]
pub enum Message {
    Connected(u64),
    Beat(Beat),
    Reports(Reports),
    Leaving,
    Order(Vec<JobId>),
    Due,
    /// Close or reopen, by an operator.
    Operator(Command),
}

#[derive(Debug, Default)]
enum Doing {
    #[default]
    Nothing,
    Joining(u64, u32),
    Beating(Beat),
    Taking(Reports, u32),
    Leaving,
    Judging,
    Operating,
}

#[derive(Debug, Default)]
pub struct HostActor {
    pub life: Life,
    inbox: VecDeque<Message>,
    doing: Doing,
    link: Option<u64>,
    heard: u64,
}

impl HostActor {
    pub fn new(life: Life) -> Self {
        Self {
            life,
            ..Self::default()
        }
    }

    pub fn forget(&mut self) {
        self.inbox.clear();
        self.doing = Doing::Nothing;
        self.link = None;
    }
}

impl World {
    fn host_actor(&mut self, place: usize) -> Option<&mut HostActor> {
        self.controller.hosts.get_mut(&place)
    }

    fn host_name(&self, place: usize) -> String {
        self.machines[place].name.to_string()
    }

    fn host_tell(&mut self, place: usize, message: Message) {
        if let Some(host) = self.host_actor(place)
            && host.life.up
        {
            host.inbox.push_back(message);
        }
        self.wake(&ActorKey::Host(place));
    }

    /// A host gets one fresh grace, and goes on with the link that its predecessor had.
    pub fn host_recovers(&mut self, place: usize) {
        let now = self.mono();
        let (links, seat) = (self.links.all.iter().rev(), self.seat);
        let open = links
            .filter(|(_, link)| link.place == place && link.controller_open && link.seat == seat)
            .find(|(_, link)| link.inventory.is_some())
            .map(|(id, _)| *id);
        if let Some(host) = self.host_actor(place) {
            host.heard = now;
            host.inbox.extend(open.map(Message::Connected));
        }
        self.judge_later(place);
    }

    pub fn order_host(&mut self, place: usize, jobs: Vec<JobId>) {
        self.host_tell(place, Message::Order(jobs));
    }

    pub fn operate_host(&mut self, place: usize, command: Command) {
        self.host_tell(place, Message::Operator(command));
    }

    pub fn host_due(&mut self, place: usize) {
        self.host_tell(place, Message::Due);
    }

    pub fn controller_hears(&mut self, link: u64, place: usize, message: ToController) {
        if !self.controller.up {
            return self.refuse_at_door(link);
        }
        let message = match message {
            ToController::Join(_) => {
                let name = self.host_name(place);
                self.ensure_host(&name);
                Message::Connected(link)
            }
            ToController::Beat(beat) => Message::Beat(beat),
            ToController::Reports(reports) => Message::Reports(reports),
            ToController::Leaving => Message::Leaving,
        };
        self.host_tell(place, message);
    }

    pub fn host_acts(&mut self, place: usize) {
        let Some(host) = self.host_actor(place) else {
            return;
        };
        match std::mem::take(&mut host.doing) {
            // A write that was refused is decided again.
            Doing::Joining(link, tries) => self.join(place, link, tries),
            Doing::Taking(batch, tries) => self.take_reports(place, batch, tries),
            Doing::Nothing
            | Doing::Beating(_)
            | Doing::Leaving
            | Doing::Judging
            | Doing::Operating => {
                let Some(message) = self.host_actor(place).and_then(|h| h.inbox.pop_front()) else {
                    return;
                };
                self.host_handles(place, message);
                self.wake(&ActorKey::Host(place));
            }
        }
    }

    fn host_handles(&mut self, place: usize, message: Message) {
        let now = self.mono();
        match message {
            Message::Connected(link) => self.join(place, link, 0),
            Message::Beat(beat) => self.host_beat(place, beat),
            Message::Reports(batch) => {
                if let Some(host) = self.host_actor(place) {
                    host.heard = now;
                }
                self.take_reports(place, batch, 0);
            }
            Message::Leaving => {
                let view = self.view();
                let host = self.host_name(place);
                if let Some(decided) = deciding::left(&view, &host) {
                    let event = GroupEvent::HostLeft { host };
                    let group = group("leave", (&view, self.times()), event, decided);
                    self.host_proposes(place, group, Doing::Leaving);
                }
            }
            Message::Order(jobs) => self.host_orders(place, &jobs),
            Message::Due => self.judge(place),
            Message::Operator(command) => {
                let view = self.view();
                let host = self.host_name(place);
                let decided = deciding::command(&view, &host, &command, USER, self.times());
                if let Ok((step, _)) = decided {
                    if step.more {
                        self.operate_host(place, command.clone());
                    }
                    let command = Box::new(command);
                    let event = GroupEvent::HostCommand { host, command };
                    let group = group("host command", (&view, self.times()), event, step.decided);
                    let group = group.on_behalf(USER, None);
                    self.host_proposes(place, group, Doing::Operating);
                }
            }
        }
    }

    fn host_proposes(&mut self, place: usize, group: Group, doing: Doing) {
        if let Some(host) = self.host_actor(place) {
            host.doing = doing;
        }
        self.propose(&ActorKey::Host(place), group);
    }

    fn host_beat(&mut self, place: usize, beat: Beat) {
        let now = self.mono();
        let view = self.view();
        let name = self.host_name(place);
        let Some(host) = self.host_actor(place) else {
            return;
        };
        host.heard = now;
        let Some(record) = view.host(&name) else {
            return;
        };
        match record.life {
            HostLife::Away => return,
            HostLife::Lost => {
                if let Some(link) = host.link {
                    self.close_by_controller(link);
                }
                return;
            }
            HostLife::Up | HostLife::Suspect => {}
        }
        match deciding::beat(&view, &name, beat.disk_full, self.times()) {
            Some(decided) => {
                let event = GroupEvent::HostBeat {
                    host: name,
                    disk_full: beat.disk_full,
                };
                let group = group("recovered", (&view, self.times()), event, decided);
                self.host_proposes(place, group, Doing::Beating(beat));
            }
            None => self.acknowledge(place, &beat),
        }
    }

    fn acknowledge(&mut self, place: usize, beat: &Beat) {
        if !self.holds_lease() && !self.is_planted(Planted::NoLease) {
            // Another controller may be the primary by now: what it holds this host for counts.
            return self.meet("a beat that was not acknowledged without a lease");
        }
        let ack = BeatAck {
            lease: xce_model::Millis(0),
            number: beat.number,
            term: self.order_term(),
            lsn: self.view().lsn(),
        };
        self.tell_worker(place, ToWorker::BeatAck(ack));
        self.judge_later(place);
    }

    fn tell_worker(&mut self, place: usize, message: ToWorker) {
        if let Some(link) = self.host_actor(place).and_then(|host| host.link) {
            self.send_down(link, message);
        }
    }

    fn host_orders(&mut self, place: usize, jobs: &[JobId]) {
        let view = self.view();
        let name = self.host_name(place);
        let wanted: Vec<Order> = jobs
            .iter()
            .filter_map(|id| view.job(*id))
            .filter(|job| job.host.as_deref() == Some(name.as_str()))
            .flat_map(|job| orders::all(&view, job, false))
            .collect();
        if !wanted.is_empty() {
            self.send_orders(place, false, wanted, view.lsn());
        }
    }

    fn send_orders(&mut self, place: usize, complete: bool, orders: Vec<Order>, lsn: u64) {
        let orders = Orders {
            term: self.order_term(),
            lsn,
            complete,
            orders,
        };
        self.tell_worker(place, ToWorker::Orders(Box::new(orders)));
    }

    fn judge(&mut self, place: usize) {
        let view = self.view();
        let host = self.host_name(place);
        let (now, patience) = (self.mono(), self.settings.patience);
        if !self.holds_lease() {
            return self.arm(&ActorKey::Host(place), Some(now + patience.beat.0));
        }
        let Some(actor) = self.host_actor(place) else {
            return;
        };
        let silent = Millis(now.saturating_sub(actor.heard));
        let lost = deciding::is_loss(&view, &host, silent, patience, self.times().0);
        if lost && let Some(wait) = self.put_off(&host, &view) {
            return self.arm(&ActorKey::Host(place), Some(now + wait.0));
        }
        let Some(step) = deciding::silence(&view, &host, silent, patience, self.times()) else {
            return self.judge_later(place);
        };
        let event = GroupEvent::HostSilent {
            host,
            silent,
            patience: Box::new(patience),
        };
        if lost {
            self.meet("a host that was lost");
        }
        let group = group("silent", (&view, self.times()), event, step.decided);
        self.host_proposes(place, group, Doing::Judging);
    }

    /// How long this loss is put off, where it is.
    fn put_off(&mut self, host: &str, view: &View) -> Option<Millis> {
        if view.host(host)?.life == HostLife::Away {
            return None;
        }
        let (now, patience) = (self.times().0, self.settings.patience);
        let around = deciding::around(view, patience, now);
        let doubts = &mut self.controller.doubts;
        match doubts.judge(around, now, patience, MASS_LOSS_PERCENT) {
            Verdict::Declare => None,
            Verdict::Wait(until) => {
                self.meet("a doubt of the own network");
                Some(until.since(now))
            }
        }
    }

    fn judge_later(&mut self, place: usize) {
        let view = self.view();
        let name = self.host_name(place);
        let (now, patience) = (self.mono(), self.settings.patience);
        let times = self.times();
        let Some(host) = self.host_actor(place) else {
            return;
        };
        let silent = Millis(now.saturating_sub(host.heard));
        let wait = view
            .host(&name)
            .and_then(|record| next_judgement(record, silent, patience, times.0));
        let at = wait.map(|wait| now + wait.0.max(JUDGE_PAUSE));
        self.arm(&ActorKey::Host(place), at);
    }

    fn take_reports(&mut self, place: usize, batch: Reports, tries: u32) {
        let view = self.view();
        let name = self.host_name(place);
        let Some(link) = self.host_actor(place).and_then(|host| host.link) else {
            return;
        };
        let incarnation = match self.links.all.get(&link).and_then(|l| l.inventory.as_ref()) {
            Some(inventory) => inventory.incarnation,
            None => return,
        };
        if tries >= DECISIONS_MAX || reports::misses(&view, &name, &batch) {
            return self.close_by_controller(link);
        }
        let now = self.times().0;
        let Some(decided) = reports::decide(&view, &name, &batch, incarnation, now) else {
            return;
        };
        if decided.stale > 0 {
            self.meet("a report of a stale run");
        }
        if decided.facts.is_empty() {
            return self.reports_taken(place, &batch);
        }
        self.check_reports(&view, &batch.reports, &decided.facts);
        let mut group = self.group("reports");
        group.decided = view.lsn();
        group.preconditions = decided.conditions;
        group.facts = decided.facts;
        if self.is_planted(Planted::MarkApart) {
            self.mark_apart(&mut group);
        }
        if let Some(host) = self.host_actor(place) {
            host.doing = Doing::Taking(batch, tries + 1);
        }
        self.propose(&ActorKey::Host(place), group);
    }

    /// The fault of committing how far facts are apart from the facts.
    fn mark_apart(&mut self, group: &mut Group) {
        let is_mark = |fact: &Fact| matches!(fact, Fact::Host(HostFact::Marked { .. }));
        let mut mark = self.group("mark");
        (mark.facts, group.facts) = group.facts.drain(..).partition(is_mark);
        group.preconditions.clear();
        let group = mark;
        self.enqueue(Proposal { group, from: None });
    }

    fn reports_taken(&mut self, place: usize, batch: &Reports) {
        let Some(last) = batch.reports.last() else {
            return;
        };
        let mark = ReportsCommitted {
            epoch: batch.epoch,
            sequence: last.sequence,
        };
        self.tell_worker(place, ToWorker::Committed(mark));
    }

    fn join(&mut self, place: usize, link: u64, tries: u32) {
        let view = self.view();
        let open = self.links.all.get(&link).filter(|l| l.controller_open);
        let open = open.and_then(|link| {
            Some((
                link.inventory.clone()?,
                link.runs.clone(),
                (link.epoch, link.committed),
            ))
        });
        let Some((inventory, runs, spool)) = open else {
            return;
        };
        let runs = deciding::uncounted(&view, &inventory.name, &runs);
        if tries >= DECISIONS_MAX {
            self.send_down(link, ToWorker::Refused);
            return;
        }
        let joining = Joining {
            inventory,
            connected: None,
            runs,
            spool,
        };
        match deciding::join(&view, &joining, self.times()) {
            Err(_) => self.send_down(link, ToWorker::Refused),
            Ok(None) => self.joined(place, link),
            Ok(Some(step)) => {
                let event = GroupEvent::HostJoined(Box::new(joining));
                let group = group("join", (&view, self.times()), event, step.decided);
                self.host_proposes(place, group, Doing::Joining(link, tries + 1));
            }
        }
    }

    fn joined(&mut self, place: usize, link: u64) {
        let (now, name) = (self.mono(), self.host_name(place));
        let Some(epoch) = self.links.all.get(&link).map(|link| link.epoch) else {
            return;
        };
        let Some(host) = self.host_actor(place) else {
            return;
        };
        let earlier = host.link.replace(link);
        host.heard = now;
        if let Some(earlier) = earlier.filter(|earlier| *earlier != link) {
            self.close_by_controller(earlier);
        }
        let view = self.view();
        let Some(record) = view.host(&name) else {
            return;
        };
        let sequence = if record.epoch == epoch {
            record.sequence
        } else {
            0
        };
        let mark = ReportsCommitted { epoch, sequence };
        self.tell_worker(place, ToWorker::Joined(mark));
        let wanted = jobs_on(&view, &name)
            .flat_map(|job| orders::all(&view, job, true))
            .collect();
        self.send_orders(place, true, wanted, view.lsn());
        self.judge_later(place);
    }

    /// What it decided was certainly not written.
    pub fn host_not_written(&mut self, place: usize) {
        let Some(host) = self.host_actor(place) else {
            return;
        };
        match std::mem::take(&mut host.doing) {
            Doing::Nothing | Doing::Operating | Doing::Leaving => {}
            Doing::Joining(link, _) => self.send_down(link, ToWorker::Refused),
            Doing::Taking(..) => {
                // The worker keeps them and sends them again when it has joined again.
                if let Some(link) = self.host_actor(place).and_then(|host| host.link) {
                    self.close_by_controller(link);
                }
            }
            Doing::Beating(beat) => self.acknowledge(place, &beat),
            Doing::Judging => self.judge_later(place),
        }
    }

    pub fn host_committed(&mut self, place: usize, outcome: &Outcome) {
        let now = self.mono();
        let Some(host) = self.host_actor(place) else {
            return;
        };
        let stale = matches!(outcome, Outcome::Refused(_));
        match std::mem::take(&mut host.doing) {
            Doing::Nothing | Doing::Operating => {}
            // Acting again decides again.
            doing @ (Doing::Joining(..) | Doing::Taking(..)) if stale => host.doing = doing,
            Doing::Joining(link, _) => self.joined(place, link),
            Doing::Taking(batch, _) => self.reports_taken(place, &batch),
            Doing::Beating(beat) => self.acknowledge(place, &beat),
            Doing::Leaving => {
                host.heard = now;
                self.judge_later(place);
            }
            Doing::Judging => self.judge_later(place),
        }
    }
}

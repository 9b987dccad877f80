//! Committed state of a service.

mod events;
mod read;
mod rollout;
mod version;

pub use events::{EVENTS_MAX, ServiceEvent};
pub use rollout::{Pause, Phase, Rollout};
pub use version::{Backoff, FIRST_DISPATCH, LastFailure, Outcome, STEP_TIMES_MAX, VersionRecord};

use std::sync::Arc;

use xce_model::origins::stamped;
use xce_model::spec::{JobSpec, ServiceSettings, ServiceSpec, Template};
use xce_model::{ClusterTime, Lsn, Millis, Origin, ServiceId, Version, WallTime};

use crate::facts::{ServiceFact, TargetReason, Times, VersionReason};

/// A service as committed.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct ServiceRecord {
    /// Identity, unique for ever.
    pub id: ServiceId,
    /// Name, unique within the project.
    pub name: String,
    /// Project.
    pub project: String,
    /// Login name of who created it.
    pub owner: String,
    /// Application profile.
    pub profile: String,
    /// Desired count.
    pub desired: u32,
    /// Whether an operator set `desired` apart from the service file.
    pub scaled_by_operator: bool,
    /// Settings that make no version.
    pub settings: ServiceSettings,
    /// Where values of the settings came from that are not built in.
    pub settings_origins: Vec<Origin>,
    /// Number of the settings, from 1.
    pub settings_generation: u32,
    /// Versions kept, numbers rising; the last one is the current one.
    pub versions: Vec<VersionRecord>,
    /// The current rollout, or the last.
    pub rollout: Rollout,
    /// Whether the mix of versions is frozen.
    pub paused: Option<Pause>,
    /// Since when fewer than desired are available.
    pub short_since: Option<ClusterTime>,
    /// Since when it is to end.
    pub deleting_since: Option<ClusterTime>,
    /// Ends of replicas up to this position are accounted for.
    pub accounted: Lsn,
    /// Last events, oldest first, at most [`EVENTS_MAX`].
    pub events: Vec<ServiceEvent>,
    /// When it was created, by the controller's wall clock.
    pub created: WallTime,
    /// Position of its last change.
    pub changed: Lsn,
}

impl ServiceRecord {
    /// A service as it begins: version 1 rolls out. A count that is absent is 1.
    pub fn created(
        id: ServiceId,
        spec: &ServiceSpec,
        lsn: Lsn,
        now: ClusterTime,
        wall: WallTime,
        author: &str,
    ) -> Self {
        let mut record = Self {
            id,
            name: spec.name.clone(),
            project: spec.project.clone(),
            owner: author.to_owned(),
            profile: spec.profile.clone(),
            desired: spec.replicas.unwrap_or(1),
            scaled_by_operator: false,
            settings: spec.settings.clone(),
            settings_origins: stamped(&spec.origins, 1),
            settings_generation: 1,
            versions: Vec::new(),
            rollout: Rollout::begin(1, 0, now),
            paused: None,
            short_since: None,
            deleting_since: None,
            accounted: lsn,
            events: Vec::new(),
            created: wall,
            changed: lsn,
        };
        let text = format!("created by {author} with {} replicas", record.desired);
        record.note(("created", text), now, lsn, wall);
        record.add_version(
            (1, VersionReason::Create, author),
            (&spec.queue, &spec.template, &stamped(&spec.origins, 1)),
            now,
            wall,
        );
        record
    }

    /// Applies a fact of this service. Creation and removal are the ledger's.
    pub fn apply(&mut self, fact: &ServiceFact, now: ClusterTime, lsn: Lsn, wall: WallTime) {
        self.changed = lsn;
        if let Some(event) = events::describe(fact) {
            self.note(event, now, lsn, wall);
        }
        match fact {
            ServiceFact::Created { .. }
            | ServiceFact::Deleted { .. }
            | ServiceFact::KillRequested { .. } => {}
            ServiceFact::Scaled {
                desired,
                by_operator,
                ..
            } => {
                self.desired = *desired;
                self.scaled_by_operator = *by_operator;
            }
            ServiceFact::Versioned {
                number,
                queue,
                template,
                origins,
                reason,
                author,
                ..
            } => {
                let making = (&**queue, &**template, &**origins);
                self.add_version((*number, *reason, author), making, now, wall);
            }
            ServiceFact::SettingsChanged {
                settings,
                origins,
                profile,
                ..
            } => self.set_settings(settings, origins, profile),
            ServiceFact::Targeted {
                version, want, why, ..
            } => self.target(*version, *want, *why),
            ServiceFact::VersionFailed { version, .. }
            | ServiceFact::RetryBegan { version, .. }
            | ServiceFact::BackoffReset { version, .. }
            | ServiceFact::VersionProved { version, .. }
            | ServiceFact::DispatchLimited { version, .. }
            | ServiceFact::VersionTimed { version, .. } => {
                if let ServiceFact::VersionFailed { failure, .. } = fact {
                    self.accounted = self.accounted.max(failure.seen);
                }
                self.with_version(*version, |record| record.apply(fact, now));
            }
            ServiceFact::ReplicasLost {
                version,
                count,
                seen,
                ..
            } => self.lose(*version, *count, *seen),
            ServiceFact::ReplicasKilled { seen, .. } => {
                self.accounted = self.accounted.max(*seen);
            }
            ServiceFact::FellShort { .. } => self.short_since = Some(now),
            ServiceFact::BecameFull { .. } => self.short_since = None,
            ServiceFact::RolloutProgressed { .. }
            | ServiceFact::RolloutCompleted { .. }
            | ServiceFact::RolloutStuck { .. }
            | ServiceFact::RolloutPaused { .. }
            | ServiceFact::RolloutResumed { .. } => self.apply_rollout(fact, now),
            ServiceFact::DeadlineExtended { left, .. } => self.extend_deadline(*left, now),
            ServiceFact::DeletionRequested { .. } => self.deleting_since = Some(now),
        }
    }

    fn set_settings(&mut self, settings: &ServiceSettings, origins: &[Origin], profile: &str) {
        self.settings = settings.clone();
        self.settings_origins = origins.to_vec();
        profile.clone_into(&mut self.profile);
        self.settings_generation += 1;
    }

    fn apply_rollout(&mut self, fact: &ServiceFact, now: ClusterTime) {
        match fact {
            ServiceFact::RolloutProgressed {
                available,
                old_live,
                ..
            } => {
                self.rollout.available_mark = *available;
                self.rollout.old_mark = *old_live;
                self.restart_clock(now);
                self.leave_stuck();
            }
            ServiceFact::RolloutCompleted {
                version, untested, ..
            } => {
                self.rollout.phase = Phase::Complete;
                let outcome = if *untested {
                    Outcome::Untested
                } else {
                    Outcome::Completed
                };
                self.with_version(*version, |record| record.outcome = outcome);
                self.prune();
            }
            ServiceFact::RolloutStuck {
                version, reason, ..
            } => {
                self.rollout.phase = Phase::Stuck {
                    reason: reason.clone(),
                };
                self.with_version(*version, |record| record.outcome = Outcome::Stuck);
            }
            ServiceFact::RolloutPaused { .. } => {
                self.paused = Some(Pause {
                    since: now,
                    elapsed: now.since(self.rollout.clock_from),
                });
            }
            ServiceFact::RolloutResumed { .. } => {
                if let Some(pause) = self.paused.take() {
                    self.rollout.clock_from = ClusterTime(now.0.saturating_sub(pause.elapsed.0));
                }
                if self.rollout.is_stuck() {
                    self.restart_clock(now);
                    self.leave_stuck();
                }
            }
            ServiceFact::Created { .. }
            | ServiceFact::Scaled { .. }
            | ServiceFact::Versioned { .. }
            | ServiceFact::SettingsChanged { .. }
            | ServiceFact::Targeted { .. }
            | ServiceFact::VersionFailed { .. }
            | ServiceFact::ReplicasLost { .. }
            | ServiceFact::KillRequested { .. }
            | ServiceFact::ReplicasKilled { .. }
            | ServiceFact::RetryBegan { .. }
            | ServiceFact::BackoffReset { .. }
            | ServiceFact::VersionProved { .. }
            | ServiceFact::DispatchLimited { .. }
            | ServiceFact::FellShort { .. }
            | ServiceFact::BecameFull { .. }
            | ServiceFact::DeletionRequested { .. }
            | ServiceFact::Deleted { .. }
            | ServiceFact::DeadlineExtended { .. }
            | ServiceFact::VersionTimed { .. } => {}
        }
    }

    /// So much of the deadline is left from now.
    fn extend_deadline(&mut self, left: Millis, now: ClusterTime) {
        let passed = self
            .settings
            .rollout
            .progress_deadline
            .0
            .saturating_sub(left.0);
        self.rollout.clock_from = ClusterTime(now.0.saturating_sub(passed));
    }

    /// The clock of the deadline starts anew; under a pause it will, at its end.
    fn restart_clock(&mut self, now: ClusterTime) {
        self.rollout.clock_from = now;
        if let Some(pause) = &mut self.paused {
            pause.elapsed = Millis(0);
        }
    }

    fn leave_stuck(&mut self) {
        if self.rollout.is_stuck() {
            self.rollout.phase = Phase::Rolling;
            let version = self.rollout.version;
            self.with_version(version, |record| record.outcome = Outcome::Rolling);
        }
    }

    fn add_version(
        &mut self,
        what: (Version, VersionReason, &str),
        spec: (&str, &Template, &[Origin]),
        now: ClusterTime,
        wall: WallTime,
    ) {
        let (number, reason, author) = what;
        let root = match reason.copy_of() {
            Some(copy) => self.version(copy).map_or(number, |record| record.root),
            None => number,
        };
        self.supersede(reason);
        // Replicas of the same making stay and count for the new number.
        let mut want = 0;
        for record in self
            .versions
            .iter_mut()
            .filter(|record| record.root == root)
        {
            want += std::mem::take(&mut record.want);
        }
        let old = self.versions.iter().map(|record| record.want).sum();
        self.versions.push(VersionRecord {
            number,
            root,
            spec: Arc::new(JobSpec {
                name: self.name.clone(),
                project: self.project.clone(),
                queue: spec.0.to_owned(),
                template: spec.1.clone(),
                array: None,
                held: false,
                rerunnable: false,
            }),
            origins: spec.2.to_vec(),
            author: author.to_owned(),
            time: wall,
            reason,
            outcome: Outcome::Rolling,
            want,
            dispatch_limit: Some(FIRST_DISPATCH),
            limit_since: now,
            proved: false,
            backoff: Backoff::default(),
            times: Times::default(),
        });
        self.rollout = Rollout::begin(number, old, now);
        if let Some(pause) = &mut self.paused {
            pause.elapsed = Millis(0);
        }
        self.prune();
    }

    /// Decides what became of the version that is current until now.
    fn supersede(&mut self, reason: VersionReason) {
        let rollback = reason.copy_of().is_some();
        if let Some(record) = self.versions.last_mut() {
            record.outcome = match record.outcome {
                Outcome::Rolling | Outcome::Stuck if rollback => Outcome::RolledBack,
                Outcome::Rolling => Outcome::Superseded,
                Outcome::Completed
                | Outcome::Untested
                | Outcome::Superseded
                | Outcome::Stuck
                | Outcome::RolledBack => record.outcome,
            };
        }
    }

    fn target(&mut self, version: Version, want: u32, why: TargetReason) {
        self.with_version(version, |record| record.want = want);
        if why != TargetReason::Scale {
            return;
        }
        // Scaling is no progress: the marks follow it at once, so that nothing it causes is.
        let current = self.current_root();
        let sum = |same: bool| -> u32 {
            self.versions
                .iter()
                .filter(|record| (record.root == current) == same)
                .map(|record| record.want)
                .sum()
        };
        let (new, old) = (sum(true), sum(false));
        self.rollout.available_mark = self.rollout.available_mark.min(new);
        self.rollout.old_mark = self.rollout.old_mark.min(old);
    }

    fn lose(&mut self, version: Version, count: u32, seen: Lsn) {
        self.accounted = self.accounted.max(seen);
        let mark = if self.root_of(version) == self.current_root() {
            &mut self.rollout.available_mark
        } else {
            &mut self.rollout.old_mark
        };
        *mark = mark.saturating_sub(count);
    }

    fn with_version(&mut self, number: Version, change: impl FnOnce(&mut VersionRecord)) {
        if let Ok(place) = self.place_of(number) {
            change(&mut self.versions[place]);
        }
    }

    fn place_of(&self, number: Version) -> Result<usize, usize> {
        self.versions
            .binary_search_by_key(&number, |record| record.number)
    }

    fn note(&mut self, event: (&'static str, String), now: ClusterTime, lsn: Lsn, wall: WallTime) {
        if self.events.len() >= EVENTS_MAX {
            self.events.remove(0);
        }
        self.events.push(ServiceEvent {
            time: wall,
            at: now,
            lsn,
            kind: event.0.to_owned(),
            text: event.1,
        });
    }

    /// Drops the oldest versions beyond the limit of the history that nothing needs any more.
    fn prune(&mut self) {
        let limit = usize::try_from(self.settings.rollout.history_limit.max(1)).unwrap_or(1);
        let completed = self.last_completed().map(|record| record.number);
        let current = self.current_root();
        while self.versions.len() > limit {
            let last = self.versions.len() - 1;
            // Replicas keep the number of the version that they were submitted as: one that another
            // of its making stands for is needed as long as that one wants any.
            let idle = self.versions[..last].iter().position(|record| {
                self.want(record.root) == 0
                    && record.root != current
                    && Some(record.number) != completed
            });
            match idle {
                Some(place) => drop(self.versions.remove(place)),
                None => return,
            }
        }
    }
}

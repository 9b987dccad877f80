//! Reading the committed state of a service, and what must hold of it.

use xce_model::spec::ServiceSpec;
use xce_model::{Origin, Version};

use super::{EVENTS_MAX, Outcome, ServiceRecord, VersionRecord};

impl ServiceRecord {
    /// The specification that the service has now: version, settings and count, with their sources.
    pub fn resolved(&self) -> ServiceSpec {
        let version = self.current();
        let of_settings = |origin: &&Origin| is_setting(&origin.path);
        let settings = self.settings_origins.iter().filter(of_settings);
        let template = version.origins.iter();
        let origins = template.filter(|origin| !is_setting(&origin.path));
        ServiceSpec {
            name: self.name.clone(),
            project: self.project.clone(),
            queue: version.spec.queue.clone(),
            profile: self.profile.clone(),
            replicas: Some(self.desired),
            template: version.spec.template.clone(),
            settings: self.settings.clone(),
            origins: origins.chain(settings).cloned().collect(),
        }
    }

    /// The current version: the last one made.
    ///
    /// # Panics
    /// Never: a service has a version from its creation on, and the last one is not dropped.
    pub fn current(&self) -> &VersionRecord {
        self.versions
            .last()
            .expect("a service has at least one version")
    }

    /// A version by its number, while it is kept.
    pub fn version(&self, number: Version) -> Option<&VersionRecord> {
        self.place_of(number)
            .ok()
            .map(|place| &self.versions[place])
    }

    /// First version of the same making; a version that is kept no longer stands for itself.
    pub fn root_of(&self, number: Version) -> Version {
        self.version(number).map_or(number, |record| record.root)
    }

    /// First version of the same making as the current one.
    pub fn current_root(&self) -> Version {
        self.versions.last().map_or(1, |record| record.root)
    }

    /// The version that stands for all of one making: the last one of it that is kept.
    pub fn leader(&self, root: Version) -> Option<&VersionRecord> {
        self.versions
            .iter()
            .rev()
            .find(|record| record.root == root)
    }

    /// Whether a version stands for all of its making.
    pub fn leads(&self, version: &VersionRecord) -> bool {
        self.leader(version.root)
            .is_some_and(|leader| leader.number == version.number)
    }

    /// Wanted count of one making.
    pub fn want(&self, root: Version) -> u32 {
        self.leader(root).map_or(0, |record| record.want)
    }

    /// The last version that was completed and tested.
    pub fn last_completed(&self) -> Option<&VersionRecord> {
        self.versions
            .iter()
            .rev()
            .find(|record| record.outcome == Outcome::Completed)
    }

    /// The last completed and tested version of another making than the current one.
    pub fn last_completed_other(&self) -> Option<&VersionRecord> {
        let current = self.current_root();
        self.versions
            .iter()
            .rev()
            .find(|record| record.outcome == Outcome::Completed && record.root != current)
    }

    /// Most replicas of a version that may be dispatched now, of those that are not stopping; none
    /// when there is no limit.
    pub fn dispatch_limit(&self, version: Version) -> Option<u32> {
        match self.leader(self.root_of(version)) {
            Some(record) => record.dispatch_limit_now(),
            None => Some(0),
        }
    }

    /// Whether it is to end.
    pub fn is_deleting(&self) -> bool {
        self.deleting_since.is_some()
    }

    /// Checks what must hold of any service; the text names what does not.
    ///
    /// # Errors
    /// One sentence about the first invariant that is broken.
    pub fn check(&self) -> Result<(), String> {
        let name = format!("service {} ({})", self.id, self.name);
        if self.versions.is_empty() {
            return Err(format!("{name} has no version"));
        }
        if !self.versions.is_sorted_by(|a, b| a.number < b.number) {
            return Err(format!("versions of {name} do not rise"));
        }
        if self.rollout.version != self.current().number {
            return Err(format!(
                "{name} rolls out version {} but its current one is {}",
                self.rollout.version,
                self.current().number
            ));
        }
        let twice = self.versions.iter().find(|record| {
            let leads = self
                .leader(record.root)
                .is_some_and(|leader| leader.number == record.number);
            record.want > 0 && !leads
        });
        if let Some(record) = twice {
            return Err(format!(
                "{name} wants replicas of version {} which another stands for",
                record.number
            ));
        }
        if !self.rollout.is_active()
            && self
                .versions
                .iter()
                .any(|record| record.want > 0 && record.root != self.current_root())
        {
            return Err(format!("{name} is complete and wants old replicas"));
        }
        if self.events.len() > EVENTS_MAX {
            return Err(format!("{name} keeps too many events"));
        }
        Ok(())
    }
}

/// Whether a value belongs to the settings or the service itself rather than to a version.
fn is_setting(path: &str) -> bool {
    let head = path.split('.').next().unwrap_or_default();
    let names = [
        "name",
        "project",
        "profile",
        "replicas",
        "spread",
        "rollout",
        "replacement",
        "labels",
    ];
    names.contains(&head)
}

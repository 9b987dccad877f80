//! Requests that only the controller can resolve, since it alone knows profiles, projects and
//! queues; and what is asked about those.

use xce_model::spec::{JobSpec, ServiceSpec};
use xce_profile::document::{JobFile, ServiceFile};
use xce_profile::{PolicyKind, RunAs, unfold};

/// A service as somebody asks for it: a partial document, to be merged where the layers are known.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct ServiceRequest {
    /// Canonical JSON of a [`ServiceFile`].
    pub document: String,
    /// Name of the service; wins over the document's.
    pub name: String,
    /// Project of the service; wins over the document's.
    pub project: String,
    /// The user that the document names, or the caller, with the environment of a login.
    pub run_as: RunAs,
}

/// A batch job as somebody asks for it.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct JobRequest {
    /// Canonical JSON of a [`JobFile`].
    pub document: String,
    /// Project of the job; wins over the document's.
    pub project: String,
    /// The caller, with what of its environment is passed on, and where it is.
    pub run_as: RunAs,
}

impl ServiceRequest {
    /// A request of a partial document.
    ///
    /// # Panics
    /// Never: a document has texts as keys.
    pub fn of(file: &ServiceFile, name: &str, project: &str, run_as: RunAs) -> Self {
        Self {
            document: serde_json::to_string(file).expect("a document has texts as keys"),
            name: name.to_owned(),
            project: project.to_owned(),
            run_as,
        }
    }

    /// A request that gives every value itself.
    pub fn whole(spec: &ServiceSpec) -> Self {
        let run_as = RunAs {
            user: spec.template.user.clone(),
            env: Vec::new(),
            cwd: None,
        };
        Self::of(&unfold::service(spec), &spec.name, &spec.project, run_as)
    }
}

impl JobRequest {
    /// A request of a partial document.
    ///
    /// # Panics
    /// Never: a document has texts as keys.
    pub fn of(file: &JobFile, project: &str, run_as: RunAs) -> Self {
        Self {
            document: serde_json::to_string(file).expect("a document has texts as keys"),
            project: project.to_owned(),
            run_as,
        }
    }

    /// A request that gives every value itself.
    pub fn whole(spec: &JobSpec) -> Self {
        let run_as = RunAs {
            user: spec.template.user.clone(),
            env: Vec::new(),
            cwd: None,
        };
        Self::of(&unfold::job(spec), &spec.project, run_as)
    }
}

/// What a client asks about profiles, projects and queues.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum AskPolicy {
    /// Make it, or replace its document.
    Set {
        /// What it is.
        kind: PolicyKind,
        /// Its name; the document's must be the same.
        name: String,
        /// Canonical JSON of a [`PolicyFile`](xce_profile::PolicyFile).
        document: String,
        /// Whether it must be there already; else it must not be.
        update: bool,
    },
    /// One.
    Show {
        /// What it is.
        kind: PolicyKind,
        /// Its name.
        name: String,
    },
    /// All of a kind.
    List(PolicyKind),
    /// Forget it; what was made with it stays as it is.
    Delete {
        /// What it is.
        kind: PolicyKind,
        /// Its name.
        name: String,
    },
}

/// A profile, a project or a queue in machine output.
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
pub struct PolicyView {
    /// What it is.
    pub kind: PolicyKind,
    /// Its name.
    pub name: String,
    /// Whether it exists although nobody made it.
    pub built_in: bool,
    /// Number of its document; 0 while nobody gave one.
    pub generation: u32,
    /// Login name of who last changed it; empty where nobody did.
    pub author: String,
    /// When it was last changed; empty where nobody did.
    pub time: String,
    /// Services that name it now.
    pub services: u32,
    /// Canonical JSON of its document.
    pub document: String,
}

/// One value of a resolved service in machine output.
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
pub struct ResolvedValue {
    /// Dotted name, such as `resources.cpus`.
    pub path: String,
    /// The value as JSON.
    pub value: String,
    /// Where it came from, such as `profile web`.
    pub source: String,
}

//! Documents of profiles, projects and queues: defaults and caps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xce_model::limits::check_name;
use xce_model::{Refusal, RefusalKind};

use crate::caps::CapsFile;
use crate::checks::shown;
use crate::closest;
use crate::defaults;
use crate::document::{JobFile, ServiceFile};
use crate::layers::{self, Between};
use crate::problem::{Problem, refusal};
use crate::request::RunAs;
use crate::resolve::{self, Purpose};

/// What a policy is.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum PolicyKind {
    /// Defaults for services or for batch jobs.
    Profile,
    /// Defaults and caps of a project.
    Project,
    /// Priority and caps of a queue.
    Queue,
}

/// What a profile is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProfileKind {
    /// Services.
    Service,
    /// Batch jobs.
    Batch,
}

/// A profile, a project or a queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyFile {
    /// Name: a-z, 0-9, `.`, `_`, `-`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What it is for, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Of a profile: `service` or `batch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ProfileKind>,
    /// Of a queue: higher goes first. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Defaults for services; of a profile of kind `service` or a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceFile>,
    /// Defaults for batch jobs; of a profile of kind `batch` or a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<JobFile>,
    /// Highest values that are allowed; of a project or a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caps: Option<CapsFile>,
}

/// Longest document in bytes of JSON.
/// Source: derived; a few times the largest environment, and small beside a frame.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// Longest description in bytes. Source: chosen, a few lines.
const DESCRIPTION_BYTES_MAX: usize = 1024;

impl PolicyKind {
    /// Its word in messages and commands.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Project => "project",
            Self::Queue => "queue",
        }
    }

    /// Names that exist although nobody made them.
    pub const fn built_in(self) -> &'static [&'static str] {
        match self {
            Self::Profile => &[defaults::BATCH_PROFILE, defaults::SERVICE_PROFILE],
            Self::Project => &[defaults::PROJECT],
            Self::Queue => &[defaults::QUEUE],
        }
    }
}

impl ProfileKind {
    /// Its word in messages.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Batch => "batch",
        }
    }
}

impl PolicyFile {
    /// A policy that exists although nobody made it: it says nothing but what it is.
    pub fn built_in(kind: PolicyKind, name: &str) -> Option<Self> {
        kind.built_in().contains(&name).then(|| Self {
            name: name.to_owned(),
            kind: match kind {
                PolicyKind::Profile if name == defaults::BATCH_PROFILE => Some(ProfileKind::Batch),
                PolicyKind::Profile => Some(ProfileKind::Service),
                PolicyKind::Project | PolicyKind::Queue => None,
            },
            ..Self::default()
        })
    }

    /// Reads a canonical document.
    ///
    /// # Errors
    /// Names what is unknown or of the wrong kind.
    pub fn parse(json: &str) -> Result<Self, Refusal> {
        read_json(json)
    }

    /// The canonical document.
    pub fn canonical(&self) -> String {
        serde_json::to_string(self).expect("a policy has names as keys")
    }

    /// Checks a policy before it is kept.
    ///
    /// # Errors
    /// Names what does not belong to the kind, or what could never hold.
    pub fn check(&self, kind: PolicyKind) -> Result<(), Refusal> {
        check_name(kind.word(), &self.name)?;
        let mut problems = Vec::new();
        let mut add = |path: &str, text: String| {
            problems.push(Problem {
                path: path.to_owned(),
                text,
            });
        };
        if self
            .description
            .as_ref()
            .is_some_and(|text| text.len() > DESCRIPTION_BYTES_MAX)
        {
            add(
                "description",
                format!("it has more than {DESCRIPTION_BYTES_MAX} bytes"),
            );
        }
        for (path, given, of) in self.parts() {
            if given && !of.contains(&kind) {
                let owners: Vec<&str> = of.iter().map(|kind| kind.word()).collect();
                let text = format!(
                    "a {} has none; it is of a {}",
                    kind.word(),
                    owners.join(" or a ")
                );
                add(path, text);
            }
        }
        if kind == PolicyKind::Profile {
            self.check_profile(&mut add);
        }
        if problems.is_empty() {
            self.check_defaults(kind, &mut problems);
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(refusal(&problems))
    }

    fn parts(&self) -> [(&'static str, bool, &'static [PolicyKind]); 5] {
        use PolicyKind::{Profile, Project, Queue};
        [
            ("kind", self.kind.is_some(), &[Profile]),
            ("priority", self.priority.is_some(), &[Queue]),
            ("service", self.service.is_some(), &[Profile, Project]),
            ("batch", self.batch.is_some(), &[Profile, Project]),
            ("caps", self.caps.is_some(), &[Project, Queue]),
        ]
    }

    fn check_profile(&self, add: &mut impl FnMut(&str, String)) {
        let Some(kind) = self.kind else {
            add(
                "kind",
                "it is missing: `service` or `batch`, what the profile is for".to_owned(),
            );
            return;
        };
        let built_in = Self::built_in(PolicyKind::Profile, &self.name).and_then(|file| file.kind);
        if let Some(own) = built_in.filter(|own| *own != kind) {
            let text = format!(
                "profile `{}` is built in, of kind {}",
                self.name,
                own.word()
            );
            add("kind", text);
        }
        let (other, path) = match kind {
            ProfileKind::Service => (self.batch.is_some(), "batch"),
            ProfileKind::Batch => (self.service.is_some(), "service"),
        };
        if other {
            let text = format!(
                "a profile of kind {} has defaults in [{}] only",
                kind.word(),
                kind.word()
            );
            add(path, text);
        }
    }

    /// The defaults must make sense above the built-in values.
    fn check_defaults(&self, kind: PolicyKind, problems: &mut Vec<Problem>) {
        let nobody = nobody();
        if let Some(service) = &self.service {
            let not_here = [
                ("name", service.name.is_some()),
                ("user", service.user.is_some()),
                ("project", service.project.is_some()),
                (
                    "profile",
                    kind == PolicyKind::Profile && service.profile.is_some(),
                ),
            ];
            refuse("service", kind, &not_here, problems);
            if problems.is_empty() {
                let leaves = layers::service(&nobody, Between::default(), service);
                let made = resolve::service(&leaves, &nobody.user, Purpose::Defaults);
                take("service", made.map(drop), problems);
            }
        }
        if let Some(batch) = &self.batch {
            let not_here = [
                ("name", batch.name.is_some()),
                ("user", batch.user.is_some()),
                ("project", batch.project.is_some()),
                (
                    "profile",
                    kind == PolicyKind::Profile && batch.profile.is_some(),
                ),
            ];
            refuse("batch", kind, &not_here, problems);
            if problems.is_empty() {
                let leaves = layers::job(&nobody, Between::default(), batch);
                let made = resolve::job(&leaves, &nobody.user, Purpose::Defaults);
                take("batch", made.map(drop), problems);
            }
        }
    }
}

fn nobody() -> RunAs {
    RunAs {
        user: xce_model::spec::User {
            name: "nobody".to_owned(),
            uid: 65_534,
            gid: 65_534,
        },
        env: Vec::new(),
        cwd: None,
    }
}

fn refuse(part: &str, kind: PolicyKind, found: &[(&str, bool)], problems: &mut Vec<Problem>) {
    for (name, given) in found {
        if *given {
            problems.push(Problem {
                path: format!("{part}.{name}"),
                text: format!("a {} cannot set it: the request says it", kind.word()),
            });
        }
    }
}

fn take(part: &str, made: Result<(), Vec<Problem>>, problems: &mut Vec<Problem>) {
    let found = made.err().unwrap_or_default();
    problems.extend(found.into_iter().map(|problem| Problem {
        path: format!("{part}.{}", problem.path),
        text: problem.text,
    }));
}

/// Reads a canonical document of any kind.
///
/// # Errors
/// `bad_document` when it is too long, no JSON, or not of the kind.
pub fn read_json<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, Refusal> {
    let bad = |text: String| Refusal::new(RefusalKind::Usage, "bad_document", text);
    if json.len() > DOCUMENT_BYTES_MAX {
        return Err(bad(format!(
            "the document has {} bytes, at most {DOCUMENT_BYTES_MAX} are allowed",
            json.len()
        )));
    }
    serde_json::from_str(json).map_err(|error| bad(format!("the document is not valid: {error}")))
}

/// The refusal of a name that nobody defined.
pub fn unknown(kind: PolicyKind, name: &str, known: &[&str]) -> Refusal {
    let proposal = closest(name, known.iter().copied())
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_default();
    let text = format!(
        "there is no {} `{}`{proposal} (known: {})",
        kind.word(),
        shown(name),
        listed(known)
    );
    let code = match kind {
        PolicyKind::Profile => "unknown_profile",
        PolicyKind::Project => "unknown_project",
        PolicyKind::Queue => "unknown_queue",
    };
    Refusal::new(RefusalKind::NotFound, code, text)
}

fn listed(known: &[&str]) -> String {
    // Source: chosen, what fits a line or two.
    const NAMES_MAX: usize = 20;
    let mut text = known
        .iter()
        .take(NAMES_MAX)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    if known.len() > NAMES_MAX {
        text += &format!(" and {} more", known.len() - NAMES_MAX);
    }
    text
}

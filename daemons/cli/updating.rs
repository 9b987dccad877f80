//! `services update`: a new version from a file, from single values, or from both.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Args, ValueEnum};
use xce_model::limits::REPLICAS_MAX;
use xce_model::spec::OnStuck;
use xce_model::{Bytes, MilliCpu, Millis};
use xce_profile::RunAs;
use xce_profile::document::{PortFile, ReplicaAmount, ResourcesFile, RolloutFile, ServiceFile};
use xce_session::policy_wire::ServiceRequest;
use xce_session::wire::{AskService, ServiceName};

use super::account;
use super::arguments::{ChangeOptions, Global};
use super::failure::Failure;
use super::plan::PlanOption;
use super::services::{name_of, read_file};
use super::source::{FileFormat, SourceFile};

/// A change of a service by a file, by single values, or by both.
#[derive(Debug, Args)]
#[command(after_help = "\
`update FILE` takes over what the file says; `update NAME --cpus 0.5` changes single values of the
current version and keeps the rest; `update NAME FILE` checks that the file is of that service.
Single values beside a file win over it. What is equal already changes nothing.")]
pub struct Update {
    /// Name of the service, or its file alone.
    #[arg(value_name = "NAME|FILE")]
    pub target: String,
    /// Service file in TOML, YAML or JSON; `-` reads it from stdin.
    pub file: Option<String>,
    /// Format of a file without such an ending [default: JSON when it begins with `{`, else TOML].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<FileFormat>,
    /// The given count wins over an operator's.
    #[arg(long)]
    pub take_count: bool,
    /// Single values.
    #[command(flatten)]
    pub values: Values,
    /// Planning.
    #[command(flatten)]
    pub plan: PlanOption,
    /// Token and waiting.
    #[command(flatten)]
    pub change: ChangeOptions,
}

/// Single values of a service.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Single values")]
pub struct Values {
    /// Variable of the environment, `NAME=VALUE`; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub env: Vec<(String, String)>,
    /// Variable that is taken out of the environment; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub unset_env: Vec<String>,
    /// Processors of one replica.
    #[arg(long, value_name = "NUMBER")]
    pub cpus: Option<MilliCpu>,
    /// Memory of one replica.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// Port by name, from the host's range or fixed; all ports are replaced by those given.
    #[arg(long, value_name = "NAME[=NUMBER]", value_parser = port)]
    pub port: Vec<PortFile>,
    /// Working directory.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Queue of the replicas.
    #[arg(long, value_name = "NAME")]
    pub queue: Option<String>,
    /// Wanted number of replicas.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(0..=i64::from(REPLICAS_MAX)))]
    pub replicas: Option<u32>,
    /// Label of the service, `NAME=VALUE`; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub label: Vec<(String, String)>,
    /// Replicas above the wanted number during a rollout, such as 1 or 25%.
    #[arg(long, value_name = "NUMBER|PERCENT")]
    pub max_surge: Option<ReplicaAmount>,
    /// Replicas below the wanted number during a rollout, such as 1 or 25%.
    #[arg(long, value_name = "NUMBER|PERCENT")]
    pub max_unavailable: Option<ReplicaAmount>,
    /// Time that a replica must be ready to count as available.
    #[arg(long, value_name = "DURATION")]
    pub min_ready: Option<Millis>,
    /// Longest time without progress.
    #[arg(long, value_name = "DURATION")]
    pub progress_deadline: Option<Millis>,
    /// What happens then.
    #[arg(long, value_enum, value_name = "DEED")]
    pub on_stuck: Option<Deed>,
    /// Program and arguments as one text, parted at blanks; quotes and `\\` keep them.
    #[arg(long, value_name = "TEXT", value_parser = words, conflicts_with = "program")]
    pub command: Option<Words>,
    /// Program and arguments.
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
}

/// What happens with a rollout that does not get on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Deed {
    /// It stays and says so.
    Stop,
    /// It goes back to the last completed version.
    Rollback,
}

/// A command as one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(pub Vec<String>);

impl Update {
    /// What is asked for, and of which service.
    ///
    /// # Errors
    /// [`Failure::Usage`] where the words do not fit each other, or the file has faults.
    pub fn request(&self, global: &Global) -> Result<(AskService, ServiceName), Failure> {
        let alone = self.file.is_none() && looks_like_file(&self.target);
        let (name, file) = match (&self.file, alone) {
            (Some(file), _) => (Some(&self.target), Some(file)),
            (None, true) => (None, Some(&self.target)),
            (None, false) => (Some(&self.target), None),
        };
        match file {
            Some(file) => self.by_file(name, file, global),
            None => self.by_values(&self.target, global),
        }
    }

    fn by_file(
        &self,
        name: Option<&String>,
        file: &str,
        global: &Global,
    ) -> Result<(AskService, ServiceName), Failure> {
        let source = SourceFile {
            file: file.to_owned(),
            format: self.format,
        };
        let mut request = read_file(&source, global)?;
        if let Some(name) = name {
            if request.name.is_empty() {
                request.name.clone_from(name);
            }
            if *name != request.name {
                return Err(Failure::Usage(format!(
                    "{file} is of service `{}`, not of `{name}`: a service keeps its name",
                    request.name
                )));
            }
        }
        if !self.values.unset_env.is_empty() {
            let text =
                "--unset-env changes the current version: a file lists the whole environment";
            return Err(Failure::Usage(text.to_owned()));
        }
        let document = serde_json::from_str::<ServiceFile>(&request.document);
        let mut document = document.map_err(|error| Failure::Local(error.to_string()))?;
        self.values.overlay(&mut document);
        let (name, project) = (request.name.clone(), request.project.clone());
        let request = Box::new(ServiceRequest::of(
            &document,
            &name,
            &project,
            request.run_as,
        ));
        let service = name_of(&request);
        let take_count = self.take_count;
        Ok((
            AskService::Update {
                request,
                take_count,
            },
            service,
        ))
    }

    fn by_values(&self, name: &str, global: &Global) -> Result<(AskService, ServiceName), Failure> {
        let mut document = ServiceFile::default();
        self.values.overlay(&mut document);
        let unset: Vec<String> = self
            .values
            .unset_env
            .iter()
            .map(|name| leaf(name))
            .collect();
        if document == ServiceFile::default() && unset.is_empty() {
            return Err(Failure::Usage(format!(
                "nothing is to change: there is no file `{name}`; give a file, or single values \
                 such as `services update {name} --cpus 0.5`"
            )));
        }
        let run_as = RunAs::service(&account::caller()?);
        let request = ServiceRequest::of(&document, name, global.project(), run_as);
        let service = name_of(&request);
        let ask = AskService::Patch {
            request: Box::new(request),
            unset,
            take_count: self.take_count,
        };
        Ok((ask, service))
    }
}

impl Values {
    /// Puts the values that are given into a document.
    pub fn overlay(&self, file: &mut ServiceFile) {
        let put = |table: &mut Option<BTreeMap<String, String>>, pairs: &[(String, String)]| {
            if !pairs.is_empty() {
                table.get_or_insert_default().extend(pairs.iter().cloned());
            }
        };
        put(&mut file.env, &self.env);
        put(&mut file.labels, &self.label);
        let command = match &self.command {
            Some(words) => &words.0,
            None => &self.program,
        };
        if !command.is_empty() {
            file.command = Some(command.clone());
        }
        if !self.port.is_empty() {
            file.ports = Some(self.port.clone());
        }
        set(&mut file.cwd, self.cwd.as_ref());
        set(&mut file.queue, self.queue.as_ref());
        set(&mut file.replicas, self.replicas.as_ref());
        if self.cpus.is_some() || self.memory.is_some() {
            let resources = file.resources.get_or_insert_with(ResourcesFile::default);
            set(&mut resources.cpus, self.cpus.as_ref());
            set(&mut resources.memory, self.memory.as_ref());
        }
        self.overlay_rollout(&mut file.rollout);
    }

    fn overlay_rollout(&self, rollout: &mut Option<RolloutFile>) {
        let mut file = rollout.clone().unwrap_or_default();
        set(&mut file.max_surge, self.max_surge.as_ref());
        set(&mut file.max_unavailable, self.max_unavailable.as_ref());
        set(&mut file.min_ready, self.min_ready.as_ref());
        set(&mut file.progress_deadline, self.progress_deadline.as_ref());
        let deed = self.on_stuck.map(|deed| match deed {
            Deed::Stop => OnStuck::Stop,
            Deed::Rollback => OnStuck::Rollback,
        });
        set(&mut file.on_stuck, deed.as_ref());
        if file != RolloutFile::default() {
            *rollout = Some(file);
        }
    }
}

fn set<T: Clone>(place: &mut Option<T>, value: Option<&T>) {
    if value.is_some() {
        *place = value.cloned();
    }
}

/// Whether a word that stands alone is a file: one that is there, or that can be nothing else.
fn looks_like_file(word: &str) -> bool {
    let ending = Path::new(word)
        .extension()
        .and_then(|ending| ending.to_str());
    let named = ending.is_some_and(|ending| matches!(ending, "toml" | "yaml" | "yml" | "json"));
    word == "-" || word.contains('/') || named || Path::new(word).is_file()
}

/// The dotted name of a variable; one that holds a dot stands in quotes.
fn leaf(variable: &str) -> String {
    if variable.contains('.') {
        format!("env.\"{variable}\"")
    } else {
        format!("env.{variable}")
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("NAME=VALUE is needed, such as LEVEL=debug".to_owned()),
    }
}

fn port(text: &str) -> Result<PortFile, String> {
    let (name, number) = match text.split_once('=') {
        Some((name, number)) => {
            let number = number.parse::<u16>().ok().filter(|number| *number > 0);
            let number = number.ok_or("a port is a number from 1 to 65535")?;
            (name, Some(number))
        }
        None => (text, None),
    };
    Ok(PortFile {
        name: name.to_owned(),
        port: number,
    })
}

/// Parts a text at blanks; quotes and `\` keep what follows together.
pub fn words(text: &str) -> Result<Words, String> {
    let (mut all, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', Some('"') | None) => {
                let next = letters.next().ok_or("it ends behind `\\`")?;
                word.get_or_insert_default().push(next);
            }
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (_, Some(open)) if letter == open => quote = None,
            (_, None) if letter.is_whitespace() => all.extend(word.take()),
            (_, Some(_) | None) => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(open) = quote {
        return Err(format!("the quote {open} is not closed"));
    }
    all.extend(word);
    if all.is_empty() {
        return Err("a program is needed".to_owned());
    }
    Ok(Words(all))
}

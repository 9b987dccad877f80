//! `jobs submit`: options of a batch job to its specification.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use xce_model::limits::{ENVIRONMENT_BYTES_MAX, check_name};
use xce_model::spec::{ArraySpec, SingleCopy};
use xce_model::{Bytes, JobId, MilliCpu, Millis};
use xce_profile::RunAs;
use xce_profile::checks::{
    command_fault, directory_fault, environment_fault, memory_fault, variable_fault,
};
use xce_profile::defaults::Account;
use xce_profile::document::{Elements, JobFile, ResourcesFile};
use xce_session::policy_wire::JobRequest;
use xce_session::wire::{Ask, AskJob};

use super::account;
use super::arguments::{ChangeOptions, Global};
use super::connection::Connection;
use super::failure::Failure;
use super::{print, wait};

/// Options of a batch job.
///
/// The job gets PATH, HOME, USER, LOGNAME, SHELL and LANG of the caller, and what -e and --env-file
/// add. With --wait the exit code is 1 when the job ends otherwise than well.
#[derive(Debug, Args)]
pub struct Options {
    /// Name, for an array `name[1-100]%10` [default: the program's].
    #[arg(short, long)]
    pub name: Option<String>,
    /// Elements of an array and, after `%`, how many run at once, such as 1-100%10 or 1-5,9.
    #[arg(long, value_name = "ELEMENTS", value_parser = array)]
    pub array: Option<ArraySpec>,
    /// Processors of one run [default: the profile's, or 1].
    #[arg(short, long)]
    pub cpus: Option<MilliCpu>,
    /// Memory of one run, with its unit [default: the profile's, or 256MiB].
    #[arg(short, long)]
    pub memory: Option<Bytes>,
    /// A variable, `NAME=VALUE`, or `NAME` for the caller's value; may be repeated.
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// A file of `NAME=VALUE` lines; -e wins over it.
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
    /// Working directory, absolute [default: the profile's, or the present one].
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Longest run, such as 10m; then the job is killed [default: the profile's, or no limit].
    #[arg(short = 't', long, value_name = "DURATION")]
    pub time: Option<Millis>,
    /// Queue [default: the profile's, or default].
    #[arg(short, long)]
    pub queue: Option<String>,
    /// Profile of kind batch that gives defaults [default: batch].
    #[arg(long)]
    pub profile: Option<String>,
    /// A label that the host must have, `NAME=VALUE`; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub constraint: Vec<String>,
    /// Submit it as held.
    #[arg(long)]
    pub hold: bool,
    /// Run it again when its host is lost.
    #[arg(long)]
    pub rerunnable: bool,
    /// Whether two copies may never run at once, though its host be out of reach [default: none].
    #[arg(long, value_enum, value_name = "MODE")]
    pub single_copy: Option<SingleCopyMode>,
    /// Token and waiting.
    #[command(flatten)]
    pub change: ChangeOptions,
    /// Program and arguments; `${NAME}` is replaced from the job's environment.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

/// Whether two copies of a job may never run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SingleCopyMode {
    /// What is left on a lost host may run on for a while beside the next run.
    None,
    /// Its processes end before its next run begins.
    Strict,
}

impl SingleCopyMode {
    const fn meaning(self) -> SingleCopy {
        match self {
            Self::None => SingleCopy::None,
            Self::Strict => SingleCopy::Strict,
        }
    }
}

/// What of the caller goes into a specification.
pub struct Caller<'c> {
    /// Who it is.
    pub account: Account,
    /// Where it is.
    pub directory: Option<String>,
    /// Its variables.
    pub variable: &'c dyn Fn(&str) -> Option<String>,
}

/// Submits.
///
/// # Errors
/// See [`Failure`].
pub async fn run(
    options: &Options,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let variable = |name: &str| std::env::var(name).ok();
    let directory = std::env::current_dir()
        .ok()
        .and_then(|path| path.to_str().map(str::to_owned));
    let caller = Caller {
        account: account::caller()?,
        directory,
        variable: &variable,
    };
    let file = match &options.env_file {
        None => String::new(),
        Some(path) => std::fs::read_to_string(path).map_err(|error| {
            Failure::Usage(format!("{} cannot be read: {error}", path.display()))
        })?,
    };
    let (file, run_as) = job_file(options, global, &caller, &file).map_err(Failure::Usage)?;
    let request = JobRequest::of(&file, global.project(), run_as);
    let operation = options.change.operation(connection)?;
    let accepted = connection
        .change(Ask::Job(AskJob::Submit(Box::new(request))), operation)
        .await?;
    print::accepted(global.output, &accepted, "submitted")?;
    let ids: Vec<JobId> = accepted
        .ids
        .iter()
        .filter_map(|id| id.parse().ok())
        .collect();
    wait::ended(connection, &ids, options.change.wait, true).await
}

/// What the options ask for, and as whom. Defaults are merged by the controller.
///
/// # Errors
/// A sentence on the first option that is wrong.
pub fn job_file(
    options: &Options,
    global: &Global,
    caller: &Caller<'_>,
    env_file: &str,
) -> Result<(JobFile, RunAs), String> {
    command_fault(&options.command)?;
    let (name, named_array) = match &options.name {
        Some(text) => split_name(text)?,
        None => (program_name(&options.command), None),
    };
    check_name("job", &name).map_err(|refusal| refusal.text)?;
    if named_array.is_some() && options.array.is_some() {
        return Err("the elements are given both in the name and by --array".to_owned());
    }
    for (what, name) in [("queue", &options.queue), ("profile", &options.profile)] {
        if let Some(name) = name {
            check_name(what, name).map_err(|refusal| refusal.text)?;
        }
    }
    check_name("project", global.project()).map_err(|refusal| refusal.text)?;
    options.memory.map_or(Ok(()), memory_fault)?;
    for directory in [&options.cwd, &caller.directory] {
        directory.as_deref().map_or(Ok(()), directory_fault)?;
    }
    if options.time == Some(Millis(0)) {
        return Err(
            "a time limit of 0 would let nothing run; leave it out for no limit".to_owned(),
        );
    }
    let given = |is_given: bool| is_given.then_some(true);
    let file = JobFile {
        name: Some(name),
        profile: options.profile.clone(),
        queue: options.queue.clone(),
        command: Some(options.command.clone()),
        env: some(environment(options, caller, env_file)?),
        cwd: options.cwd.clone(),
        resources: Some(ResourcesFile {
            cpus: options.cpus,
            memory: options.memory,
        }),
        run_limit: options.time,
        constraints: some(constraints(&options.constraint)?),
        array: options.array.clone().or(named_array).map(Elements),
        held: given(options.hold),
        rerunnable: given(options.rerunnable),
        single_copy: options.single_copy.map(SingleCopyMode::meaning),
        ..JobFile::default()
    };
    let run_as = RunAs {
        user: caller.account.user.clone(),
        env: account::environment(&caller.account, caller.variable)
            .into_iter()
            .collect(),
        cwd: caller.directory.clone(),
    };
    Ok((file, run_as))
}

/// A table, unless it is empty.
fn some(table: BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    (!table.is_empty()).then_some(table)
}

fn environment(
    options: &Options,
    caller: &Caller<'_>,
    env_file: &str,
) -> Result<BTreeMap<String, String>, String> {
    let mut env = BTreeMap::new();
    if env_file.len() > 2 * ENVIRONMENT_BYTES_MAX {
        return Err(format!(
            "the environment file has {} bytes, at most {ENVIRONMENT_BYTES_MAX} are allowed",
            env_file.len()
        ));
    }
    for (index, line) in env_file.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line
            .split_once('=')
            .ok_or_else(|| format!("environment file, line {}: no `=` in it", index + 1));
        let (name, value) = pair?;
        insert(&mut env, name, value)
            .map_err(|text| format!("environment file, line {}: {text}", index + 1))?;
    }
    for given in &options.env {
        match given.split_once('=') {
            Some((name, value)) => insert(&mut env, name, value)?,
            None => {
                let value = (caller.variable)(given)
                    .ok_or_else(|| format!("-e {given}: there is no such variable here"))?;
                insert(&mut env, given, &value)?;
            }
        }
    }
    environment_fault(&env)?;
    Ok(env)
}

fn insert(env: &mut BTreeMap<String, String>, name: &str, value: &str) -> Result<(), String> {
    variable_fault(name, value)?;
    env.insert(name.to_owned(), value.to_owned());
    Ok(())
}

fn constraints(given: &[String]) -> Result<BTreeMap<String, String>, String> {
    let mut pairs = BTreeMap::new();
    for text in given {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            format!("--constraint {text}: give a label and its value, NAME=VALUE")
        })?;
        check_name("label", name).map_err(|refusal| refusal.text)?;
        pairs.insert(name.to_owned(), value.to_owned());
    }
    Ok(pairs)
}

/// A name made of a program's: its last part in lower case, other characters as `-`.
fn program_name(command: &[String]) -> String {
    let program = command.first().map_or("", String::as_str);
    let last = program.rsplit('/').next().unwrap_or(program);
    let name: String = last
        .chars()
        .take(xce_model::limits::NAME_BYTES_MAX)
        .map(|letter| letter.to_ascii_lowercase())
        .map(|letter| match letter {
            'a'..='z' | '0'..='9' | '.' | '_' | '-' => letter,
            _ => '-',
        })
        .collect();
    let name = name.trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric());
    if name.is_empty() {
        "job".to_owned()
    } else {
        name.to_owned()
    }
}

/// A name with the elements of an array behind it, `name[1-100]%10`.
fn split_name(text: &str) -> Result<(String, Option<ArraySpec>), String> {
    let Some((name, rest)) = text.split_once('[') else {
        return Ok((text.to_owned(), None));
    };
    let shown: String = text.chars().take(64).flat_map(char::escape_debug).collect();
    let (elements, limit) = rest.split_once(']').ok_or_else(|| {
        format!("`{shown}` has no `]`; an array is name[1-100] or name[1-100]%10")
    })?;
    if !limit.is_empty() && !limit.starts_with('%') {
        return Err(format!(
            "`{shown}` goes on after `]`; only a limit such as %10 may follow"
        ));
    }
    Ok((name.to_owned(), Some(array(&format!("{elements}{limit}"))?)))
}

/// Elements of an array with an optional limit, `1-100%10`.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn array(text: &str) -> Result<ArraySpec, String> {
    text.parse::<Elements>().map(|elements| elements.0)
}

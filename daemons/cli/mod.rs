//! `xcecli`: one file per noun, all output in [`print`], all talk with the cluster in
//! [`connection`].
//!
//! ```text
//!   arguments ──► noun::run ──► connection (dial, hello, ask, retry) ──► print ──► stdout
//!                                   │ talk: stderr                └─ failure ──► exit code
//! ```
//! The result is on stdout, everything else on stderr.

mod account;
mod arguments;
mod connection;
mod credentials;
mod failure;
mod operation;
mod present;
mod print;
mod wait;

mod actors;
mod backup;
mod cluster;
mod config;
mod endpoints;
mod events;
mod history;
mod hosts;
mod jobs;
mod journal;
mod logs;
mod plan;
mod policies;
mod quarantine;
mod rollout;
mod services;
mod services_shown;
mod sessions;
mod source;
mod submit;
mod updating;
mod validate;
mod watch;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Global, Noun};
use connection::Connection;
use failure::Failure;
use xce_profile::PolicyKind;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(run(arguments)),
        Err(error) => Err(Failure::Local(format!("cannot start: {error}"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            print::talk(&failure.to_string());
            ExitCode::from(failure.exit_code())
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { global, noun } = arguments;
    if let Noun::Completions { shell } = noun {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "xcecli", &mut script);
        return print::text(&String::from_utf8_lossy(&script));
    }
    let reads_endpoints = matches!(
        &noun,
        Noun::Services(services::Verb::Read(services::ReadVerb::Endpoints(_)))
    );
    if !global.output.is_general() && !reads_endpoints {
        let text = "`-o plain` and `-o dns` are forms of `services endpoints`; \
                    all others have table, wide, json, yaml and name";
        return Err(Failure::Usage(text.to_owned()));
    }
    // What needs no cluster, and works without an identity.
    if let Noun::Services(services::Verb::Validate(options)) = &noun
        && !options.online
    {
        return validate::alone(options, &global);
    }
    if let Noun::Schema { described } = noun {
        return validate::print_schema(described, &global);
    }
    let mut connection = Connection::new(&global)?;
    let outcome = dispatch(noun, &global, &mut connection).await;
    connection.close().await;
    outcome
}

async fn dispatch(noun: Noun, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    match noun {
        Noun::Services(verb) => services::run(verb, global, connection).await,
        Noun::Rollout(verb) => rollout::run(verb, global, connection).await,
        Noun::Jobs(verb) => jobs::run(verb, global, connection).await,
        Noun::Hosts(verb) => hosts::run(verb, global, connection).await,
        Noun::Actors(verb) => actors::run(verb, global, connection).await,
        Noun::Sessions(verb) => sessions::run(verb, global, connection).await,
        Noun::Cluster(verb) => cluster::run(verb, global, connection).await,
        Noun::Journal(verb) => journal::run(verb, global, connection).await,
        Noun::Config(verb) => config::run(verb, global, connection).await,
        Noun::Profiles(verb) => policies::run(PolicyKind::Profile, verb, global, connection).await,
        Noun::Projects(verb) => policies::run(PolicyKind::Project, verb, global, connection).await,
        Noun::Queues(verb) => policies::run(PolicyKind::Queue, verb, global, connection).await,
        Noun::Audit => cluster::audit(global, connection).await,
        Noun::Watch(what) => watch::run(&what, global, connection).await,
        Noun::Schema { .. } | Noun::Completions { .. } => Ok(()),
    }
}

/// Help and version go to stdout and are no error; wrong words are.
fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render();
    if error.use_stderr() {
        let text = text.to_string();
        print::talk(text.strip_prefix("error: ").unwrap_or(&text).trim_end());
        return ExitCode::from(failure::USAGE);
    }
    match print::text(&text.to_string()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(failure.exit_code()),
    }
}

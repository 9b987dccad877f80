//! `config`: the settings of the controller, while it runs.

use clap::Subcommand;
use xce_session::config_wire::{ReloadView, SettingChange};
use xce_session::wire::{Ask, AskCluster, Reply};

use super::arguments::Global;
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::print::{self, Field, Look, Row, cell, visible};

/// What is done with settings.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Let the primary controller read its file of settings anew; other daemons do so on SIGHUP.
    Reload,
}

/// Runs a verb.
///
/// # Errors
/// See [`Failure`].
pub async fn run(verb: Verb, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    match verb {
        Verb::Reload => {
            let text = match connection
                .ask(Ask::Cluster(AskCluster::ReloadConfig))
                .await?
            {
                Reply::Json(text) => text,
                other => return Err(unexpected(kind_of(&other))),
            };
            let seen: ReloadView = serde_json::from_str(&text)
                .map_err(|error| Failure::Local(format!("the answer cannot be read: {error}")))?;
            print::show(global.output, &seen, |_| details(&seen))
        }
    }
}

impl Row for ReloadView {
    fn head(_wide: bool) -> Vec<&'static str> {
        vec!["DAEMON", "FILE", "CHANGES"]
    }

    fn cells(&self, _look: &Look) -> Vec<Field> {
        vec![
            cell(&self.daemon),
            cell(&self.file),
            cell(self.changes.len()),
        ]
    }

    fn name(&self) -> String {
        self.daemon.clone()
    }
}

fn details(seen: &ReloadView) -> String {
    let from = match seen.file.as_str() {
        "" => "no file is named, so that only its environment and flags count".to_owned(),
        file => format!("from {file}"),
    };
    let mut text = format!(
        "controller {} read its settings anew, {from}\n",
        seen.daemon
    );
    if seen.changes.is_empty() {
        text += "nothing differs from what runs\n";
    }
    for SettingChange {
        option,
        from,
        to,
        how,
    } in &seen.changes
    {
        let when = match how.as_str() {
            "applied" => "holds now",
            _ => "holds when the controller is started again",
        };
        text += &visible(&format!("{option}: {from} -> {to}, {when}"));
        text += "\n";
    }
    text
}

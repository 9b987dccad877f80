//! A program as a probe: its own process group, killed whole and reaped when its time is over.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use super::Outcome;
use super::attempt::{Surroundings, late};

/// A running probe; whoever drops it kills its group.
struct Group {
    child: Child,
    leader: Option<Pid>,
}

impl Group {
    fn kill(&mut self) {
        if let Some(leader) = self.leader.take() {
            // An error says that nobody is left.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs the command in the job's environment and directory; good when it exits with 0.
pub async fn run(command: &[String], around: &Surroundings, within: Duration) -> Outcome {
    let expanded: Result<Vec<_>, _> = command
        .iter()
        .map(|word| around.environment.expand(word))
        .collect();
    let words = match expanded {
        Ok(words) => words,
        Err(unknown) => return Outcome::Unrunnable(unknown.to_string()),
    };
    let Some((program, arguments)) = words.split_first() else {
        return Outcome::Unrunnable("the command of the probe is empty".to_owned());
    };
    let mut group = match spawn(program, arguments, around) {
        Ok(group) => group,
        Err(error) => return Outcome::Unrunnable(format!("{program}: {error}")),
    };
    let waited = tokio::time::timeout(within, group.child.wait()).await;
    // What it left running would pile up.
    group.kill();
    match waited {
        Ok(Ok(status)) if status.success() => Outcome::Success,
        Ok(Ok(status)) => Outcome::Failure(format!("{program}: {status}")),
        Ok(Err(error)) => Outcome::Unrunnable(format!("{program}: {error}")),
        Err(_) => {
            // Killed, so this is short; and the next try must not begin before.
            let _ = group.child.wait().await;
            late(within)
        }
    }
}

fn spawn(program: &str, arguments: &[String], around: &Surroundings) -> io::Result<Group> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(around.environment.pairs())
        .current_dir(&around.work_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    if let Some((uid, gid)) = around.user {
        command.uid(uid).gid(gid);
    }
    let child = command.spawn()?;
    let leader = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    Ok(Group { child, leader })
}

//! Makes the decisions of an exported journal again.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use xce_replay::{Report, replay_file};

#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Arguments {
    /// A journal that `xcecli journal export` wrote.
    file: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

const EXIT_CODES: &str = "\
Exit codes: 0 every decision came out as recorded, 1 one did not or the file cannot be used, 2 usage.";

/// Prints what came out; fails where a decision differs from what was recorded.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let file = arguments.file.display();
    let report =
        replay_file(&arguments.file).with_context(|| format!("{file} cannot be replayed"))?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", text(&report));
    }
    Ok(if report.differing == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "from lsn {} to lsn {}\ngroups: {}\ndecisions re-run: {}\ninputs taken as they are: {}\n",
        report.from, report.to, report.groups, report.decisions, report.inputs
    );
    if report.out_of_reach > 0 {
        let count = report.out_of_reach;
        text += &format!("decided from a state before the file, or too far back: {count}\n");
    }
    text += &format!("differing: {}\n", report.differing);
    if let Some(first) = &report.first {
        text += &format!("\nthe first that differs:\n{first}\n");
    }
    text
}

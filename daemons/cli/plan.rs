//! Plans: what would become of a change of a service; nothing is written.

use clap::Args;
use xce_session::plan::{PlanOutcome, PlanView};
use xce_session::wire::{Ask, AskService, Reply};

use super::arguments::Global;
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::present::plan::details;
use super::print;

/// Planning instead of changing.
#[derive(Debug, Clone, Copy, Args)]
pub struct PlanOption {
    /// Write nothing: print the steps, the bounds, the time it would take and what would hold it
    /// back. Exit code 0 when it would be carried out, 1 when it would come to a halt.
    #[arg(long, conflicts_with_all = ["wait", "token"])]
    pub plan: bool,
}

/// Prints the plan of a change.
///
/// # Errors
/// The refusal that the change would get; [`Failure::Unmet`] where it would come to a halt.
pub async fn run(
    ask: AskService,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let plan = match connection.ask(Ask::Plan(ask)).await? {
        Reply::Plan(plan) => plan,
        other => return Err(unexpected(kind_of(&other))),
    };
    print::show(global.output, &*plan, |look| details(&plan, look))?;
    verdict(&plan)
}

/// The exit code of a plan.
///
/// # Errors
/// Where the change would come to a halt.
pub fn verdict(plan: &PlanView) -> Result<(), Failure> {
    match plan.outcome {
        PlanOutcome::Completes | PlanOutcome::NoChange | PlanOutcome::Bounded => Ok(()),
        PlanOutcome::Blocked => Err(Failure::Unmet(format!(
            "this {} would come to a halt: {}",
            plan.change, plan.blocker
        ))),
    }
}

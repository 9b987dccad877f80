//! `xced force-new`: one surviving controller becomes a cluster of its own.
//!
//! Its log is taken as a whole, also entries that it does not know to be committed: any of them may
//! have been acknowledged by the others, and one that was not has an outcome that nobody knows.

use std::path::PathBuf;
use std::process::ExitCode;

use xce_backup::{Skip, begin};
use xce_config::ControllerConfig;
use xce_controller::peers::name_of;
use xce_ledger::{Anew, Ledger};
use xce_link::Identity;
use xce_model::WallTime;
use xce_wal::{Beginning, Member, Remains, WalConfig};

use crate::{prepare, restore};

/// Which controller begins anew.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Directory of the controller's state and settings [default: $XCE_HOME or ~/.xce].
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// File of its settings [default: controller.toml in that directory, where it exists].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The other controllers are lost for good, and what only they have may be lost with them.
    #[arg(long)]
    confirm_loss: bool,
}

const HELP: &str = "\
Without --confirm-loss it says what would happen, and changes nothing. Stop the controller first.
The controllers that it had are never taken in again with their old state: should two of them still \
reach each other, stop them, since they would go on as the cluster that was.";

/// Begins anew, or says what that would mean.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let home = crate::find_home(arguments.home.as_deref())?;
    let file = arguments.config.clone().or_else(|| {
        let beside = home.path().join("controller.toml");
        beside.exists().then_some(beside)
    });
    let config: ControllerConfig = xce_config::load(&home, &xce_config::Sources::of_process(file))?;
    let identity = Identity::load(&config.identity_dir)?;
    let settings = crate::controller::settings_of(&config, &identity, false)?;
    let wal = xce_controller::offline(&settings);
    // One that was interrupted is completed as it was begun.
    for number in 2..EPOCHS_MAX {
        if wal.dir.join(aside(number)).is_dir() && xce_wal::finish_anew(&wal.dir, &aside(number))? {
            println!("a beginning anew that was interrupted is complete");
            return Ok(ExitCode::SUCCESS);
        }
    }
    let remains = xce_wal::remains_of(&wal, Ledger::new(Box::new(|_, _| {})))?;
    say(&remains, settings.node);
    if !arguments.confirm_loss {
        anyhow::bail!("nothing was changed: confirm the loss with --confirm-loss");
    }
    carry_out(remains, &wal, settings.node)?;
    println!("start the controller as before; let others join with tokens of `xcecli cluster add`");
    Ok(ExitCode::SUCCESS)
}

/// Epochs whose folders are looked for. Source: chosen; nobody begins anew so often.
const EPOCHS_MAX: u32 = 1_000;

/// Folder that keeps what was before an epoch.
fn aside(epoch: u32) -> String {
    format!("before-epoch-{epoch}")
}

fn say(remains: &Remains<Ledger>, own: u64) {
    let others: Vec<String> = remains
        .voters
        .iter()
        .filter(|voter| voter.node != own)
        .map(|voter| name_of(voter.node))
        .collect();
    let unknown = remains.last.saturating_sub(remains.committed);
    println!(
        "{} holds the log up to LSN {}: {}",
        name_of(own),
        remains.last,
        restore::inventory(remains.machine.view())
    );
    println!(
        "  {unknown} of its entries it does not know to be committed; they are kept, since each may have \
         been acknowledged"
    );
    if others.is_empty() {
        println!("  it is the only controller with a vote: it needs no new beginning to start");
    } else {
        println!(
            "  what {} acknowledged without it after that is lost; runs of that time are left alone on \
             their hosts and shown by `xcecli jobs quarantine list`",
            others.join(" and ")
        );
        println!(
            "  {} can never take part again with what they have: move their state aside and let them \
             join anew",
            others.join(" and ")
        );
    }
}

fn carry_out(mut remains: Remains<Ledger>, wal: &WalConfig, own: u64) -> anyhow::Result<()> {
    let user = prepare::login_name()?;
    let now = WallTime(prepare::unix_seconds().saturating_mul(1_000));
    let skip = Skip::since(remains.machine.view().clock().last_wall, now);
    let seen = (remains.term, remains.last);
    let begun = begin(
        &mut remains.machine,
        Anew::Forced,
        Some(own),
        seen,
        skip,
        (&user, now),
    );
    let beginning = Beginning {
        term: begun.term,
        lsn: begun.epoch.at,
        member: Member {
            node: own,
            address: wal.address.clone(),
        },
    };
    let aside = aside(begun.epoch.number);
    remains.begin_anew(&beginning, &aside)?;
    println!(
        "{} is the cluster now, epoch {}, from LSN {} on; what it had is kept in {}",
        name_of(own),
        begun.epoch.number,
        begun.epoch.at,
        wal.dir.join(aside).display()
    );
    Ok(())
}

//! `xced restore`: begins a cluster anew from a backup.
//!
//! The cluster keeps its id and its authority, so that hosts and users stay who they are. Everything
//! after the backup is gone; numbers and positions go on far beyond it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use xce_backup::{Backup, Begun, Contents, Head, Skip, begin};
use xce_config::{ControllerConfig, Home};
use xce_controller::peers::name_of;
use xce_ledger::{Anew, Ledger, View};
use xce_link::{Authority, Identity, Role};
use xce_model::WallTime;
use xce_wal::{Beginning, Member};

use crate::{join, prepare};

/// What is restored, and where.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A file of `xcecli cluster backup`.
    file: PathBuf,
    /// Directory of authority, state and identities; it must not exist or be empty.
    #[arg(long, value_name = "DIR")]
    home: PathBuf,
    /// Where the controller will listen, as others reach it.
    #[arg(long, value_name = "HOST:PORT", default_value_t = join::default_listen())]
    listen: SocketAddr,
}

/// Reads the whole backup first; nothing is written unless all of it is sound.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    refuse_used(&arguments.home)?;
    let backup = Backup::open(&arguments.file)?;
    let mut contents = backup.contents()?;
    let user = prepare::login_name()?;
    let now = WallTime(prepare::unix_seconds().saturating_mul(1_000));
    let begun = anew(&mut contents, &user, now);
    let home = join::prepared_home(Some(&arguments.home))?;
    let file = settle(&home, &backup, &contents.ledger, &begun, arguments.listen)?;
    say(backup.head(), &contents, &begun);
    println!("start its controller {}:", name_of(begun.epoch.founder));
    println!(
        "  xced controller --home {} --config {}",
        home.path().display(),
        file.display()
    );
    Ok(ExitCode::SUCCESS)
}

fn refuse_used(home: &Path) -> anyhow::Result<()> {
    let found = match std::fs::read_dir(home) {
        Ok(mut entries) => entries.next(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", home.display()));
        }
    };
    if let Some(entry) = found {
        let entry = entry.with_context(|| format!("cannot read {}", home.display()))?;
        anyhow::bail!(
            "{} is not empty, it holds {}: a restore begins in an empty directory; nothing was changed",
            home.display(),
            entry.file_name().display()
        );
    }
    Ok(())
}

fn anew(contents: &mut Contents, user: &str, now: WallTime) -> Begun {
    let last_wall = contents.ledger.view().clock().last_wall;
    let skip = Skip::since(last_wall, now);
    let seen = (contents.term, contents.lsn);
    begin(
        &mut contents.ledger,
        Anew::Restored,
        None,
        seen,
        skip,
        (user, now),
    )
}

/// Writes authority, identities, settings and state; the state comes last.
fn settle(
    home: &Home,
    backup: &Backup,
    ledger: &Ledger,
    begun: &Begun,
    listen: SocketAddr,
) -> anyhow::Result<PathBuf> {
    let head = backup.head();
    let path = home.authority();
    prepare::directory(&path)?;
    let authority = Authority::adopt(&path, head.cluster, &head.certificate, &head.key)
        .with_context(|| format!("the authority in {}", path.display()))?;
    let marker = path.join("cluster");
    xce_link::secret_file::replace(&marker, format!("{}\n", head.cluster).as_bytes())?;
    let user = prepare::login_name()?;
    prepare::identity(&authority, &home.client(), Role::User, &user)?;
    let state = home.controller();
    prepare::directory(&state)?;
    let identity_dir = xce_config::home::identity_dir(&state);
    let name = name_of(begun.epoch.founder);
    let identity = prepare::identity(&authority, &identity_dir, Role::Controller, &name)?;
    let file = join::write_config(home, listen)?;
    prepare::client(home, head.cluster, listen)?;
    make_state(home, &identity, ledger, begun, listen)?;
    Ok(file)
}

fn make_state(
    home: &Home,
    identity: &Identity,
    ledger: &Ledger,
    begun: &Begun,
    listen: SocketAddr,
) -> anyhow::Result<()> {
    let mut config = <ControllerConfig as xce_config::option::Settings>::defaults(home);
    config.listen = listen;
    let settings = crate::controller::settings_of(&config, identity, true)?;
    let beginning = Beginning {
        term: begun.term,
        lsn: begun.epoch.at,
        member: Member {
            node: begun.epoch.founder,
            address: settings.advertise.clone(),
        },
    };
    xce_wal::begin_anew(&xce_controller::offline(&settings), ledger, &beginning)?;
    Ok(())
}

fn say(head: &Head, contents: &Contents, begun: &Begun) {
    let view = contents.ledger.view();
    let epoch = &begun.epoch;
    println!(
        "cluster {} begins anew, epoch {}, from its state as of LSN {}:",
        head.cluster, epoch.number, epoch.from
    );
    println!("  {}", inventory(view));
    println!(
        "  positions go on after LSN {}, jobs after {}, services after {}: none is given twice",
        epoch.at, epoch.jobs.1, epoch.services.1
    );
    println!(
        "  what was committed after the backup is gone; runs of that time are left alone on their \
         hosts and shown by `xcecli jobs quarantine list`"
    );
    println!("  session tokens and operations of that time are refused");
}

/// What there is, in a line.
pub fn inventory(view: &View) -> String {
    format!(
        "{} services, {} jobs, {} hosts",
        view.services().len(),
        view.job_count(),
        view.hosts().len()
    )
}

//! `xced config`: files of settings are checked, and brought up to the newest form.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use xce_config::forms::{Upgrade, upgrade};
use xce_config::option::{CONFIG_VERSION, Settings};
use xce_config::{ClientConfig, ControllerConfig, Faults, Home, Sources, WorkerConfig};

/// What is done with a file of settings.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Name every fault of a file: line, value, and what is allowed.
    Check(File),
    /// Bring a file up to the newest form; the old one is kept beside it.
    Upgrade(File),
}

/// A file of settings.
#[derive(Debug, clap::Args)]
pub struct File {
    /// The file.
    file: PathBuf,
    /// Whose settings it holds; told by its name or its options when not given.
    #[arg(long)]
    role: Option<Role>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    Controller,
    Worker,
    Client,
}

const ROLES: [Role; 3] = [Role::Controller, Role::Worker, Role::Client];

/// Runs a verb.
pub fn run(verb: &Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Check(file) => {
            let (name, text) = read(&file.file)?;
            let role = role_of(file, &name, &text)?;
            check(role, &name, &text)?;
            println!("{name}: good settings of a {}", word(role));
        }
        Verb::Upgrade(file) => {
            let (name, text) = read(&file.file)?;
            let role = role_of(file, &name, &text)?;
            let home = home();
            let outcome = match role {
                Role::Controller => upgrade::<ControllerConfig>(&home, &name, &text),
                Role::Worker => upgrade::<WorkerConfig>(&home, &name, &text),
                Role::Client => upgrade::<ClientConfig>(&home, &name, &text),
            };
            write(&file.file, outcome?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<(String, String)> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    Ok((name, text))
}

/// Defaults of paths play no part in a check.
fn home() -> Home {
    crate::find_home(None).unwrap_or_else(|_| Home::new("XCE_HOME"))
}

fn check(role: Role, name: &str, text: &str) -> Result<(), Faults> {
    fn of<S: Settings>(name: &str, text: &str) -> Result<(), Faults> {
        xce_config::load_text::<S>(&home(), &Sources::default(), name, text).map(drop)
    }
    match role {
        Role::Controller => of::<ControllerConfig>(name, text),
        Role::Worker => of::<WorkerConfig>(name, text),
        Role::Client => of::<ClientConfig>(name, text),
    }
}

/// Whose settings they are: as said, by the file's name, or the only ones that have these options.
fn role_of(file: &File, name: &str, text: &str) -> anyhow::Result<Role> {
    if let Some(role) = file.role {
        return Ok(role);
    }
    let stem = file.file.file_stem().unwrap_or_default().to_string_lossy();
    if let Some(role) = ROLES.into_iter().find(|role| stem.contains(word(*role))) {
        return Ok(role);
    }
    let fits = ROLES
        .into_iter()
        .filter(|role| check(*role, name, text).is_ok());
    let fits: Vec<Role> = fits.collect();
    match fits[..] {
        [role] => Ok(role),
        _ => anyhow::bail!(
            "neither the name of {name} nor its options tell whose settings it holds; say --role \
             controller, worker or client"
        ),
    }
}

const fn word(role: Role) -> &'static str {
    match role {
        Role::Controller => "controller",
        Role::Worker => "worker",
        Role::Client => "client",
    }
}

/// Writes the new text in the place of the old one, which stays beside it.
fn write(path: &Path, outcome: Upgrade) -> anyhow::Result<()> {
    let name = path.display();
    let Upgrade::Text {
        from,
        text,
        renamed,
    } = outcome
    else {
        println!("{name} is of version {CONFIG_VERSION} already; nothing was changed");
        return Ok(());
    };
    let old = free_name(path, from)?;
    std::fs::copy(path, &old)
        .with_context(|| format!("cannot keep {name} as {}", old.display()))?;
    let part = beside(path, ".part");
    let permissions = std::fs::metadata(path)?.permissions();
    let written = std::fs::write(&part, text)
        .and_then(|()| std::fs::set_permissions(&part, permissions))
        .and_then(|()| std::fs::File::open(&part)?.sync_all())
        .and_then(|()| std::fs::rename(&part, path));
    written.with_context(|| format!("cannot write {name}; it is as it was"))?;
    println!(
        "{name}: from version {from} to {CONFIG_VERSION}; the old one is {}",
        old.display()
    );
    for (old, new) in renamed {
        println!("  {old} is {new} now");
    }
    Ok(())
}

/// A name for the old file that nothing has yet.
fn free_name(path: &Path, version: u32) -> anyhow::Result<PathBuf> {
    let names = (1..100).map(|count| match count {
        1 => beside(path, &format!(".v{version}")),
        more => beside(path, &format!(".v{version}-{more}")),
    });
    let free = |path: &PathBuf| std::fs::symlink_metadata(path).is_err();
    let found = names.into_iter().find(free);
    found.with_context(|| format!("{} old versions of {} are kept already", 99, path.display()))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

//! `xced init` founds a cluster, `xced join` takes part in one: both leave directories behind with
//! which the daemons then start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use xce_config::{ControllerConfig, Home};
use xce_controller::peers::{FOUNDER, name_of};
use xce_ledger::level::LEVEL_MAX;
use xce_link::hello::VERSIONS;
use xce_link::{
    Authority, Caller, Dialer, Hello, HelloAnswer, HelloCode, Identity, Invitation, Opening, Order,
    PeerKind, Role,
};
use xce_model::Incarnation;
use xce_session::member_wire::{AskMember, Joined, ReplyMember};
use xce_session::wire::{Ask, Reply, Request};

use crate::prepare;

/// How long joining is tried. Source: chosen; an election and a busy machine, and then a person looks.
const JOIN_WITHIN: Duration = Duration::from_secs(30);
/// How long one connection and one answer may take. Source: as for clients.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Pause before another try. Source: chosen; a tenth of an election.
const PAUSE: Duration = Duration::from_millis(100);

/// How a cluster is founded.
#[derive(Debug, clap::Args)]
pub struct Found {
    /// Directory of authority, state and identities [default: $XCE_HOME or ~/.xce].
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Where the controller will listen, as others reach it.
    #[arg(long, value_name = "HOST:PORT", default_value_t = default_listen())]
    listen: SocketAddr,
}

/// How somebody joins.
#[derive(Debug, clap::Args)]
pub struct Join {
    /// The token of `xcecli cluster invite`, or `-` to read it from standard input.
    token: String,
    /// Directory of state and identity [default: $XCE_HOME or ~/.xce].
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// For a controller: where it will listen, as others reach it.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<SocketAddr>,
}

pub(crate) fn default_listen() -> SocketAddr {
    SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, xce_config::controller::PORT))
}

/// Founds a cluster: its authority, the first controller with an empty ledger, and the local user.
pub fn init(arguments: &Found) -> anyhow::Result<ExitCode> {
    let home = prepared_home(arguments.home.as_deref())?;
    let state = home.controller();
    anyhow::ensure!(
        !state.join("IDENTITY").exists(),
        "{} holds a controller's state already; nothing was changed",
        state.display()
    );
    let authority = prepare::authority(&home)?;
    let user = prepare::login_name()?;
    prepare::identity(&authority, &home.client(), Role::User, &user)?;
    prepare::directory(&state)?;
    let identity_dir = xce_config::home::identity_dir(&state);
    let name = name_of(FOUNDER);
    let identity = prepare::identity(&authority, &identity_dir, Role::Controller, &name)?;
    let file = write_config(&home, arguments.listen)?;
    crate::runtime()?.block_on(make_state(&home, &identity, arguments.listen))?;
    prepare::client(&home, authority.cluster(), arguments.listen)?;
    println!(
        "cluster {} is founded; start its controller {name}:",
        authority.cluster()
    );
    println!(
        "  xced controller --home {} --config {}",
        home.path().display(),
        file.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Joins a cluster by an invitation.
pub fn join(arguments: &Join) -> anyhow::Result<ExitCode> {
    let text = token(&arguments.token)?;
    let invitation = Invitation::from_text(&text)?;
    let invited = invitation
        .invited()
        .context("the invitation names nobody")?;
    let home = prepared_home(arguments.home.as_deref())?;
    let listen = match (invited.role, arguments.listen) {
        (Role::Controller, None) => anyhow::bail!(
            "a controller is reached by others: give --listen with its address and port"
        ),
        (Role::Controller, Some(listen)) => {
            let state = home.controller();
            anyhow::ensure!(
                !state.join("IDENTITY").exists(),
                "{} holds a controller's state already; nothing was changed",
                state.display()
            );
            Some(listen)
        }
        (_, Some(_)) => anyhow::bail!("--listen is for controllers; this is a {}", invited.role),
        (_, None) => None,
    };
    let runtime = crate::runtime()?;
    let joined = runtime.block_on(redeem(&invitation, listen))?;
    let roots = invitation.identity.pem().2;
    let identity = Identity::from_pem(&joined.certificate, &joined.key, roots)?;
    match (invited.role, listen) {
        (Role::Controller, Some(listen)) => {
            runtime.block_on(settle(&home, &joined, &identity, roots, listen))?;
        }
        (Role::Worker, _) => {
            let state = home.worker(&joined.name);
            store(&xce_config::home::identity_dir(&state), &identity)?;
            println!("host {} has joined; start its worker:", joined.name);
            println!(
                "  xced worker --home {0} --set name={1} --set state_dir={2} --set identity_dir={2}/identity --set controllers={3}",
                home.path().display(),
                joined.name,
                state.display(),
                joined.controllers.join(",")
            );
        }
        (Role::Scheduler, _) => {
            let directory = xce_config::home::identity_dir(&home.scheduler());
            store(&directory, &identity)?;
            println!("scheduler {} has joined; start it:", joined.name);
            println!(
                "  xced scheduler --home {} --set controllers={}",
                home.path().display(),
                joined.controllers.join(",")
            );
        }
        (_, _) => {
            store(&home.client(), &identity)?;
            write_client(&home, &joined, &identity)?;
            println!("user {} has joined; xcecli --help", joined.name);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn token(argument: &str) -> anyhow::Result<String> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    let read = std::io::stdin().read_line(&mut text);
    read.context("cannot read the token from standard input")?;
    Ok(text)
}

pub(crate) fn prepared_home(given: Option<&Path>) -> anyhow::Result<Home> {
    let home = crate::find_home(given)?;
    prepare::directory(home.path())?;
    let path = std::fs::canonicalize(home.path())
        .with_context(|| format!("cannot resolve {}", home.path().display()))?;
    Ok(Home::new(path))
}

fn store(directory: &Path, identity: &Identity) -> anyhow::Result<()> {
    prepare::directory(directory)?;
    identity.store(directory)?;
    Ok(())
}

fn write_client(home: &Home, joined: &Joined, identity: &Identity) -> anyhow::Result<()> {
    let addresses: Vec<SocketAddr> = joined
        .controllers
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect();
    prepare::client_of(home, identity.principal().cluster, &addresses)
}

/// The settings that this controller differs in from the defaults.
pub(crate) fn write_config(home: &Home, listen: SocketAddr) -> anyhow::Result<PathBuf> {
    let file = home.path().join("controller.toml");
    let version = xce_config::option::CONFIG_VERSION;
    let text = format!("config_version = {version}\nlisten = \"{listen}\"\n");
    xce_link::secret_file::replace(&file, text.as_bytes())
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// Makes the state directory, so that a controller that finds none later does not begin anew.
async fn make_state(home: &Home, identity: &Identity, listen: SocketAddr) -> anyhow::Result<()> {
    let mut config = <ControllerConfig as xce_config::option::Settings>::defaults(home);
    config.listen = listen;
    let settings = crate::controller::settings_of(&config, identity, true)?;
    xce_controller::initialise(&settings).await?;
    Ok(())
}

/// What a controller that has joined keeps.
async fn settle(
    home: &Home,
    joined: &Joined,
    identity: &Identity,
    roots: &str,
    listen: SocketAddr,
) -> anyhow::Result<()> {
    let state = home.controller();
    prepare::directory(&state)?;
    store(&xce_config::home::identity_dir(&state), identity)?;
    let authority = home.authority();
    prepare::directory(&authority)?;
    let cluster = identity.principal().cluster;
    Authority::adopt(&authority, cluster, roots, &joined.authority_key)
        .with_context(|| format!("the authority in {}", authority.display()))?;
    let marker = authority.join("cluster");
    xce_link::secret_file::replace(&marker, format!("{cluster}\n").as_bytes())?;
    xce_link::secret_file::replace(&state.join("session.key"), &joined.session_key)?;
    let file = write_config(home, listen)?;
    make_state(home, identity, listen).await?;
    println!("controller {} has joined; start it:", joined.name);
    println!(
        "  xced controller --home {} --config {}",
        home.path().display(),
        file.display()
    );
    Ok(())
}

/// Asks the primary, wherever it is, to take the invited one in.
async fn redeem(invitation: &Invitation, listen: Option<SocketAddr>) -> anyhow::Result<Joined> {
    let mut addresses = Vec::new();
    for text in &invitation.controllers {
        match tokio::net::lookup_host(text.as_str()).await {
            Ok(found) => addresses.extend(found),
            Err(error) => eprintln!("xced: {text} is not found: {error}"),
        }
    }
    let dialer = Dialer::new(invitation.identity.clone(), xce_link::Settings::default());
    let deadline = tokio::time::Instant::now() + JOIN_WITHIN;
    let mut order = Order::new(&addresses);
    loop {
        let passing = match ask(&dialer, invitation, &mut order, listen).await? {
            Asked::Joined(joined) => return Ok(*joined),
            Asked::Standby => "no controller answers as the primary".to_owned(),
            Asked::Later(text) => text,
        };
        if tokio::time::Instant::now() >= deadline {
            anyhow::bail!("not joined: {passing}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What one try came to.
enum Asked {
    Joined(Box<Joined>),
    Standby,
    Later(String),
}

async fn ask(
    dialer: &Dialer,
    invitation: &Invitation,
    order: &mut Order,
    listen: Option<SocketAddr>,
) -> anyhow::Result<Asked> {
    let connected = match dialer.dial(order.addresses(), ANSWER_WITHIN).await {
        Ok(connected) => connected,
        Err(error) => return Ok(Asked::Later(error.to_string())),
    };
    order.reached(connected.peer.remote());
    let (caller, _pushes) = Caller::new(connected, 1);
    let hello = Hello {
        versions: VERSIONS,
        cluster: invitation.cluster(),
        kind: PeerKind::Client,
        incarnation: Incarnation::default(),
        opening: Opening::New,
    };
    match caller
        .call::<Hello, HelloAnswer>(&hello, ANSWER_WITHIN)
        .await
    {
        Ok(HelloAnswer::Welcome(_)) => {}
        Ok(HelloAnswer::Refused(refusal)) if refusal.code == HelloCode::NotPrimary => {
            if let Some(primary) = refusal.primary_address() {
                order.named(primary);
            }
            return Ok(Asked::Standby);
        }
        Ok(HelloAnswer::Refused(refusal)) => anyhow::bail!("refused: {}", refusal.text),
        Err(error) => return Ok(Asked::Later(error.to_string())),
    }
    let address = listen.map(|listen| listen.to_string()).unwrap_or_default();
    let request = Request {
        operation: None,
        made_at: 0,
        at_least: 0,
        ask: Ask::Member(AskMember::Join {
            address,
            level: LEVEL_MAX,
        }),
    };
    match caller.call::<Request, Reply>(&request, ANSWER_WITHIN).await {
        Ok(Reply::Member(ReplyMember::Joined(joined))) => Ok(Asked::Joined(joined)),
        Ok(_) => anyhow::bail!("the controller answered something else"),
        Err(error) => {
            let refusal = error.refusal();
            if matches!(
                refusal.kind,
                xce_model::RefusalKind::Unavailable | xce_model::RefusalKind::OutcomeUnknown
            ) {
                return Ok(Asked::Later(refusal.text));
            }
            anyhow::bail!("refused: {}", refusal.text)
        }
    }
}

//! Reading services: lists, one, endpoints, events, explanations.

use xce_service::view::ServiceView;
use xce_session::wire::{Ask, AskService, Reply, ServiceName, WatchFilter};

use super::arguments::{Global, WatchOption};
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::present::service::details;
use super::print::{self, Look};
use super::watch;

/// One service.
///
/// # Errors
/// As [`Connection::ask`].
pub async fn fetch(
    connection: &mut Connection,
    project: &str,
    name: &str,
) -> Result<ServiceView, Failure> {
    let service = ServiceName {
        project: project.to_owned(),
        name: name.to_owned(),
    };
    match connection
        .ask(Ask::Service(AskService::Show(service)))
        .await?
    {
        Reply::Services(services) => services
            .into_iter()
            .next()
            .ok_or_else(|| xce_model::Refusal::not_found("service", name).into()),
        other => Err(unexpected(kind_of(&other))),
    }
}

/// As [`fetch`]; where there is none, its name may have been meant otherwise.
///
/// # Errors
/// As [`fetch`].
pub async fn fetch_or_propose(
    connection: &mut Connection,
    project: &str,
    name: &str,
) -> Result<ServiceView, Failure> {
    match fetch(connection, project, name).await {
        Err(failure) if failure.is_not_found() => {
            Err(with_proposal(failure, project, name, connection).await)
        }
        outcome => outcome,
    }
}

/// Adds a name that may have been meant.
pub async fn with_proposal(
    failure: Failure,
    project: &str,
    name: &str,
    connection: &mut Connection,
) -> Failure {
    let Ok(services) = fetch_all(connection, Some(project.to_owned())).await else {
        return failure;
    };
    let names = services.iter().map(|service| service.name.as_str());
    match (failure, xce_config::closest(name, names)) {
        (Failure::Refused(mut refusal), Some(near)) if near != name => {
            refusal.text.push_str(&format!("; did you mean `{near}`?"));
            Failure::Refused(refusal)
        }
        (failure, Some(_) | None) => failure,
    }
}

async fn fetch_all(
    connection: &mut Connection,
    project: Option<String>,
) -> Result<Vec<ServiceView>, Failure> {
    match connection
        .ask(Ask::Service(AskService::List { project }))
        .await?
    {
        Reply::Services(services) => Ok(services),
        other => Err(unexpected(kind_of(&other))),
    }
}

/// Prints services.
///
/// # Errors
/// See [`Failure`].
pub async fn list(
    all_projects: bool,
    watching: WatchOption,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let project = (!all_projects).then(|| global.project().to_owned());
    let filter = WatchFilter {
        services: true,
        project: project.clone(),
        ..WatchFilter::default()
    };
    watch::repeat(
        connection,
        watching.watch,
        global.output,
        filter,
        async |connection, _look| {
            let services = fetch_all(connection, project.clone()).await?;
            print::list(global.output, &services)
        },
    )
    .await
}

/// Prints one service in some way, again with `--watch`.
async fn each(
    name: &str,
    watching: WatchOption,
    global: &Global,
    connection: &mut Connection,
    print: impl Fn(&ServiceView, &Look) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let project = global.project();
    let filter = WatchFilter {
        services: true,
        project: Some(project.to_owned()),
        ..WatchFilter::default()
    };
    watch::repeat(
        connection,
        watching.watch,
        global.output,
        filter,
        async |connection, look| print(&fetch_or_propose(connection, project, name).await?, look),
    )
    .await
}

/// Prints one service.
///
/// # Errors
/// See [`Failure`].
pub async fn show(
    name: &str,
    watching: WatchOption,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    each(name, watching, global, connection, |service, _look| {
        print::show(global.output, service, |look| details(service, look))
    })
    .await
}

/// Prints each value of a service, and where it came from.
///
/// # Errors
/// See [`Failure`].
pub async fn show_resolved(
    name: &str,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let service = ServiceName {
        project: global.project().to_owned(),
        name: name.to_owned(),
    };
    match connection
        .ask(Ask::Service(AskService::Resolved(service)))
        .await
    {
        Ok(Reply::Resolved(values)) => print::list(global.output, &values),
        Ok(other) => Err(unexpected(kind_of(&other))),
        Err(failure) => Err(with_proposal(failure, global.project(), name, connection).await),
    }
}

/// Prints why a service is not where it should be.
///
/// # Errors
/// See [`Failure`].
pub async fn explain(
    name: &str,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let service = ServiceName {
        project: global.project().to_owned(),
        name: name.to_owned(),
    };
    match connection
        .ask(Ask::Service(AskService::Explain(service)))
        .await
    {
        Ok(Reply::Lines(lines)) => print::lines(global.output, &lines),
        Ok(other) => Err(unexpected(kind_of(&other))),
        Err(failure) if failure.is_not_found() => {
            Err(with_proposal(failure, global.project(), name, connection).await)
        }
        Err(failure) => Err(failure),
    }
}

//! What a service file means by itself, with nothing but the built-in values below it.

use xce_model::spec::ServiceSpec;
use xce_profile::defaults::Account;
use xce_profile::document::SignalName;
use xce_profile::layers::{self, Between};
use xce_profile::{Purpose, RunAs, resolve as merged};

use crate::document::Document;
use crate::fault::{Fault, Faults};
use crate::service::read_service;

pub use xce_profile::checks::{
    command_fault, directory_fault, environment_fault, memory_fault, variable_fault,
};

/// What a service file does not say by itself.
pub struct Context<'c> {
    /// Project that the request names; it wins over the file's.
    pub project: Option<&'c str>,
    /// Account of the caller, for files without a user.
    pub account: Account,
    /// Finds the account of a login name.
    pub find_account: &'c dyn Fn(&str) -> Option<Account>,
}

/// Reads a service file and fills in the built-in defaults.
///
/// The count stays absent when the file names none: an update then keeps what the service has.
///
/// # Errors
/// Every fault of the file, each with its line and what is allowed.
pub fn resolve(document: &Document<'_>, context: &Context<'_>) -> Result<ServiceSpec, Faults> {
    let knows_user = |name: &str| (context.find_account)(name).is_some();
    let file = read_service(document, &knows_user)?;
    let account = file.user.as_deref().and_then(context.find_account);
    let run_as = RunAs::service(account.as_ref().unwrap_or(&context.account));
    let leaves = layers::service(&run_as, Between::default(), &file);
    let mut spec = merged::service(&leaves, &run_as.user, Purpose::Update).map_err(|problems| {
        let faults = problems
            .into_iter()
            .map(|problem| Fault::placeless(format!("`{}`: {}", problem.path, problem.text)));
        Faults::of(document.file, faults.collect()).expect("a refusal has a problem")
    })?;
    if let Some(project) = context.project {
        project.clone_into(&mut spec.project);
    }
    Ok(spec)
}

/// The number of a signal given as `TERM`, `SIGTERM` or `15`.
///
/// # Errors
/// A sentence when there is no such signal.
pub fn signal_number(text: &str) -> Result<i32, String> {
    text.parse::<SignalName>().map(|signal| signal.0)
}

//! The account of the caller and of other users of this machine.

use std::collections::BTreeMap;

use nix::unistd::{Gid, Uid, User as Entry};
use xce_model::spec::User;
use xce_profile::defaults::Account;

use super::failure::Failure;

/// Variables of the caller that a job gets without being asked for.
pub const PASSED_ON: [&str; 6] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG"];

/// The account of a login name on this machine.
pub fn find(name: &str) -> Option<Account> {
    Entry::from_name(name).ok().flatten().map(account)
}

/// The account that this command runs as.
///
/// # Errors
/// When the machine does not know the user.
pub fn caller() -> Result<Account, Failure> {
    let uid = Uid::effective();
    match Entry::from_uid(uid) {
        Ok(Some(entry)) => Ok(Account {
            user: User {
                gid: Gid::effective().as_raw(),
                ..account(entry.clone()).user
            },
            ..account(entry)
        }),
        Ok(None) => Err(Failure::Local(format!(
            "this machine knows no user with the id {uid}"
        ))),
        Err(error) => Err(Failure::Local(format!(
            "cannot look up the user {uid}: {error}"
        ))),
    }
}

fn account(entry: Entry) -> Account {
    Account {
        user: User {
            name: entry.name,
            uid: entry.uid.as_raw(),
            gid: entry.gid.as_raw(),
        },
        home: entry.dir.display().to_string(),
        shell: entry.shell.display().to_string(),
    }
}

/// Environment of a job before the user's own variables: what is passed on of the caller's, and
/// what a login would set where the caller has none.
pub fn environment(
    account: &Account,
    variable: impl Fn(&str) -> Option<String>,
) -> BTreeMap<String, String> {
    let login = |name: &str| match name {
        "PATH" => Some(xce_profile::defaults::SEARCH_PATH.to_owned()),
        "HOME" => Some(account.home.clone()),
        "USER" | "LOGNAME" => Some(account.user.name.clone()),
        "SHELL" => Some(account.shell.clone()),
        _ => None,
    };
    PASSED_ON
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), variable(name).or_else(|| login(name))?)))
        .collect()
}

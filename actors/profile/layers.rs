//! The layers of one request, lowest first, merged leaf by leaf.

use xce_model::Source;
use xce_model::spec::ServiceSpec;

use crate::builtin;
use crate::document::{JobFile, ServiceFile};
use crate::leaves::{Leaves, Path};
use crate::request::RunAs;
use crate::unfold;

/// The named layers between the account and the request.
#[derive(Debug, Clone, Copy)]
pub struct Between<'a, File> {
    /// Profile: its name and its defaults.
    pub profile: Option<(&'a str, &'a File)>,
    /// Project: its name and its defaults.
    pub project: Option<(&'a str, &'a File)>,
}

impl<File> Default for Between<'_, File> {
    fn default() -> Self {
        Self {
            profile: None,
            project: None,
        }
    }
}

impl<File: serde::Serialize> Between<'_, File> {
    fn overlay(&self, leaves: &mut Leaves) {
        if let Some((name, defaults)) = self.profile {
            let source = Source::Profile(name.to_owned());
            leaves.overlay(Leaves::of(defaults, &source));
        }
        if let Some((name, defaults)) = self.project {
            let source = Source::Project(name.to_owned());
            leaves.overlay(Leaves::of(defaults, &source));
        }
    }
}

/// The layers of a service that is created, or updated as a whole.
pub fn service(run_as: &RunAs, between: Between<'_, ServiceFile>, request: &ServiceFile) -> Leaves {
    let mut leaves = Leaves::of(&builtin::service(), &Source::BuiltIn);
    leaves.overlay(Leaves::of(
        &builtin::account_of_service(run_as),
        &Source::Account,
    ));
    between.overlay(&mut leaves);
    leaves.overlay(Leaves::of(request, &Source::Request(0)));
    leaves.drop_idle_probes();
    leaves
}

/// The layers of a batch job.
pub fn job(run_as: &RunAs, between: Between<'_, JobFile>, request: &JobFile) -> Leaves {
    let mut leaves = Leaves::of(&builtin::job(), &Source::BuiltIn);
    leaves.overlay(Leaves::of(
        &builtin::account_of_job(run_as),
        &Source::Account,
    ));
    between.overlay(&mut leaves);
    leaves.overlay(Leaves::of(request, &Source::Request(0)));
    leaves
}

/// A committed specification as leaves, with the sources that are kept beside it.
pub fn committed(spec: &ServiceSpec) -> Leaves {
    let mut leaves = Leaves::of(&unfold::service(spec), &Source::BuiltIn);
    for origin in &spec.origins {
        leaves.attribute(&origin.path, origin.source.clone());
    }
    leaves
}

/// Single values above what is committed; another user brings its own account along.
pub fn patch(current: &ServiceSpec, run_as: &RunAs, request: &ServiceFile) -> Leaves {
    let mut leaves = committed(current);
    if request.user.is_some() {
        let account = builtin::account_of_service(run_as);
        let account = Leaves::of(&account, &Source::Account);
        leaves.replace_of(&Source::Account, account);
    }
    leaves.overlay(Leaves::of(request, &Source::Request(0)));
    leaves
}

impl Leaves {
    /// Takes another layer in where a leaf of this source, or none, is there.
    fn replace_of(&mut self, source: &Source, layer: Self) {
        let foreign: Vec<Path> = self
            .iter()
            .filter(|(_, _, found)| *found != source && **found != Source::BuiltIn)
            .map(|(path, _, _)| path.clone())
            .collect();
        let mut layer = layer;
        layer.drop_all(&foreign);
        self.overlay(layer);
    }
}

//! Manifests: who may use what.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::Finding;
use super::code::{ALONE, ENTITIES};
use super::sources::Sources;

/// What an entity may not depend on. Source: decision 0001.
const ASYNC: [&str; 4] = ["tokio", "ractor", "quinn", "futures"];

struct Manifest {
    folder: String,
    table: Table,
}

impl Manifest {
    fn path(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }

    fn package(&self) -> &str {
        self.table["package"]["name"]
            .as_str()
            .expect("a package has a name")
    }

    /// Names of dependencies in some of the tables.
    fn dependencies(&self, tables: &[&str]) -> Vec<String> {
        let tables = tables
            .iter()
            .filter_map(|name| self.table.get(*name)?.as_table());
        tables.flat_map(|table| table.keys().cloned()).collect()
    }
}

fn manifests(sources: &Sources) -> Vec<Manifest> {
    let files = sources.files.iter().filter_map(|file| {
        let folder = file.path.strip_suffix("/Cargo.toml")?;
        let table = file.text.parse::<Table>().expect("a manifest is TOML");
        Some(Manifest {
            folder: folder.to_owned(),
            table,
        })
    });
    files.collect()
}

/// Members of the workspace, in their order.
fn listed(sources: &Sources) -> Vec<String> {
    let root = sources
        .files
        .iter()
        .find(|file| file.path == "Cargo.toml")
        .expect("there is a root");
    let table = root
        .text
        .parse::<Table>()
        .expect("the root manifest is TOML");
    let members = table["workspace"]["members"]
        .as_array()
        .expect("members are a list");
    members
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Crates that are not listed by name, or listed and not there.
pub fn members(sources: &Sources) -> Vec<Finding> {
    let listed = listed(sources);
    let found: Vec<String> = manifests(sources)
        .into_iter()
        .map(|manifest| manifest.folder)
        .collect();
    let unlisted = found.iter().filter(|folder| !listed.contains(folder));
    let absent = listed.iter().filter(|folder| !found.contains(folder));
    let mut findings: Vec<Finding> = unlisted
        .map(|folder| Finding::new("member", folder, 0, "is not listed in the workspace"))
        .collect();
    findings
        .extend(absent.map(|folder| Finding::new("member", folder, 0, "is listed, but not there")));
    findings
}

/// Crates that use later ones.
pub fn order(sources: &Sources) -> Vec<Finding> {
    let listed = listed(sources);
    let place = |folder: &str| listed.iter().position(|member| member == folder);
    let manifests = manifests(sources);
    let places: BTreeMap<String, usize> = manifests
        .iter()
        .filter_map(|manifest| Some((manifest.package().to_owned(), place(&manifest.folder)?)))
        .collect();
    let mut findings = Vec::new();
    for manifest in &manifests {
        let own = places.get(manifest.package());
        for name in
            manifest.dependencies(&["dependencies", "dev-dependencies", "build-dependencies"])
        {
            if places.get(&name) >= own && places.contains_key(&name) {
                let text = format!("uses {name}, which is not listed before it");
                findings.push(Finding::new("order", &manifest.path(), 0, text));
            }
        }
    }
    findings
}

/// Entities that depend on a runtime.
pub fn entities(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    let entities = manifests(sources)
        .into_iter()
        .filter(|one| ENTITIES.contains(&one.folder.as_str()));
    for manifest in entities {
        let names =
            manifest.dependencies(&["dependencies", "dev-dependencies", "build-dependencies"]);
        for name in names.iter().filter(|name| ASYNC.contains(&name.as_str())) {
            let text = format!("depends on {name}: an entity has no runtime");
            findings.push(Finding::new("entity", &manifest.path(), 0, text));
        }
    }
    findings
}

/// Libraries in manifests outside their one crate.
pub fn libraries(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in manifests(sources) {
        for name in manifest.dependencies(&["dependencies", "build-dependencies"]) {
            let home = ALONE
                .iter()
                .find(|(library, _)| name == *library || name.starts_with(&format!("{library}-")));
            if let Some((library, home)) = home
                && manifest.folder != *home
            {
                let text = format!("depends on {name}: {library} belongs to {home}");
                findings.push(Finding::new("library", &manifest.path(), 0, text));
            }
        }
    }
    findings
}

//! The examples: read by both readers alike, as their schema says, and without surprises.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;
use xce_profile::document::ServiceFile;
use xce_profile::{PolicyFile, PolicyKind};

use super::validator::accepts;
use crate::document::Document;
use crate::policy::read_policy;
use crate::schema::{Subject, schema};
use crate::service::{doubts, read_service};
use crate::syntax::Format;

/// The examples that are files of one of the formats.
fn examples() -> Vec<(PathBuf, Format)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut found: Vec<_> = [root.clone(), root.join("corpus")]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| Some((path.clone(), Format::of_file(path.to_str()?)?)))
        .collect();
    found.sort_by(|left, right| left.0.cmp(&right.0));
    found
}

/// What a file is an example of, as its name says.
fn policy_of(path: &Path) -> Option<(PolicyKind, Subject)> {
    let name = path.file_name()?.to_str()?;
    [
        ("profile-", PolicyKind::Profile, Subject::Profile),
        ("project-", PolicyKind::Project, Subject::Project),
        ("queue-", PolicyKind::Queue, Subject::Queue),
    ]
    .into_iter()
    .find(|(prefix, _, _)| name.starts_with(prefix))
    .map(|(_, kind, subject)| (kind, subject))
}

/// A text as plain serde reads it.
fn plain<T: DeserializeOwned>(format: Format, text: &str) -> Result<T, String> {
    match format {
        Format::Toml => toml::from_str(text).map_err(|error| error.to_string()),
        Format::Yaml => serde_saphyr::from_str(text).map_err(|error| error.to_string()),
        Format::Json => serde_json::from_str(text).map_err(|error| error.to_string()),
    }
}

#[test]
fn every_example_is_read_alike_by_both_readers_and_as_its_schema_says() {
    let examples = examples();
    for format in [Format::Toml, Format::Yaml, Format::Json] {
        assert!(examples.iter().any(|(_, found)| *found == format));
    }
    assert!(examples.len() >= 13);
    for (path, format) in examples {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.display().to_string();
        let document = Document::new(&name, &text, None);
        let value: Value = plain(format, &text).unwrap();
        let subject = match policy_of(&path) {
            Some((kind, subject)) => {
                let located = read_policy(&document, kind).map_err(|faults| faults.to_string());
                assert_eq!(located, plain::<PolicyFile>(format, &text), "{name}");
                located.unwrap().check(kind).unwrap();
                subject
            }
            None => {
                let located = read_service(&document, &|_| true);
                let located = located.map_err(|faults| faults.to_string());
                assert_eq!(located, plain::<ServiceFile>(format, &text), "{name}");
                Subject::Service
            }
        };
        assert_eq!(accepts(&schema(subject), &value), Ok(()), "{name}");
    }
}

#[test]
fn the_examples_of_the_first_page_leave_no_doubt() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for name in ["web.toml", "nginx.toml"] {
        let text = fs::read_to_string(root.join(name)).unwrap();
        let file = read_service(&Document::new(name, &text, None), &|_| true).unwrap();
        assert_eq!(doubts(&file), Vec::<String>::new(), "{name}");
    }
}

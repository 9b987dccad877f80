//! The examples: read by both readers alike, as their schema says, and without surprises.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use xce_profile::document::ServiceFile;

use super::validator::accepts;
use crate::document::Document;
use crate::schema::{Subject, schema};
use crate::service::{doubts, read_service};
use crate::syntax::Format;

/// Service files among the examples, with their formats.
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

#[test]
fn every_example_is_read_alike_by_both_readers_and_as_its_schema_says() {
    let schema = schema(Subject::Service);
    let examples = examples();
    for format in [Format::Toml, Format::Yaml, Format::Json] {
        assert!(examples.iter().any(|(_, found)| *found == format));
    }
    assert!(examples.len() >= 13);
    for (path, format) in examples {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.display().to_string();
        let (plain, value): (Result<ServiceFile, String>, Value) = match format {
            Format::Toml => (
                toml::from_str(&text).map_err(|error| error.to_string()),
                toml::from_str(&text).unwrap(),
            ),
            Format::Yaml => (
                serde_saphyr::from_str(&text).map_err(|error| error.to_string()),
                serde_saphyr::from_str(&text).unwrap(),
            ),
            Format::Json => (
                serde_json::from_str(&text).map_err(|error| error.to_string()),
                serde_json::from_str(&text).unwrap(),
            ),
        };
        let located = read_service(&Document::new(&name, &text, None), &|_| true);
        assert_eq!(
            located.map_err(|faults| faults.to_string()),
            plain,
            "{name}"
        );
        assert_eq!(accepts(&schema, &value), Ok(()), "{name}");
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

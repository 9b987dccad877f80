//! All text files of the project.

use std::fs;
use std::path::Path;

/// A text file.
#[derive(Debug)]
pub struct Source {
    /// Path from the root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// Whether this is code of tests only.
    pub fn is_test(&self) -> bool {
        let path = self.path.as_str();
        path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
    }

    /// The crate or folder at the root of the path, such as `actors/wal` or `config`.
    pub fn home(&self) -> &str {
        let mut slashes = self.path.match_indices('/').map(|(at, _)| at);
        let first = slashes.next().unwrap_or(0);
        let end = if self.path.starts_with("actors/") {
            slashes.next().unwrap_or(first)
        } else {
            first
        };
        // The shim is a crate inside a folder of another.
        if self.path.starts_with("actors/replica/shim/") {
            "actors/replica/shim"
        } else {
            &self.path[..end]
        }
    }

    /// Whether this is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Lines of code with their numbers: comments and what follows the first line of inline tests
    /// left out.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = self.text.find("\n#[cfg(test)]\nmod ").filter(|at| {
            // A module in another file is a source of its own.
            let rest = &self.text[at + 1..];
            rest.lines().nth(1).is_some_and(|line| line.ends_with('{'))
        });
        let text = &self.text[..end.unwrap_or(self.text.len())];
        numbered(text)
    }

    /// Lines of code and of inline tests with their numbers, comments left out.
    pub fn all_code(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.text)
    }
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().zip(1..).map(|(line, number)| {
        let code = match line.find("//") {
            // Not the `//` of an address.
            Some(at) if !line[..at].ends_with(':') => &line[..at],
            Some(_) | None => line,
        };
        (number, code)
    })
}

/// All text files.
#[derive(Debug)]
pub struct Sources {
    /// In the order of paths.
    pub files: Vec<Source>,
}

impl Sources {
    /// Reads all of them.
    ///
    /// # Panics
    /// When a file cannot be read.
    pub fn load() -> Self {
        let mut files = Vec::new();
        read(xce_tests::root(), "", &mut files);
        assert!(
            files.iter().any(|file| file.path == "Cargo.toml"),
            "the root is not where it was"
        );
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Self { files }
    }

    /// Files of Rust.
    pub fn rust(&self) -> impl Iterator<Item = &Source> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// Whether a path exists as a file or folder.
    pub fn exists(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files
            .iter()
            .any(|file| file.path == path || file.path.starts_with(&folder))
    }
}

fn read(directory: &Path, prefix: &str, files: &mut Vec<Source>) {
    for entry in fs::read_dir(directory).expect("a folder of the sources can be read") {
        let entry = entry.expect("an entry can be read");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().expect("an entry has a kind");
        if kind.is_dir() {
            if !matches!(name.as_str(), ".git" | "target") {
                read(&entry.path(), &format!("{path}/"), files);
            }
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            files.push(Source { path, text });
        }
    }
}

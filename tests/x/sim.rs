//! `cargo x sim`: random histories of the whole control plane, each from a seed.

use std::ops::Range;

use crate::cargo;

/// Seeds that are run unless others are named. Source: chosen, as many as in every test run.
const SEEDS: Range<u64> = 1..1_001;
/// Most hosts and controllers of a simulated cluster.
/// Source: chosen; larger ones are slower and meet nothing new.
const HOSTS_MAX: u64 = 16;
const CONTROLLERS_MAX: u64 = 7;

/// What is wanted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    seeds: Option<Range<u64>>,
    hosts: Option<u64>,
    controllers: Option<u64>,
    tell: bool,
}

/// Runs histories of the seeds `A..B`; `--tell` prints the story of the first that fails, or of one
/// alone.
pub fn run(words: &[String]) -> Result<u8, String> {
    let wanted = read(words)?;
    let seeds = wanted.seeds.unwrap_or(SEEDS);
    let mut settings = vec![("XCE_SEEDS", format!("{}..{}", seeds.start, seeds.end))];
    if let Some(hosts) = wanted.hosts {
        settings.push(("XCE_HOSTS", hosts.to_string()));
    }
    if let Some(controllers) = wanted.controllers {
        settings.push(("XCE_CONTROLLERS", controllers.to_string()));
    }
    if wanted.tell {
        settings.push(("XCE_TELL", "1".to_owned()));
    }
    cargo::simulate(&settings)
}

fn read(words: &[String]) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = |what: &str| {
            words
                .next()
                .cloned()
                .ok_or_else(|| format!("{word} wants {what}"))
        };
        match word.as_str() {
            "--seeds" => wanted.seeds = Some(range(&value("A..B")?)?),
            "--hosts" => wanted.hosts = Some(number(&value("a number")?, HOSTS_MAX)?),
            "--controllers" => {
                wanted.controllers = Some(number(&value("a number")?, CONTROLLERS_MAX)?);
            }
            "--tell" => wanted.tell = true,
            other => {
                return Err(format!(
                    "there is no `{other}`; there are --seeds A..B, --hosts N, --controllers N, --tell"
                ));
            }
        }
    }
    Ok(wanted)
}

fn number(text: &str, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|n| (1..=most).contains(n));
    number.ok_or_else(|| format!("`{text}` is not a number from 1 to {most}"))
}

/// `A..B`, without B; or one seed alone.
fn range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("`{text}` is no range of seeds such as 1..1001, nor one seed");
    let (from, to) = match text.split_once("..") {
        Some((from, to)) => (from.parse().ok(), to.parse().ok()),
        None => {
            let one: Option<u64> = text.parse().ok();
            (one, one.and_then(|one| one.checked_add(1)))
        }
    };
    match (from, to) {
        (Some(from), Some(to)) if from < to => Ok(from..to),
        (Some(_), Some(_)) => Err(format!("`{text}` holds no seed")),
        (None, _) | (_, None) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Wanted, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        read(&words)
    }

    #[test]
    fn words_are_read_or_refused_in_words() {
        let wanted = words("--seeds 3..9 --hosts 4 --tell").expect("it is good");
        assert_eq!(
            (wanted.seeds, wanted.hosts, wanted.tell),
            (Some(3..9), Some(4), true)
        );
        assert_eq!(words("--seeds 7").expect("it is good").seeds, Some(7..8));
        for (text, said) in [
            ("--seeds", "wants A..B"),
            ("--seeds 9..3", "holds no seed"),
            ("--seeds a..b", "no range"),
            ("--hosts 0", "from 1 to 16"),
            ("--seed 1", "there is no `--seed`"),
        ] {
            let error = words(text).expect_err(text);
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}

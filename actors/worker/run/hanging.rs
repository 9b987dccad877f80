//! Processes that were killed and do not die, in words.

use std::path::Path;

use xce_shim::machine::ProcessStat;

/// Most processes that are named.
///
/// Source: derived, what fits a line of a report.
const NAMED_MAX: usize = 5;

/// A process that is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Its id.
    pub pid: i32,
    /// Its name, as it gave it.
    pub name: String,
    /// Its state, one letter of `ps`: `D` waits in the kernel and takes no signal.
    pub state: char,
}

/// What is left of a start, in words; nothing where nothing is, or where `only_stuck` and all that is
/// left could still take a signal. Blocking.
pub fn look(start_dir: &Path, only_stuck: bool, since_wall_ms: u64) -> Option<String> {
    let left = xce_shim::reclaim::left(start_dir).ok()?;
    let left: Vec<Left> = left.iter().map(name).collect();
    describe(&left, only_stuck, since_wall_ms)
}

fn name(stat: &ProcessStat) -> Left {
    let path = format!("/proc/{}/comm", stat.pid);
    let mut name = std::fs::read_to_string(path).unwrap_or_default();
    name.retain(|letter| !letter.is_control());
    let state = char::from(stat.state);
    let pid = stat.pid;
    Left { pid, name, state }
}

fn describe(left: &[Left], only_stuck: bool, since_wall_ms: u64) -> Option<String> {
    if left.is_empty() || (only_stuck && left.iter().all(|process| process.state != 'D')) {
        return None;
    }
    let named: Vec<String> = left
        .iter()
        .take(NAMED_MAX)
        .map(|Left { pid, name, state }| format!("{pid} ({name}) in state {state}"))
        .collect();
    let more = left.len().saturating_sub(NAMED_MAX);
    let more = match more {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let seconds = since_wall_ms / 1_000 % 86_400;
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    Some(format!(
        "{}{more}, since {hours:02}:{minutes:02}:{seconds:02} UTC",
        named.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(pid: i32, state: char) -> Left {
        Left {
            pid,
            name: "dd".to_owned(),
            state,
        }
    }

    #[test]
    fn processes_are_named_with_their_state_and_since_when() {
        let at = 86_400_000 * 3 + 3_723_004;
        assert_eq!(describe(&[], false, at), None);
        assert_eq!(describe(&[left(7, 'S')], true, at), None);
        let both = [left(7, 'D'), left(9, 'R')];
        assert_eq!(
            describe(&both, true, at).unwrap(),
            "7 (dd) in state D, 9 (dd) in state R, since 01:02:03 UTC"
        );
        let many: Vec<_> = (1..=8).map(|pid| left(pid, 'S')).collect();
        let text = describe(&many, false, at).unwrap();
        assert!(
            text.contains("5 (dd) in state S and 3 more, since"),
            "{text}"
        );
    }
}

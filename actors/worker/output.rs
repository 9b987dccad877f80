//! Reading the output of a run, whether it has ended or not. Blocking.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use xce_replica::wire::{Output, ReadOutput};

use crate::run::launch::output_name;
use crate::state_dir::StateDir;

/// Most bytes in one answer. Source: `ReadOutput` promises 1 MiB at most.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// Reads what is asked for; what cannot be read is said in the answer.
pub fn read(dir: &StateDir, question: &ReadOutput) -> Output {
    let name = output_name(question.stderr);
    let empty = |complete, problem: String| Output {
        offset: question.offset,
        data: Vec::new(),
        complete,
        problem,
    };
    let is_live = dir.run(question.run).exists();
    let run_dir = if is_live {
        dir.run(question.run)
    } else {
        dir.ended(question.run)
    };
    let file = match File::open(run_dir.join(name)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_live => {
            return empty(false, String::new());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && run_dir.exists() => {
            return empty(true, String::new());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return empty(true, "the output of this run is no longer kept".to_owned());
        }
        Err(error) => return empty(!is_live, format!("the output cannot be read: {error}")),
    };
    match part(&file, question) {
        Ok((data, at_end)) => Output {
            offset: question.offset,
            data,
            complete: at_end && !is_live,
            problem: String::new(),
        },
        Err(error) => empty(!is_live, format!("the output cannot be read: {error}")),
    }
}

fn part(file: &File, question: &ReadOutput) -> io::Result<(Vec<u8>, bool)> {
    let length = file.metadata()?.len();
    let wanted = u64::from(question.bytes_max).min(ANSWER_BYTES_MAX);
    let there = length.saturating_sub(question.offset).min(wanted);
    let mut data = vec![0; usize::try_from(there).unwrap_or(0)];
    let mut filled = 0;
    while filled < data.len() {
        let at = question.offset + u64::try_from(filled).unwrap_or(0);
        match file.read_at(&mut data[filled..], at)? {
            0 => break,
            count => filled += count,
        }
    }
    data.truncate(filled);
    let reached = question
        .offset
        .saturating_add(u64::try_from(filled).unwrap_or(0));
    Ok((data, reached >= length))
}

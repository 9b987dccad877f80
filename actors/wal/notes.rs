//! What a controller remembers of the others beside its log: where they are, and how far each was
//! once seen to have the log. It serves when the own log cannot be read, and it shows one of them
//! that its directory is older than it should be.
//!
//! A text file, replaced as a whole; it may lag behind.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use crate::device::sync_directory;
use crate::peers::Member;
use crate::record::LogPosition;

/// Version of the file.
const FORMAT: u32 = 1;

/// What is known of one controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) address: String,
    pub(crate) voter: bool,
    /// Which directory it was; zero for unknown.
    pub(crate) birth: u64,
    /// The highest position at which its log was seen to equal the primary's.
    pub(crate) matched: Option<LogPosition>,
}

/// Notes of all controllers, by number.
pub(crate) type Pages = BTreeMap<u64, Note>;

/// The notes of a state directory.
#[derive(Debug)]
pub(crate) struct Notes {
    path: PathBuf,
    pages: Mutex<Pages>,
}

impl Notes {
    /// Those in a directory; none when there are none that can be read.
    pub(crate) fn of(directory: &Path) -> Self {
        let path = directory.join("MEMBERS");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        Self {
            pages: Mutex::new(parse(&text).unwrap_or_default()),
            path,
        }
    }

    /// A copy.
    pub(crate) fn pages(&self) -> Pages {
        self.lock().clone()
    }

    /// What is known of one.
    pub(crate) fn about(&self, node: u64) -> Option<Note> {
        self.lock().get(&node).cloned()
    }

    /// The others, with where they are.
    pub(crate) fn others(&self, than: u64) -> Vec<Member> {
        let pages = self.lock();
        let others = pages
            .iter()
            .filter(|(node, note)| **node != than && note.voter && !note.address.is_empty());
        let member = |(node, note): (&u64, &Note)| Member {
            node: *node,
            address: note.address.clone(),
        };
        others.map(member).collect()
    }

    /// Which directory a controller has now; what was known of another one no longer counts.
    pub(crate) fn is_born(&self, node: u64, birth: u64) {
        let mut pages = self.lock();
        let note = pages.entry(node).or_default();
        if note.birth != birth {
            note.birth = birth;
            note.matched = None;
        }
    }

    /// Takes over a view of the members and how far their logs were seen; true when it is news.
    pub(crate) fn follow(&self, seen: &[(Member, bool, Option<LogPosition>)]) -> bool {
        let mut pages = self.lock();
        let mut next = Pages::new();
        for (member, voter, matched) in seen {
            let known = pages.get(&member.node).cloned().unwrap_or_default();
            let note = Note {
                address: member.address.clone(),
                voter: *voter,
                birth: known.birth,
                matched: known.matched.max(*matched),
            };
            next.insert(member.node, note);
        }
        let is_news = next != *pages;
        *pages = next;
        is_news
    }

    /// Writes them down, in a way that a crash leaves the old or the new ones.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn save(&self) -> std::io::Result<()> {
        let text = text(&self.pages());
        let temporary = self.path.with_extension("tmp");
        std::fs::write(&temporary, text)?;
        std::fs::rename(&temporary, &self.path)
    }

    /// Makes what was saved durable.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn sync(&self) -> std::io::Result<()> {
        std::fs::File::open(&self.path)?.sync_all()?;
        self.path.parent().map_or(Ok(()), sync_directory)
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages
            .lock()
            .expect("no code panics while it holds this lock")
    }
}

fn text(pages: &Pages) -> String {
    let mut text = format!("format {FORMAT}\n");
    for (node, note) in pages {
        let (term, index) = note.matched.map_or((0, 0), |at| (at.term, at.index));
        let voter = if note.voter { "voter" } else { "learner" };
        let address = if note.address.is_empty() {
            "-"
        } else {
            &note.address
        };
        writeln!(
            text,
            "member {node} {voter} {:016x} {term} {index} {address}",
            note.birth
        )
        .expect("a text takes all");
    }
    let crc = crc32c::crc32c(text.as_bytes());
    writeln!(text, "sum {crc:08x}").expect("a text takes all");
    text
}

/// `None` when it is not what was written.
fn parse(text: &str) -> Option<Pages> {
    let (covered, sum) = text.trim_end().rsplit_once("\nsum ")?;
    let covered = format!("{covered}\n");
    if u32::from_str_radix(sum, 16).ok()? != crc32c::crc32c(covered.as_bytes()) {
        return None;
    }
    let mut lines = covered.lines();
    if lines.next()? != format!("format {FORMAT}") {
        return None;
    }
    let mut pages = Pages::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let ["member", node, voter, birth, term, index, address] = words[..] else {
            return None;
        };
        let index = index.parse().ok()?;
        let at = LogPosition {
            term: term.parse().ok()?,
            index,
        };
        let note = Note {
            address: if address == "-" { "" } else { address }.to_owned(),
            voter: voter == "voter",
            birth: u64::from_str_radix(birth, 16).ok()?,
            matched: (index > 0).then_some(at),
        };
        pages.insert(node.parse().ok()?, note);
    }
    Some(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(term: u64, index: u64) -> LogPosition {
        LogPosition { term, index }
    }

    fn member(node: u64) -> Member {
        Member {
            node,
            address: format!("host{node}:1"),
        }
    }

    #[test]
    fn what_is_saved_comes_back_and_what_is_damaged_does_not() {
        let dir = tempfile::TempDir::new().unwrap();
        let notes = Notes::of(dir.path());
        assert!(notes.others(1).is_empty());
        let seen = [
            (member(1), true, Some(at(3, 9))),
            (member(2), true, Some(at(3, 7))),
            (member(3), false, None),
        ];
        notes.is_born(2, 77);
        assert!(notes.follow(&seen));
        assert!(!notes.follow(&seen));
        notes.save().unwrap();
        notes.sync().unwrap();
        let again = Notes::of(dir.path());
        assert_eq!(again.pages(), notes.pages());
        // One without a vote cannot take anybody in.
        assert_eq!(again.others(1), [member(2)]);
        assert_eq!(again.about(2).unwrap().birth, 77);
        let path = dir.path().join("MEMBERS");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("host2", "host4")).unwrap();
        assert!(Notes::of(dir.path()).pages().is_empty());
    }

    #[test]
    fn the_highest_position_counts_until_the_directory_is_another() {
        let dir = tempfile::TempDir::new().unwrap();
        let notes = Notes::of(dir.path());
        notes.is_born(2, 1);
        notes.follow(&[(member(2), true, Some(at(3, 7)))]);
        notes.follow(&[(member(2), true, None)]);
        notes.follow(&[(member(2), true, Some(at(2, 99)))]);
        assert_eq!(notes.about(2).unwrap().matched, Some(at(3, 7)));
        notes.is_born(2, 2);
        assert_eq!(notes.about(2).unwrap().matched, None);
        assert!(notes.follow(&[]));
        assert_eq!(notes.about(2), None);
    }
}

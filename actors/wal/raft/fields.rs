//! The fields of messages between controllers, as bytes.
//!
//! Numbers are little-endian. A length is checked against what is there before it is believed.

use std::sync::Arc;

use super::message::{Greeting, SnapshotName, VERSION};
use crate::peers::Member;
use crate::record::{EntryKind, LogPosition, StoredEntry, StoredVote};

/// Bytes of a message that is being written.
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
}

impl Output {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![VERSION],
        }
    }

    pub(super) fn u8(&mut self, number: u8) {
        self.bytes.push(number);
    }

    pub(super) fn u64(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn length(&mut self, length: usize) {
        let length = u32::try_from(length).expect("a message is far below 4 GiB");
        self.bytes.extend_from_slice(&length.to_le_bytes());
    }

    pub(super) fn text(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn vote(&mut self, vote: StoredVote) {
        self.u64(vote.term);
        self.u64(vote.node);
        self.u8(u8::from(vote.committed));
    }

    pub(super) fn position(&mut self, at: Option<LogPosition>) {
        self.u8(u8::from(at.is_some()));
        if let Some(at) = at {
            self.u64(at.term);
            self.u64(at.index);
        }
    }

    pub(super) fn entries(&mut self, entries: &[StoredEntry]) {
        let payload: usize = entries.iter().map(|entry| entry.payload.len() + 21).sum();
        self.bytes.reserve(payload + 4);
        self.length(entries.len());
        for entry in entries {
            self.entry(entry);
        }
    }

    pub(super) fn greeting(&mut self, greeting: &Greeting) {
        self.u64(greeting.node);
        self.u64(greeting.birth);
        self.u64(greeting.start);
        self.u64(greeting.term);
        self.position(greeting.last);
    }

    pub(super) fn some_member(&mut self, member: Option<&Member>) {
        self.u8(u8::from(member.is_some()));
        if let Some(member) = member {
            self.member(member);
        }
    }

    pub(super) fn digest(&mut self, digest: Option<&[u8; 32]>) {
        self.u8(u8::from(digest.is_some()));
        if let Some(digest) = digest {
            self.bytes.extend_from_slice(digest);
        }
    }

    pub(super) fn entry(&mut self, entry: &StoredEntry) {
        self.u64(entry.position.term);
        self.u64(entry.position.index);
        self.u8(match entry.kind {
            EntryKind::Blank => 0,
            EntryKind::Groups => 1,
            EntryKind::Membership => 2,
        });
        self.text(&entry.payload);
    }

    pub(super) fn member(&mut self, member: &Member) {
        self.u64(member.node);
        self.text(member.address.as_bytes());
    }

    pub(super) fn name(&mut self, name: &SnapshotName) {
        self.u64(name.last.term);
        self.u64(name.last.index);
        self.u64(name.bytes);
        self.bytes.extend_from_slice(&name.hash);
    }
}

/// Bytes that are consumed from the front.
pub(super) struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, String> {
        let mut input = Self { bytes };
        match input.u8()? {
            VERSION => Ok(input),
            other => Err(format!(
                "the message has version {other}, this program knows {VERSION}"
            )),
        }
    }

    pub(super) fn end(&self) -> Result<(), String> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        Err(format!("{} bytes follow the message", self.bytes.len()))
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self
            .bytes
            .split_at_checked(count)
            .ok_or("the message is cut off")?;
        self.bytes = rest;
        Ok(head)
    }

    pub(super) fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], String> {
        let (head, rest) = self
            .bytes
            .split_first_chunk::<BYTES>()
            .ok_or("the message is cut off")?;
        self.bytes = rest;
        Ok(*head)
    }

    pub(super) fn u8(&mut self) -> Result<u8, String> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn length(&mut self) -> Result<usize, String> {
        self.array()
            .map(u32::from_le_bytes)
            .map(|length| length as usize)
    }

    pub(super) fn text(&mut self) -> Result<&'a [u8], String> {
        let length = self.length()?;
        self.take(length)
    }

    pub(super) fn flag(&mut self) -> Result<bool, String> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("{other} is neither yes nor no")),
        }
    }

    pub(super) fn vote(&mut self) -> Result<StoredVote, String> {
        Ok(StoredVote {
            term: self.u64()?,
            node: self.u64()?,
            committed: self.flag()?,
        })
    }

    pub(super) fn position(&mut self) -> Result<Option<LogPosition>, String> {
        if !self.flag()? {
            return Ok(None);
        }
        Ok(Some(LogPosition {
            term: self.u64()?,
            index: self.u64()?,
        }))
    }

    pub(super) fn entry(&mut self) -> Result<StoredEntry, String> {
        let position = LogPosition {
            term: self.u64()?,
            index: self.u64()?,
        };
        let kind = match self.u8()? {
            0 => EntryKind::Blank,
            1 => EntryKind::Groups,
            2 => EntryKind::Membership,
            other => return Err(format!("entries of kind {other} are not known here")),
        };
        Ok(StoredEntry {
            position,
            kind,
            payload: Arc::from(self.text()?),
        })
    }

    pub(super) fn greeting(&mut self) -> Result<Greeting, String> {
        Ok(Greeting {
            node: self.u64()?,
            birth: self.u64()?,
            start: self.u64()?,
            term: self.u64()?,
            last: self.position()?,
        })
    }

    pub(super) fn words(&mut self) -> Result<String, String> {
        let bytes = self.text()?.to_vec();
        String::from_utf8(bytes).map_err(|_| "a text is not UTF-8".to_owned())
    }

    pub(super) fn member(&mut self) -> Result<Member, String> {
        Ok(Member {
            node: self.u64()?,
            address: self.words()?,
        })
    }

    pub(super) fn name(&mut self) -> Result<SnapshotName, String> {
        Ok(SnapshotName {
            last: LogPosition {
                term: self.u64()?,
                index: self.u64()?,
            },
            bytes: self.u64()?,
            hash: self.array()?,
        })
    }
}

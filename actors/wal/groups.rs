//! The payload of an entry: many groups one after another.
//!
//! ```text
//!  version (u32)  count (u32)  length (u32) * count  padding to 16  [group, padding to 16]*
//! ```
//!
//! Groups start at multiples of 16, so an archive inside can be read in place when the payload is.

use std::sync::Arc;

use crate::record::u32_at;

/// Version of the payload's layout.
const VERSION: u32 = 1;
/// Source: the alignment that archived records need.
const ALIGN: usize = 16;
/// What a mark ends with; whoever does not know it sees no groups.
const MARK: &[u8; 16] = b"XCE compare here";
/// Bytes before the lengths.
const HEAD_BYTES: usize = 8;

/// Packs groups into a payload.
pub(crate) fn pack<Group: AsRef<[u8]>>(groups: &[Group]) -> Arc<[u8]> {
    let table = (HEAD_BYTES + 4 * groups.len()).next_multiple_of(ALIGN);
    let sizes = groups
        .iter()
        .map(|group| group.as_ref().len().next_multiple_of(ALIGN));
    let mut out = Vec::with_capacity(table + sizes.sum::<usize>());
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&bounded(groups.len()).to_le_bytes());
    for group in groups {
        out.extend_from_slice(&bounded(group.as_ref().len()).to_le_bytes());
    }
    out.resize(table, 0);
    for group in groups {
        out.extend_from_slice(group.as_ref());
        out.resize(out.len().next_multiple_of(ALIGN), 0);
    }
    out.into()
}

/// The groups of a payload, in order.
///
/// # Errors
/// Says what is wrong with the payload.
pub(crate) fn unpack(payload: &[u8]) -> Result<Vec<&[u8]>, String> {
    if payload.len() < HEAD_BYTES {
        return Err("the head of the groups is cut off".into());
    }
    let version = u32_at(payload, 0);
    if version != VERSION {
        return Err(format!("version {version} of groups is not known"));
    }
    let count = u32_at(payload, 4) as usize;
    let table = count
        .checked_mul(4)
        .and_then(|bytes| payload.get(HEAD_BYTES..HEAD_BYTES.checked_add(bytes)?))
        .ok_or_else(|| format!("the table of {count} groups is cut off"))?;
    let mut groups = Vec::with_capacity(count);
    let mut at = (HEAD_BYTES + table.len()).next_multiple_of(ALIGN);
    for place in 0..count {
        let len = u32_at(table, place * 4) as usize;
        let group = payload.get(at..at.saturating_add(len));
        groups.push(group.ok_or_else(|| format!("group {place} of {count} is cut off"))?);
        at = (at + len).next_multiple_of(ALIGN);
    }
    Ok(groups)
}

/// A payload without groups that asks for a hash of the state.
pub(crate) fn mark() -> Arc<[u8]> {
    let mut out = pack::<&[u8]>(&[]).to_vec();
    out.extend_from_slice(MARK);
    out.into()
}

/// Whether a payload is such a mark.
pub(crate) fn is_mark(payload: &[u8]) -> bool {
    payload.len() == ALIGN + MARK.len() && payload.ends_with(MARK)
}

fn bounded(count: usize) -> u32 {
    u32::try_from(count).expect("entries are bounded by the configuration")
}

//! A growable buffer whose bytes start at a block boundary, as direct writes demand.

use crate::batch::BLOCK_BYTES;

/// Bytes that start at a multiple of 4096 in memory. Never shrinks.
pub(crate) struct AlignedBuffer {
    store: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let store = vec![0; bytes + BLOCK_BYTES];
        let start = store.as_ptr().align_offset(BLOCK_BYTES);
        assert!(start < BLOCK_BYTES, "byte pointers can always be aligned");
        Self {
            store,
            start,
            len: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.grow(bytes.len());
        let at = self.start + self.len;
        self.store[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Appends zeros up to the next multiple of `unit`.
    pub(crate) fn pad(&mut self, unit: usize) {
        let more = self.len.next_multiple_of(unit) - self.len;
        self.grow(more);
        let at = self.start + self.len;
        self.store[at..at + more].fill(0);
        self.len += more;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.store[self.start..self.start + self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.store[self.start..self.start + self.len]
    }

    fn grow(&mut self, more: usize) {
        let needed = self.len + more;
        if self.start + needed > self.store.len() {
            let mut larger = Self::with_capacity(needed.next_power_of_two());
            larger.store[larger.start..larger.start + self.len].copy_from_slice(self.bytes());
            larger.len = self.len;
            *self = larger;
        }
    }
}

//! Sets of array elements as sorted, inclusive ranges that do not touch each other.

/// A set of elements.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    /// The union of any ranges; ones that end before they begin are left out.
    pub fn of(ranges: &[(u32, u32)]) -> Self {
        let mut sorted: Vec<(u32, u32)> = ranges.iter().copied().filter(|(a, b)| a <= b).collect();
        sorted.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(sorted.len());
        for (first, last) in sorted {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last)
                }
                Some(_) | None => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// The ranges, sorted.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of elements.
    pub fn count(&self) -> u64 {
        self.0
            .iter()
            .map(|(first, last)| u64::from(last - first) + 1)
            .sum()
    }

    /// The lowest element.
    pub fn first(&self) -> Option<u32> {
        self.0.first().map(|(first, _)| *first)
    }

    /// Whether it has the element.
    pub fn contains(&self, element: u32) -> bool {
        let place = self.0.partition_point(|(_, last)| *last < element);
        self.0
            .get(place)
            .is_some_and(|(first, _)| *first <= element)
    }

    /// All elements, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// Adds an element; false when it was there.
    pub(crate) fn insert(&mut self, element: u32) -> bool {
        let place = self.0.partition_point(|(_, last)| *last < element);
        if self
            .0
            .get(place)
            .is_some_and(|(first, _)| *first <= element)
        {
            return false;
        }
        let joins_before = place > 0 && self.0[place - 1].1.checked_add(1) == Some(element);
        let joins_after = self
            .0
            .get(place)
            .is_some_and(|(first, _)| element.checked_add(1) == Some(*first));
        match (joins_before, joins_after) {
            (true, true) => {
                self.0[place - 1].1 = self.0[place].1;
                self.0.remove(place);
            }
            (true, false) => self.0[place - 1].1 = element,
            (false, true) => self.0[place].0 = element,
            (false, false) => self.0.insert(place, (element, element)),
        }
        true
    }

    /// With all elements of another.
    pub(crate) fn with(&self, other: &Self) -> Self {
        Self::of(&[self.as_slice(), other.as_slice()].concat())
    }

    /// Takes an element out; false when it was not there.
    pub(crate) fn remove(&mut self, element: u32) -> bool {
        let place = self.0.partition_point(|(_, last)| *last < element);
        let Some(&(first, last)) = self.0.get(place) else {
            return false;
        };
        if first > element {
            return false;
        }
        match (first == element, last == element) {
            (true, true) => {
                self.0.remove(place);
            }
            (true, false) => self.0[place].0 = element + 1,
            (false, true) => self.0[place].1 = element - 1,
            (false, false) => {
                self.0[place].1 = element - 1;
                self.0.insert(place + 1, (element + 1, last));
            }
        }
        true
    }

    /// Whether it is sorted, without empty or touching ranges.
    pub(crate) fn is_sound(&self) -> bool {
        self.0.iter().all(|(first, last)| first <= last)
            && self
                .0
                .windows(2)
                .all(|pair| u64::from(pair[0].1) + 1 < u64::from(pair[1].0))
    }
}

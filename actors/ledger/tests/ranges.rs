use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::Ranges;

#[test]
fn unions_join_what_touches() {
    let ranges = Ranges::of(&[(5, 7), (1, 2), (3, 3), (7, 9), (20, 10)]);
    assert_eq!(ranges.as_slice(), [(1, 3), (5, 9)]);
    assert_eq!((ranges.count(), ranges.first()), (8, Some(1)));
    assert_eq!(Ranges::of(&[(0, u32::MAX)]).count(), 1 << 32);
}

proptest! {
    #[test]
    fn behave_like_a_set(steps in prop::collection::vec((any::<bool>(), 0_u32..20), 0..200)) {
        let mut set = BTreeSet::new();
        let mut ranges = Ranges::default();
        for (insert, element) in steps {
            let (changed, expected) = if insert {
                (ranges.insert(element), set.insert(element))
            } else {
                (ranges.remove(element), set.remove(&element))
            };
            prop_assert_eq!(changed, expected);
            prop_assert!(ranges.is_sound());
            prop_assert!(ranges.iter().eq(set.iter().copied()));
            prop_assert_eq!(ranges.count(), set.len() as u64);
            for probe in 0..20 {
                prop_assert_eq!(ranges.contains(probe), set.contains(&probe));
            }
        }
    }
}

//! What a suite of the conformance run says of itself: `cargo x conformance` reads these lines.
//!
//! A plain test run does a bounded part. `XCE_CONFORMANCE=FIRST..LAST` asks for all of it, once for
//! each seed.

use std::ops::Range;

/// Asks for everything, with these seeds.
const VARIABLE: &str = "XCE_CONFORMANCE";

/// The seed of a plain test run. Source: chosen.
const SEED: u64 = 7;

/// How much of a suite is run.
pub(crate) struct Tally {
    seeds: Range<u64>,
    stride: u64,
}

impl Tally {
    /// Everything when it is asked for, else every `stride`th case.
    pub(crate) fn begin(stride: u64) -> Self {
        let Ok(text) = std::env::var(VARIABLE) else {
            return Self {
                seeds: SEED..SEED + 1,
                stride,
            };
        };
        let (first, last) = text.split_once("..").expect("FIRST..LAST");
        Self {
            seeds: first.parse().unwrap()..last.parse().unwrap(),
            stride: 1,
        }
    }

    pub(crate) fn seeds(&self) -> Range<u64> {
        self.seeds.clone()
    }

    pub(crate) fn stride(&self) -> u64 {
        self.stride
    }

    /// Says how many cases passed; only those that did come here.
    pub(crate) fn report(&self, suite: &str, cases: u64) {
        assert!(cases > 0, "{suite}: nothing was run");
        let Range { start, end } = self.seeds;
        println!("conformance | {suite} | {cases} | {start}..{end}");
    }
}

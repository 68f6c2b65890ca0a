//! A hash of the order of events.

use crate::Time;

/// A hash that depends on the order of its inputs.
#[derive(Debug)]
pub(super) struct OrderHash(pub(super) u64);

impl Default for OrderHash {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl OrderHash {
    pub(super) fn note(&mut self, time: Time, rank: u32, what: u64) {
        for word in [time.ps(), u64::from(rank), what] {
            let mixed = (self.0 ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
            self.0 = mixed ^ (mixed >> 32);
        }
    }
}

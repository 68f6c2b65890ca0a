//! Load balancing: the emptiest region first. The RFC's default.

use super::{Rank, RegionPolicy};

pub(super) static LOAD_BALANCING: RegionPolicy = RegionPolicy {
    name: "load-balancing",
    summary: "the region with the most free bytes first; spreads blocks over all regions",
    order: MostFree::order,
    first: MostFree::first,
    thread_home: false,
};

/// Descending by free bytes.
pub(super) struct MostFree;

impl Rank for MostFree {
    fn rank(free: u64, _size: u64) -> u64 {
        !free
    }
}

//! Fill first: the fullest region that can still hold the request.

use super::{LAST, Rank, RegionPolicy};

pub(super) static FILL_FIRST: RegionPolicy = RegionPolicy {
    name: "fill-first",
    summary: "the fullest region that still has room first; needs the fewest regions",
    order: LeastFree::order,
    first: LeastFree::first,
    thread_home: false,
};

/// Ascending by free bytes; regions with too few free bytes are left out.
struct LeastFree;

impl Rank for LeastFree {
    fn rank(free: u64, size: u64) -> u64 {
        if free >= size { free } else { LAST }
    }
}

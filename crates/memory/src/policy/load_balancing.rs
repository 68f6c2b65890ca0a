//! Load balancing: the emptiest region first. The RFC's default.

use std::cmp::Reverse;

use super::{RegionPolicy, RegionView};
use crate::Bytes;

pub(super) static LOAD_BALANCING: RegionPolicy = RegionPolicy {
    name: "load-balancing",
    summary: "the region with the most free bytes first; spreads blocks over all regions",
    order,
    thread_home: false,
};

/// Descending by free bytes. `sort_by_key` is stable, so the older of two equal regions comes first.
pub(super) fn order(regions: &mut [RegionView], _size: Bytes) -> usize {
    regions.sort_by_key(|region| Reverse(region.free));
    regions.len()
}

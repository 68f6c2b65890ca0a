//! Fill first: the fullest region that can still hold the request.

use super::{RegionPolicy, RegionView};
use crate::Bytes;

pub(super) static FILL_FIRST: RegionPolicy = RegionPolicy {
    name: "fill-first",
    summary: "the fullest region that still has room first; needs the fewest regions",
    order,
    thread_home: false,
};

/// Ascending by free bytes; regions with too few free bytes are left out.
fn order(regions: &mut [RegionView], size: Bytes) -> usize {
    let fits = |region: &RegionView| region.free >= size;
    regions.sort_by_key(|region| (!fits(region), region.free));
    regions.iter().take_while(|region| fits(region)).count()
}

//! Candidates among the settings, as texts for [`FlexConfig::update`](crate::flex::FlexConfig::update).

use crate::Bytes;
use crate::flex::config::{Growth, MAX_REGIONS, Release, Sizes};
use crate::flex::error::RegionLimit;
use crate::flex::still::Still;
use crate::policy;

/// Returns settings that matter only once a request finds no room: another limit, or another region for it.
pub(super) fn limits(still: &Still, limit: RegionLimit) -> Vec<String> {
    let config = &still.config;
    let mut settings = Vec::new();
    if let RegionLimit::MaxRegions(count) = limit {
        let more = still.regions.len() + 1;
        settings.extend((count < MAX_REGIONS).then(|| format!("max_regions:{more}")));
    }
    if config.growth == Growth::Fixed {
        settings.extend(own_region(still));
    }
    if config.sizes == Sizes::Listed {
        settings.push("sizes:fitted".to_owned());
    }
    if config.release == Release::Never {
        settings.push(format!("release:when_idle({})", text(still.device.total)));
    }
    settings
}

/// Adds a size for the request to the fallback sizes, in whole MiB.
fn own_region(still: &Still) -> Option<String> {
    let size = still.request.size.align_up(Bytes::mib(1).max(still.config.alignment))?;
    let sizes = &still.config.fallback_sizes;
    (!sizes.contains(&size)).then(|| fallback_sizes(sizes.iter().copied().chain([size])))
}

fn fallback_sizes(sizes: impl Iterator<Item = Bytes>) -> String {
    format!("fallback_sizes:[{}]", sizes.map(text).collect::<Vec<_>>().join(";"))
}

/// Returns other kinds of growable regions if the device supports them. Their addresses are at least four times the
/// memory of the device.
pub(super) fn growth(still: &Still) -> Vec<String> {
    let Some(granule) = still.device.granule else { return Vec::new() };
    let ample = Bytes::new(still.device.total.get().saturating_mul(4)).align_up(granule);
    let size = match still.config.growth {
        Growth::Fixed => ample,
        Growth::Growable(size) | Growth::Recycle(size) => ample.map(|ample| ample.max(size)),
    };
    let kinds = size.map(|size| [Growth::Growable(size), Growth::Recycle(size)]);
    let others = kinds.into_iter().flatten().filter(|&growth| growth != still.config.growth);
    others.filter_map(growth_text).collect()
}

fn growth_text(growth: Growth) -> Option<String> {
    match growth {
        Growth::Fixed => None,
        Growth::Growable(size) => Some(format!("growth:growable({})", text(size))),
        Growth::Recycle(size) => Some(format!("growth:recycle({})", text(size))),
    }
}

/// Returns settings that place blocks elsewhere: another strategy, or one region for all memory.
pub(super) fn policies(still: &Still) -> Vec<String> {
    let whole = still.device.memory.align_down(still.config.alignment);
    let fixed = still.config.growth == Growth::Fixed && still.config.fallback_sizes != [whole];
    let whole = (fixed && !whole.is_zero()).then(|| fallback_sizes([whole].into_iter()));
    blocks(still).chain(regions(still)).chain(whole).collect()
}

/// Returns pairs of changes: block and region strategies, growth and block strategies.
pub(super) fn pairs(still: &Still, growth: &[String]) -> Vec<String> {
    let others: Vec<_> = regions(still).chain(growth.iter().cloned()).collect();
    let pairs =
        others.iter().flat_map(|other| blocks(still).map(move |block| format!("{block},{other}")));
    pairs.collect()
}

fn blocks(still: &Still) -> impl Iterator<Item = String> + '_ {
    let others = policy::BLOCK.iter().filter(|policy| policy.name != still.config.block.name);
    others.map(|policy| format!("block:{}", policy.name))
}

/// Thread homes are left out: the region of a block would depend on its thread, which is not recorded.
fn regions(still: &Still) -> impl Iterator<Item = String> + '_ {
    let tried = policy::REGION.iter().filter(|policy| !policy.thread_home);
    let others = tried.filter(|policy| policy.name != still.config.region.name);
    others.map(|policy| format!("region:{}", policy.name))
}

/// Formats a size as configurations spell it, in the largest unit that is exact.
fn text(size: Bytes) -> String {
    let units = ["TiB", "GiB", "MiB", "KiB"].into_iter().zip([40, 30, 20, 10]);
    let mut exact = units.filter(|&(_, shift)| size.is_aligned(Bytes::new(1 << shift)));
    match exact.next().filter(|_| !size.is_zero()) {
        Some((unit, shift)) => format!("{}{unit}", size.get() >> shift),
        None => format!("{}B", size.get()),
    }
}

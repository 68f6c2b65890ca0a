//! Settings of PyTorch's allocator that are available today, with the memory under each.

use super::least::{self, Least};
use super::policy::{EXPANDABLE, PYTORCH};
use super::pytorch::PyTorch;
use super::{Outcome, Target, run};
use crate::trace::{Recording, Trace};
use cubeyard_units::Bytes;

/// Values of `max_split_size_mb` that are tried. PyTorch refuses values up to 20.
const MAX_SPLITS_MIB: [u64; 4] = [32, 64, 128, 512];
/// Environment variable from which PyTorch reads its settings. Newer releases also read `PYTORCH_ALLOC_CONF`.
pub(super) const VARIABLE: &str = "PYTORCH_CUDA_ALLOC_CONF";
/// Fraction below which savings are not mentioned.
pub(super) const NOTICEABLE: f64 = 0.001;

/// Setting of PyTorch's allocator, with the memory under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Value of `PYTORCH_CUDA_ALLOC_CONF`; empty for the setting that is the basis of comparison.
    pub text: String,
    /// Peak of the reserved bytes without a limit.
    pub reserved: Bytes,
    /// Least memory in which the allocator serves the trace with this setting.
    pub least: Least,
}

impl Setting {
    fn new(text: &str, least: Least) -> Self {
        Self { text: text.to_owned(), reserved: least.unlimited, least }
    }

    /// Returns whether this setting saves noticeably over `other`, with or without a limit, and does not need more
    /// under a limit.
    fn saves(&self, other: &Self) -> bool {
        let less = |mine: Bytes, theirs: Bytes| {
            mine.get() as f64 <= theirs.get() as f64 * (1.0 - NOTICEABLE)
        };
        let [mine, theirs] = [self, other].map(|setting| setting.least.memory());
        mine <= theirs && (less(self.reserved, other.reserved) || less(mine, theirs))
    }
}

/// Returns the current setting, then others that save memory, given the least memory of policies by name.
///
/// Empty if the trace was recorded by another allocator, if it was recorded with expandable segments (no other setting
/// helps then), or if PyTorch's default was not replayed.
pub(super) fn settings(least: impl Fn(&str) -> Option<Least>, trace: &Trace) -> Vec<Setting> {
    if !trace.recording.as_ref().is_none_or(Recording::can_expand) {
        return Vec::new();
    }
    let Some(present) = least(PYTORCH).map(|least| Setting::new("", least)) else {
        return Vec::new();
    };
    let expandable = least(EXPANDABLE).map(|least| Setting::new("expandable_segments:True", least));
    let others = expandable.into_iter().chain(best_split(trace, present.reserved));
    let saving: Vec<_> = others.filter(|setting| setting.saves(&present)).collect();
    [present].into_iter().chain(saving).collect()
}

/// Returns the value of `max_split_size_mb` that reserves the least, if it reserves less than `present`.
fn best_split(trace: &Trace, present: Bytes) -> Option<Setting> {
    let each = MAX_SPLITS_MIB.map(|mib| (outcome(trace, mib), mib));
    let served = each.into_iter().filter(|(outcome, _)| outcome.failed.is_none());
    let (outcome, mib) = served.min_by_key(|(outcome, mib)| (outcome.peak_reserved, *mib))?;
    if outcome.peak_reserved >= present {
        return None;
    }
    let make = |limit| {
        let model = PyTorch::splitting_below(Bytes::mib(mib), None).of(trace).limited(Some(limit));
        Box::new(model) as Box<dyn Target>
    };
    let least = least::search(trace, &make, &outcome)?;
    let text = format!("max_split_size_mb:{mib}");
    Some(Setting { text, reserved: outcome.peak_reserved, least })
}

fn outcome(trace: &Trace, mib: u64) -> Outcome {
    let mut model = PyTorch::splitting_below(Bytes::mib(mib), None).of(trace);
    run(trace, &mut model, &mut |_| {})
}

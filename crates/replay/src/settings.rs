//! Settings of PyTorch's allocator that are available today, with the memory under each.

use super::least::{self, Least};
use super::policy::{EXPANDABLE, PYTORCH};
use super::pytorch::PyTorch;
use super::{Outcome, Target, run};
use crate::trace::{Recording, Trace};
use cubeyard_units::Bytes;

/// Values of `max_split_size_mb` that are tried. PyTorch refuses values up to 20.
const MAX_SPLITS_MIB: [u64; 4] = [32, 64, 128, 512];
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

/// Returns lines with the settings that apply to all of these traces; empty if none saves memory.
///
/// Several traces belong to several devices; the figures are for the device that needs the most.
pub(super) fn lines(traces: &[&[Setting]]) -> Vec<String> {
    let most = |text: &str| {
        let found = traces.iter().map(|settings| {
            let setting = settings.iter().find(|setting| setting.text == text)?;
            Some((setting.reserved, setting.least.memory()))
        });
        let found = found.collect::<Option<Vec<_>>>()?;
        Some((found.iter().map(|it| it.0).max()?, found.iter().map(|it| it.1).max()?))
    };
    let Some((held, ran)) = most("") else { return Vec::new() };
    let offered = traces.first().copied().unwrap_or_default();
    let mut lines = Vec::new();
    for setting in offered.iter().filter(|setting| !setting.text.is_empty()) {
        let Some((holds, runs)) = most(&setting.text) else { continue };
        lines.push(format!("  PYTORCH_CUDA_ALLOC_CONF={}", setting.text));
        lines.push(format!("    holds {holds}, not {held}; runs in {runs}, not {ran}"));
    }
    if !lines.is_empty() {
        let heading = "To type today (newer releases of PyTorch read PYTORCH_ALLOC_CONF instead):";
        lines.insert(0, heading.to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::script::Script;
    use crate::{Report, advice, policy};

    fn report(script: &str) -> Report {
        let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
        let row = |name: &&str| policy(name).unwrap().replay(&trace, &mut || 0, &mut |_| {});
        let rows = [PYTORCH, EXPANDABLE, "recycle"].iter().map(row).collect();
        let mut report = Report { rows, ..Report::new(&trace) };
        report.find_least(&trace);
        report
    }

    /// Blocks of 100 MiB are cut for small requests that stay, so that the next large ones need new memory.
    fn fragmenting() -> String {
        let round = |round| {
            format!("alloc large{round} 100 MiB\nfree large{round}\nalloc kept{round} 11 MiB\n")
        };
        let rounds: Vec<_> = (0..4).map(round).collect();
        rounds.concat() + "alloc last 100 MiB\n"
    }

    #[test]
    fn settings_that_save_memory_end_the_advice_with_their_figures() {
        let report = report(&fragmenting());
        let texts: Vec<_> = report.settings.iter().map(|setting| setting.text.as_str()).collect();
        assert_eq!(texts, ["", "expandable_segments:True", "max_split_size_mb:32"]);
        // A block of 100 MiB that is not cut can be used again: 100 + 4 × 12.
        assert_eq!(report.settings[2].reserved, Bytes::mib(148));
        let advice = advice(&[report]);
        let lines: Vec<_> = advice.lines().collect();
        assert!(lines[1].starts_with("To type today"), "{advice}");
        assert_eq!(lines[2], "  PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
        assert!(lines[5].contains("holds 148.00 MiB, not"), "{advice}");
        assert!(lines.iter().skip(1).all(|line| line.chars().count() <= 80), "{advice}");
    }

    #[test]
    fn where_nothing_saves_memory_nothing_is_to_be_typed() {
        let report = report("alloc a 20 MiB\n");
        assert_eq!(report.settings.len(), 1);
        assert!(!advice(&[report]).contains("ALLOC_CONF"));
    }
}

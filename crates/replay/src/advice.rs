//! Advice computed from the rows of reports, with a sentence for each report that yields none.

mod answer;

use super::policy::{EXPANDABLE, PYTORCH};
use super::settings::NOTICEABLE;
use super::{Kind, ReplayPolicy, Report, Row, refused};
use crate::trace::{EmptiedCache, RecordedBy, Recording};
use cubeyard_units::Bytes;

pub use answer::{Answer, answer};

/// Relative distance from the best policy within which expandable segments are recommended as well.
const NEAR: f64 = 0.01;

/// Returns a sentence that names the policy to use. Further lines name the reports that are left out because of a
/// [`Doubt`](super::Doubt), and the policies that would have served a failed request. The last lines are PyTorch
/// settings other than the one that the [`answer`] recommends.
///
/// The basis of the comparison is the memory that PyTorch needs, as in the answer. If the least memory was not
/// determined, it is the number of bytes that PyTorch reserved: as recorded, or else according to its model.
pub fn advice(reports: &[Report]) -> String {
    let telling: Vec<_> = reports.iter().filter(|report| !is_idle(report)).collect();
    let sound: Vec<_> = telling.iter().copied().filter(|report| report.doubt().is_none()).collect();
    let mut lines = Vec::new();
    match &sound[..] {
        [] if telling.is_empty() => {
            lines.push("Nothing was allocated, so there is nothing to save.".to_owned());
        }
        [] => {}
        [report] => lines.push(on_one(report)),
        _ => lines.push(on_several(&sound)),
    }
    let doubts = telling.iter().filter_map(|report| Some((report, report.doubt()?)));
    lines
        .extend(doubts.map(|(report, doubt)| format!("No advice on `{}`: {doubt}.", report.trace)));
    lines.extend(telling.iter().filter_map(|report| on_refusal(report)));
    lines.extend(reports.iter().filter_map(on_emptied_cache));
    let offered: Vec<_> = sound.iter().map(|report| &report.settings[..]).collect();
    lines.extend(answer::other_settings(&offered));
    lines.join("\n")
}

/// Returns a sentence on the first request that failed during recording.
fn on_refusal(report: &Report) -> Option<String> {
    let refusals = &report.recording.as_ref()?.out_of_memory;
    let fits = |row: &&Row| row.fits == Some(true);
    let fitting: Vec<_> = report.rows.iter().filter(fits).map(|row| row.policy.name).collect();
    if report.rows.iter().any(|row| row.fits.is_none()) && refusals.first()?.capacity.is_some() {
        // The events before the request are unknown.
        return None;
    }
    Some(refused::sentence(&report.trace, refusals.first()?, refusals.len(), &fitting))
}

/// Returns a sentence on the calls of `empty_cache()` while PyTorch was recorded.
fn on_emptied_cache(report: &Report) -> Option<String> {
    let recording = report.recording.as_ref().filter(|it| it.by == RecordedBy::PyTorch)?;
    let EmptiedCache { calls, bytes } = recording.emptied_cache;
    let (what, those) = match calls {
        0 => return None,
        1 => ("`empty_cache()` was called".to_owned(), "the call"),
        _ => (format!("`empty_cache()` was called {calls} times"), "the calls"),
    };
    let of = &report.trace;
    Some(format!(
        "While `{of}` was recorded, {what}, which returned {bytes} to the device. A replay does not repeat {those}."
    ))
}

fn is_idle(report: &Report) -> bool {
    let idle = |row: &Row| row.outcome.failed.is_none() && row.outcome.peak_live.is_zero();
    report.rows.iter().all(idle)
}

fn on_one(report: &Report) -> String {
    let Some(served) = report.best() else {
        return format!("No policy could serve `{}`: {WHY}.", report.trace);
    };
    let Some(best) = best_choice(report) else {
        return keep_under_a_limit(report).unwrap_or_else(|| only_today(report, served));
    };
    match baseline(report) {
        None => against_live(report, best),
        Some(baseline) => against_pytorch(report, best, &baseline),
    }
}

const WHY: &str = "compare the sizes in the trace with what the failed rows say";

/// Memory with which policies are compared.
#[derive(Clone, Copy)]
struct Baseline {
    bytes: Bytes,
    basis: Basis,
}

/// Returns the figure of a policy that is compared with a baseline: the memory that it needs if the baseline is what
/// PyTorch needs, and the bytes that it reserved otherwise.
fn figure(row: &Row, needed: bool) -> Bytes {
    if needed { row.needs() } else { row.outcome.peak_reserved }
}

/// Origin of a [`Baseline`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Basis {
    /// Least memory in which PyTorch serves the trace.
    Needed,
    /// Bytes that the recorded allocator reserved.
    Recorded,
    /// Bytes that the model of PyTorch reserved.
    Modelled,
}

fn baseline(report: &Report) -> Option<Baseline> {
    let modelled = || report.served(PYTORCH).map(|row| row.outcome.peak_reserved);
    let of = |basis| move |bytes| Baseline { bytes, basis };
    let found = report.present_least().map(of(Basis::Needed));
    let found = found.or_else(|| report.recorded_reserved().map(of(Basis::Recorded)));
    let found = found.or_else(|| modelled().map(of(Basis::Modelled)));
    found.filter(|it| !it.bytes.is_zero())
}

/// Returns the recorded allocator with its setting, as the subject of a sentence.
fn holder(report: &Report) -> &'static str {
    match &report.recording {
        Some(recording) if recording.by == RecordedBy::Cubeyard => "Cubeyard",
        Some(recording) if recording.expandable => "PyTorch, with `expandable_segments:True`,",
        _ => "PyTorch",
    }
}

/// Returns whether `expandable_segments` can still be turned on: it was off in the recording.
fn can_expand(report: &Report) -> bool {
    report.recording.as_ref().is_none_or(Recording::can_expand)
}

/// Returns the best alternative to PyTorch's defaults. A plan counts only if there is no other alternative.
fn best_choice(report: &Report) -> Option<&Row> {
    let rows = report.rows.iter();
    let served = rows.filter(|row| row.outcome.failed.is_none() && is_choice(report, row));
    served.min_by_key(|row| row.rank())
}

/// Returns whether a policy may be recommended: it is not one of PyTorch's current settings, and does not need more
/// memory under a limit.
fn is_choice(report: &Report, row: &Row) -> bool {
    is_alternative(report, row) && !report.raises_least(row)
}

fn is_alternative(report: &Report, row: &Row) -> bool {
    row.policy.kind != Kind::PyTorch || row.policy.name == EXPANDABLE && can_expand(report)
}

/// Returns a sentence for a trace whose alternatives all need more memory under a limit.
fn keep_under_a_limit(report: &Report) -> Option<String> {
    let least = report.present_least()?;
    let served = report.rows.iter().filter(|row| row.outcome.failed.is_none());
    let mut alternatives = served.filter(|row| is_alternative(report, row));
    alternatives.next()?;
    Some(format!(
        "No policy here needs less than the {least} that {} needs: keep its allocator as it is.",
        holder(report)
    ))
}

fn only_today(report: &Report, row: &Row) -> String {
    let (name, reserved, live) =
        (row.policy.name, row.outcome.peak_reserved, row.outcome.peak_live);
    match report.rows.len() {
        1 => format!(
            "`{name}` needs {reserved} for at most {live} live: replay other policies beside it to \
             see what they would save."
        ),
        _ => {
            format!("Only `{name}` could serve the trace, with {reserved} for at most {live} live.")
        }
    }
}

fn against_live(report: &Report, best: &Row) -> String {
    let (name, reserved) = (best.policy.name, best.outcome.peak_reserved);
    let above = percent(best.outcome.waste().unwrap_or(1.0) - 1.0);
    let least = match report.rows.len() {
        1 => String::new(),
        _ => format!(", the least here{}", unplanned(&[report], best.policy.kind)),
    };
    let pytorch = pytorch_clause(&[report]);
    format!("`{name}` needs {reserved}{least}, {above} above the peak of live bytes{pytorch}.")
}

/// Returns the reason why PyTorch's figure is missing.
fn pytorch_clause(reports: &[&Report]) -> String {
    let mut rows = reports.iter().flat_map(|report| &report.rows);
    if rows.any(|row| row.policy.name == PYTORCH) {
        return format!(", where `{PYTORCH}` failed");
    }
    format!(": replay `{PYTORCH}` beside it to see what PyTorch would reserve")
}

/// Returns the words that qualify "least" if a plan was replayed: the plan may need even less, but is not an option.
fn unplanned(reports: &[&Report], best: Kind) -> &'static str {
    let mut rows = reports.iter().flat_map(|report| &report.rows);
    let plan = rows.any(|row| row.policy.kind == Kind::Planned);
    if plan && best != Kind::Planned { " without a plan" } else { "" }
}

fn against_pytorch(report: &Report, best: &Row, baseline: &Baseline) -> String {
    let needs_on_basis = |row: &Row| figure(row, baseline.basis == Basis::Needed);
    let (name, needed, reserved) = (best.policy.name, needs_on_basis(best), baseline.bytes);
    let saved = 1.0 - ratio(needed, reserved);
    let (needs, holds) = match baseline.basis {
        Basis::Needed => ("needs", "needs"),
        Basis::Recorded => ("would have needed", "reserved"),
        Basis::Modelled => ("needs", "reserves"),
    };
    let unplanned = unplanned(&[report], best.policy.kind);
    let by = holder(report);
    if saved < NOTICEABLE {
        return format!(
            "No policy here needs noticeably less{unplanned} than the {reserved} that {by} \
             {holds}: keep its allocator as it is."
        );
    }
    let saved = percent(saved);
    if name == EXPANDABLE {
        return format!(
            "PyTorch with `expandable_segments:True` {needs} {needed} where it {holds} {reserved} \
             without: {saved} less, and no other policy here needs less{unplanned}."
        );
    }
    let expandable = report.served(EXPANDABLE).filter(|row| is_choice(report, row));
    let expandable = expandable.map(needs_on_basis);
    let alone = expandable.map_or_else(String::new, |expandable| {
        expandable_clause(ratio(expandable, needed), ratio(expandable, reserved))
    });
    let again =
        if best.policy.kind == Kind::Planned { ", if the same trace comes again" } else { "" };
    format!("`{name}` {needs} {needed} where {by} {holds} {reserved}: {saved} less{again}{alone}.")
}

/// Returns the effect of turning on PyTorch's expandable segments, given their ratios to the best policy and to
/// PyTorch's default.
fn expandable_clause(to_best: f64, to_baseline: f64) -> String {
    let saved = 1.0 - to_baseline;
    let effect = if to_best <= 1.0 + NEAR && saved >= NOTICEABLE {
        "comes within 1 % of that".to_owned()
    } else if saved >= NOTICEABLE {
        format!("saves {}", percent(saved))
    } else {
        "saves nothing".to_owned()
    };
    format!("; PyTorch's own `expandable_segments:True` {effect}")
}

fn on_several(reports: &[&Report]) -> String {
    let count = reports.len();
    let rows = || reports.iter().flat_map(|report| &report.rows);
    if rows().all(|row| row.outcome.failed.is_some()) {
        return format!("No policy could serve any of these {count} traces: {WHY}.");
    }
    if !reports.iter().any(|report| report.rows.iter().any(|row| is_alternative(report, row))) {
        return format!(
            "These {count} traces were replayed as PyTorch would serve them: replay other policies \
             beside it to see what they would save."
        );
    }
    let baselines: Option<Vec<_>> = reports.iter().map(|report| baseline(report)).collect();
    let basis: Vec<Bytes> = match &baselines {
        Some(baselines) => baselines.iter().map(|baseline| baseline.bytes).collect(),
        None => reports.iter().map(|report| peak_live(report)).collect(),
    };
    let Some(best) = best_of_all(reports, &basis, is_choice) else {
        return match best_of_all(reports, &basis, is_alternative) {
            None => format!(
                "No alternative to PyTorch's default could serve all of these {count} traces."
            ),
            Some(_) => format!(
                "No policy here runs each of these {count} traces in as little memory as PyTorch: keep its \
                 allocator as it is."
            ),
        };
    };
    match baselines {
        None => format!(
            "Over these {count} traces `{}` needs the least{}, on average {} above the peak of live \
             bytes{}.",
            best.policy.name,
            unplanned(reports, best.policy.kind),
            percent(best.mean() - 1.0),
            pytorch_clause(reports)
        ),
        Some(baselines) => {
            let needed = baselines.iter().all(|baseline| baseline.basis == Basis::Needed);
            over_several(reports, &basis, &best, needed)
        }
    }
}

/// Reserved bytes of a policy on each trace, relative to a basis.
struct Ratios {
    policy: ReplayPolicy,
    ratios: Vec<f64>,
}

impl Ratios {
    fn of(name: &str, reports: &[&Report], basis: &[Bytes]) -> Option<Self> {
        let rows: Vec<_> =
            reports.iter().map(|report| report.served(name)).collect::<Option<_>>()?;
        let policy = rows.first()?.policy;
        let needed = rows.iter().zip(reports);
        let needed = needed.map(|(row, report)| figure(row, report.present_least().is_some()));
        let ratios = needed.zip(basis).map(|(needed, &basis)| ratio(needed, basis)).collect();
        Some(Self { policy, ratios })
    }

    fn is_planned(&self) -> bool {
        self.policy.kind == Kind::Planned
    }

    fn mean(&self) -> f64 {
        (self.ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / self.ratios.len() as f64).exp()
    }
}

/// Returns the policy that needs the least memory over all traces, among the policies that served each trace and for
/// which `counts` holds on each.
fn best_of_all(
    reports: &[&Report],
    basis: &[Bytes],
    counts: fn(&Report, &Row) -> bool,
) -> Option<Ratios> {
    let on_all = |row: &&Row| counts_on_all(reports, row.policy.name, counts);
    let choices = reports.first()?.rows.iter().filter(on_all);
    let served = choices.filter_map(|row| Ratios::of(row.policy.name, reports, basis));
    served.min_by(|left, right| {
        let by_mean = left.mean().total_cmp(&right.mean());
        let by_place = || left.policy.place().cmp(&right.policy.place());
        left.is_planned().cmp(&right.is_planned()).then(by_mean).then_with(by_place)
    })
}

/// Returns whether a policy served each trace, and `counts` holds on each.
fn counts_on_all(reports: &[&Report], name: &str, counts: fn(&Report, &Row) -> bool) -> bool {
    let on = |report: &&Report| report.served(name).is_some_and(|row| counts(report, row));
    reports.iter().all(on)
}

fn over_several(reports: &[&Report], basis: &[Bytes], best: &Ratios, needed: bool) -> String {
    let (count, mean) = (reports.len(), best.mean());
    let recorded_as_default = reports.iter().all(|report| can_expand(report));
    let by = if recorded_as_default || needed { "PyTorch" } else { "what was reserved" };
    if 1.0 - mean < NOTICEABLE {
        return format!(
            "Over these {count} traces no policy here needs noticeably less{} than {by} on \
             average: keep its allocator as it is.",
            unplanned(reports, best.policy.kind)
        );
    }
    let least = change(best.ratios.iter().copied().fold(f64::INFINITY, f64::min));
    let most = change(best.ratios.iter().copied().fold(0.0, f64::max));
    let name = best.policy.name;
    let shown = if name == EXPANDABLE { "expandable_segments:True" } else { name };
    let expandable = Ratios::of(EXPANDABLE, reports, basis).filter(|it| it.policy.name != name);
    let expandable = expandable.filter(|_| counts_on_all(reports, EXPANDABLE, is_choice));
    let alone = expandable.map_or_else(String::new, |expandable| {
        expandable_clause(expandable.mean() / mean, expandable.mean())
    });
    let again = if best.is_planned() { ", if the same traces come again" } else { "" };
    format!(
        "Over these {count} traces `{shown}` needs {} than {by} on average (from {most} to \
         {least}){again}{alone}.",
        change(mean)
    )
}

fn peak_live(report: &Report) -> Bytes {
    let peaks = report.rows.iter().map(|row| row.outcome.peak_live);
    peaks.max().unwrap_or_default().max(Bytes::new(1))
}

fn ratio(part: Bytes, whole: Bytes) -> f64 {
    part.get() as f64 / whole.get() as f64
}

fn change(ratio: f64) -> String {
    match percent((ratio - 1.0).abs()) {
        none if none == "0.0 %" => "nothing".to_owned(),
        share if ratio < 1.0 => format!("{share} less"),
        share => format!("{share} more"),
    }
}

/// Formats a fraction as a percentage, with one decimal below 10 %.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 9.95 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

#[cfg(test)]
mod tests;

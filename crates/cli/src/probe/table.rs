//! Measurements as text.

use cubeyard_device::probe::{
    CaseReport, Hop, LinkUse, Measured, NamedStep, PatternReport, ProbeReport, REFERENCE_BYTES,
    SWEEP_BYTES, TransferReport,
};
use cubeyard_sim::Span;
use cubeyard_units::text::whole_percent;

use crate::grid::{BOLD, GREEN, Grid, RED, bytes, paint, wrapped};

/// Maximum number of links that are listed.
const LINKS: usize = 10;

const BREAKDOWN: [&str; 5] = ["overhead", "wire", "serial.", "service", "wait"];

fn ns(span: Span) -> String {
    format!("{:.2}", span.ns())
}

fn parts(measured: &Measured) -> Vec<String> {
    let parts = measured.unloaded;
    [parts.overhead, parts.wire, parts.serialisation, parts.service, measured.wait()]
        .map(ns)
        .to_vec()
}

fn rate(measured: &Measured) -> [String; 2] {
    [format!("{:.1}", measured.gb_per_second()), whole_percent(measured.utilisation())]
}

/// Formats the cases, their sweeps, their routes, and the invariants.
pub(crate) fn cases(probed: &ProbeReport, colours: bool) -> String {
    let reports = &probed.cases;
    let mut text = paint(&references_title(), BOLD, colours) + "\n";
    let all = references(reports);
    text += &all.columns(&[0, 2, 3, 4, 10, 11], 2).text(colours);
    text += "\n";
    text += &all.columns(&[0, 5, 6, 7, 8, 9], 1).text(colours);
    text.extend([format!("\n{}\n", paint(BANDWIDTHS, BOLD, colours))]);
    text += &over_sizes(reports, |rate| rate[0].clone()).text(colours);
    text.extend([format!("\n{}\n", paint(SHARES, BOLD, colours))]);
    text += &over_sizes(reports, |rate| rate[1].clone()).text(colours);
    for report in reports {
        let title = paint(&route_title(report), BOLD, colours);
        text.extend([format!("\n{title}\n{}", route(&report.route).text(colours))]);
    }
    text += &explanations(steps_of_cases(probed), colours);
    text.push('\n');
    for invariant in &probed.invariants {
        let (mark, colour) = if invariant.holds { ("✓", GREEN) } else { ("✗", RED) };
        let line = format!("{mark} {}: {}", invariant.claim, invariant.evidence);
        text += &(paint(wrapped(&line, [0, 2]).trim_end(), colour, colours) + "\n");
    }
    text
}

const BANDWIDTHS: &str = "GB/s by size";
const SHARES: &str = "share of the slowest link or memory by size";

/// Title of the table of bandwidth and share by size.
pub(super) const SWEEP: &str = "GB/s, and the share of the slowest link or memory";

pub(super) fn references_title() -> String {
    format!("{} each alone on a fresh machine, in ns", bytes(REFERENCE_BYTES))
}

pub(super) fn route_title(report: &CaseReport) -> String {
    let case = &report.case;
    format!("{}: {} → {}, the way of the data", case.name, case.start(), case.to)
}

pub(super) fn references(reports: &[CaseReport]) -> Grid {
    let mut heading = vec!["case", "from", "to", "formula", "actual"];
    heading.extend(BREAKDOWN);
    heading.extend(["GB/s", "used"]);
    let row = |report: &CaseReport| {
        let measured = &report.reference;
        let mut row =
            vec![report.case.name.clone(), report.case.start(), format!("{}.hbm", report.case.to)];
        row.extend([ns(measured.unloaded.total()), ns(measured.latency)]);
        row.extend(parts(measured));
        row.extend(rate(measured));
        row
    };
    Grid::new(&heading, reports.iter().map(row).collect(), 3)
}

/// Returns bandwidth and share by size.
pub(super) fn sweep(reports: &[CaseReport]) -> Grid {
    over_sizes(reports, |rate| rate.join(" "))
}

/// Returns a row for each case and a column for each size; `cell` formats bandwidth and share.
fn over_sizes(reports: &[CaseReport], cell: fn([String; 2]) -> String) -> Grid {
    let sizes = SWEEP_BYTES.map(bytes);
    let mut heading = vec!["case"];
    heading.extend(sizes.iter().map(String::as_str));
    let row = |report: &CaseReport| {
        let cells = report.sweep.iter().map(|measured| cell(rate(measured)));
        std::iter::once(report.case.name.clone()).chain(cells).collect()
    };
    Grid::new(&heading, reports.iter().map(row).collect(), 1)
}

pub(super) fn route(hops: &[Hop]) -> Grid {
    let heading = ["node", "GB/s", "flit", "wire", "overhead", "first flit", ""];
    let row = |hop: &Hop| {
        let mark = if hop.is_bottleneck { "← slowest" } else { "" };
        vec![
            hop.node.clone(),
            hop.bandwidth.gb_per_second().to_string(),
            ns(hop.serialisation),
            ns(hop.wire),
            ns(hop.overhead),
            ns(hop.cumulative),
            mark.to_owned(),
        ]
    };
    Grid::new(&heading, hops.iter().map(row).collect(), 1)
}

/// Name of a transfer, and its critical path.
pub(super) type Explained<'a> = (String, &'a [NamedStep]);

/// Returns the critical paths of the cases that have one.
pub(super) fn steps_of_cases(probed: &ProbeReport) -> impl Iterator<Item = Explained<'_>> {
    let cases = probed.cases.iter();
    cases.filter_map(|it| Some((it.case.name.clone(), it.steps.as_deref()?)))
}

/// Returns the critical paths of the transfers that have one.
pub(super) fn steps_of_transfers(probed: &PatternReport) -> impl Iterator<Item = Explained<'_>> {
    let transfers = probed.transfers.iter().enumerate();
    transfers.filter_map(|(at, it)| Some((format!("transfer {at}"), it.steps.as_deref()?)))
}

fn explanations<'a>(explained: impl Iterator<Item = Explained<'a>>, colours: bool) -> String {
    let mut text = String::new();
    for (name, path) in explained {
        let title = format!("{name}, step by step");
        let total: Span = path.iter().map(|step| step.duration).sum();
        text.extend([format!("\n{}\n", paint(&title, BOLD, colours))]);
        text += &steps(path).text(colours);
        text.extend([format!("  {total} in all\n")]);
    }
    text
}

/// Returns the critical path of a transfer, with times in ns.
pub(super) fn steps(steps: &[NamedStep]) -> Grid {
    let row = |step: &NamedStep| {
        let behind = step.behind.map(|other| format!("behind transfer {other}"));
        vec![
            ns(step.start - cubeyard_sim::Time::ZERO),
            ns(step.duration),
            step.kind.to_owned(),
            step.place.clone(),
            behind.unwrap_or_default(),
        ]
    };
    Grid::new(&["from", "takes", "what", "where", ""], steps.iter().map(row).collect(), 5)
}

/// Formats the results of a pattern.
pub(crate) fn pattern(report: &PatternReport, colours: bool) -> String {
    let title = format!("{} transfers in {}", report.transfers.len(), report.makespan);
    let mut text = format!("{}\n", paint(&title, BOLD, colours));
    let all = transfers(report);
    text += &all.columns(&[0, 1, 2, 3, 4, 5, 7], 4).text(colours);
    text += "\n";
    text += &all.columns(&[0, 6, 8, 9, 10, 11, 12, 13, 14], 0).text(colours);
    text += &held_up(&all, colours);
    text.extend([format!("\n{}\n", paint("the links in use for the longest", BOLD, colours))]);
    text += &links(report).text(colours);
    text + &explanations(steps_of_transfers(report), colours)
        + &format!("\norder of events {:016x}\n", report.order_hash)
}

/// Formats the place of the longest wait for each transfer that waited.
fn held_up(transfers: &Grid, colours: bool) -> String {
    let mut held = transfers.columns(&[0, 15], 2);
    held.rows.retain(|row| !row[1].is_empty());
    if held.rows.is_empty() { String::new() } else { "\n".to_owned() + &held.text(colours) }
}

/// Returns the transfers of a pattern, with times in ns.
pub(super) fn transfers(report: &PatternReport) -> Grid {
    let mut heading = vec!["", "op", "from", "to", "bytes", "at", "alone", "actual"];
    heading.extend(BREAKDOWN);
    heading.extend(["GB/s", "used", "held up longest"]);
    let row = |(number, transfer): (usize, &TransferReport)| {
        let (planned, measured) = (&transfer.planned, &transfer.measured);
        let mut row = vec![
            number.to_string(),
            planned.direction.to_string(),
            planned.from.clone(),
            planned.to.clone(),
            bytes(planned.bytes),
            ns(planned.at - cubeyard_sim::Time::ZERO),
            ns(measured.unloaded.total()),
            ns(measured.latency),
        ];
        row.extend(parts(measured));
        row.extend(rate(measured));
        row.push(transfer.held_up.as_ref().map_or_else(String::new, |held| {
            let behind = held.behind.map_or_else(String::new, |other| format!(" behind {other}"));
            format!("{} at {}{behind}", held.span, held.link)
        }));
        row
    };
    let rows = report.transfers.iter().enumerate().map(row);
    Grid::new(&heading, rows.collect(), 4)
}

/// Returns the links with the longest busy time in a pattern.
pub(super) fn links(report: &PatternReport) -> Grid {
    let used = |link: &LinkUse| {
        let share = link.busy.ns() / report.makespan.ns().max(f64::MIN_POSITIVE);
        vec![link.link.clone(), ns(link.busy), whole_percent(share)]
    };
    let rows = report.links.iter().take(LINKS).map(used);
    Grid::new(&["link", "busy", "of the time"], rows.collect(), 1)
}

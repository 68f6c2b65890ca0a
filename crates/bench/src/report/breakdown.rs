//! Composition of the critical path: one stacked bar, and its longest steps.

use cubeyard_sim::Span;

use super::line_table::NO_LINE;
use super::markup::{WIDTH, class, legend, picture, swatch};
use super::{LineSteps, RunReport, SliceKind};
use cubeyard_draw::{captioned, cell, number};
use cubeyard_units::text::{TimeUnit, count, percent, percent_column, span};

/// Number of rows in the table of steps.
const STEPS: usize = 12;
const HEIGHT: f64 = 40.0;
/// Minimum width of a part that gets a label, in units of the picture.
const ROOM: f64 = 64.0;

/// Draws the bar with its legend, and the table; empty if the path is unknown.
pub(super) fn breakdown(report: &RunReport) -> String {
    let parts = parts(report);
    bar(&parts) + &steps(report)
}

/// Returns the kinds with non-zero time, longest first, with their fractions of the total.
fn parts(report: &RunReport) -> Vec<(SliceKind, Span, f64)> {
    let of = |kind| {
        let same = report.breakdown.iter().filter(|(other, _)| *other == kind);
        same.fold(0_u64, |sum, (_, span)| sum.saturating_add(span.ps()))
    };
    let mut found: Vec<_> = SliceKind::ALL.into_iter().map(|kind| (kind, of(kind))).collect();
    found.retain(|(_, ps)| *ps > 0);
    found.sort_by_key(|(_, ps)| std::cmp::Reverse(*ps));
    let whole: f64 = found.iter().map(|(_, ps)| *ps as f64).sum();
    found.into_iter().map(|(kind, ps)| (kind, Span::from_ps(ps), ps as f64 / whole)).collect()
}

fn bar(parts: &[(SliceKind, Span, f64)]) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let mut x = 0.0;
    let mut body = String::new();
    for (kind, took, share) in parts {
        let width = share * WIDTH;
        body += &part(*kind, *took, *share, x, width);
        x += width;
    }
    let row = |(kind, took, share): &(SliceKind, Span, f64)| {
        (*kind, format!("{} · {}", span(*took), percent(*share)))
    };
    let rows: Vec<_> = parts.iter().map(row).collect();
    picture("stack", "What the critical path consists of", HEIGHT, &body) + &legend(&rows)
}

fn part(kind: SliceKind, took: Span, share: f64, x: f64, width: f64) -> String {
    let (class, name, takes, share) = (class(kind), kind.name(), span(took), percent(share));
    let middle = x + width / 2.0;
    let words = if width < ROOM {
        String::new()
    } else {
        format!("<text class=\"on-{class}\" x=\"{middle:.1}\" y=\"25\">{share}</text>")
    };
    format!(
        "<g><rect class=\"{class} edge\" x=\"{x:.2}\" width=\"{width:.2}\" height=\"{HEIGHT}\"/>{words}\
         <title>{name}: {takes}, {share}</title></g>\n"
    )
}

/// Draws the steps with the longest time, those of one line and unit in one row.
fn steps(report: &RunReport) -> String {
    let merged = report.merged_steps();
    if merged.is_empty() {
        return String::new();
    }
    let unit = TimeUnit::of(report.kernel);
    let head = format!(
        "<th class=\"n\">takes, {0}</th><th class=\"n\">share</th><th class=\"n\">steps</th>\
         <th>source line</th><th>longest of them</th><th class=\"n\">at, {0}</th><th>why not earlier</th>",
        unit.name
    );
    let rows: String = merged.iter().take(STEPS).map(|group| row(report, group, unit)).collect();
    caption(report, &merged) + &captioned("steps", "Steps of the critical path", &head, &rows)
}

fn caption(report: &RunReport, merged: &[LineSteps<'_>]) -> String {
    let shown: usize = merged.iter().take(STEPS).map(|group| group.steps.len()).sum();
    let all = report.critical.len();
    let (shown, known) = (count(shown as u64), count(all as u64));
    match all {
        1 => "<h3>Its only step</h3>\n".to_owned(),
        _ if shown == known => format!("<h3>Its {known} steps, by line and unit</h3>\n"),
        _ => format!("<h3>The longest {shown} of its {known} steps, by line and unit</h3>\n"),
    }
}

fn row(report: &RunReport, group: &LineSteps<'_>, unit: TimeUnit) -> String {
    let (longest, took) = (group.longest(), group.span());
    let share = report.of_kernel(took).unwrap_or(f64::NAN);
    let what = cell(&longest.what).replacen("<td>", &format!("<td>{}", swatch(longest.kind)), 1);
    let place = if group.place.is_empty() { NO_LINE } else { group.place };
    format!(
        "<tr>{}{}{}{}{what}{}{}</tr>\n",
        number(&unit.column(took)),
        number(&percent_column(share)),
        number(&count(group.steps.len() as u64)),
        cell(place).replacen("<td>", "<td class=\"code\">", 1),
        number(&unit.column(longest.start)),
        cell(&longest.remark())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Step;

    fn of(breakdown: &[(SliceKind, u64)]) -> RunReport {
        let breakdown = breakdown.iter().map(|(kind, ps)| (*kind, Span::from_ps(*ps))).collect();
        RunReport { breakdown, ..RunReport::default() }
    }

    #[test]
    fn each_kind_is_one_part_and_the_longest_is_first() {
        let report = of(&[
            (SliceKind::Gemm, 10),
            (SliceKind::Wait, 0),
            (SliceKind::Cpu, 60),
            (SliceKind::Gemm, 30),
        ]);
        let parts = parts(&report);
        let found: Vec<_> = parts.iter().map(|(kind, took, _)| (*kind, took.ps())).collect();
        assert_eq!(found, [(SliceKind::Cpu, 60), (SliceKind::Gemm, 40)]);
        assert!((parts[0].2 - 0.6).abs() < 1e-12 && (parts[1].2 - 0.4).abs() < 1e-12);
    }

    #[test]
    fn sums_beyond_64_bits_are_the_longest_span() {
        let parts = parts(&of(&[(SliceKind::Gemm, u64::MAX), (SliceKind::Gemm, 5)]));
        assert_eq!(parts, [(SliceKind::Gemm, Span::from_ps(u64::MAX), 1.0)]);
    }

    #[test]
    fn narrow_parts_have_no_words() {
        let narrow = part(SliceKind::Gemm, Span::from_ps(1), 0.01, 0.0, ROOM - 0.1);
        let wide = part(SliceKind::Gemm, Span::from_ps(1), 0.1, 0.0, ROOM);
        assert!(!narrow.contains("<text") && wide.contains(">10 %</text>"));
    }

    fn step(at: u64, takes: u64, kind: SliceKind, place: &str) -> Step {
        let (start, end) = (Span::from_ps(100 * at), Span::from_ps(100 * at + takes));
        let (what, place, why) = (format!("step {at}"), place.to_owned(), String::new());
        Step { start, end, what, kind, place, why, access: None }
    }

    #[test]
    fn steps_of_one_line_and_unit_are_one_row_that_names_the_longest() {
        let lines =
            (0..39).map(|at| step(at, at + 1, SliceKind::Gemm, &format!("a.rs:{}", at / 3)));
        let critical: Vec<_> = lines.chain([step(39, 1, SliceKind::Math, "a.rs:12")]).collect();
        let report = RunReport { critical, ..RunReport::default() };
        let table = steps(&report);
        let shown: Vec<_> = (0..40).filter(|it| table.contains(&format!("step {it}<"))).collect();
        assert_eq!(shown, (1..13).map(|line| 3 * line + 2).collect::<Vec<_>>());
        assert!(table.contains("The longest 36 of its 40 steps"), "{table}");
        assert!(table.find("step 38<") < table.find("step 35<"));
        let all: Span = report.critical.iter().map(Step::span).sum();
        for groups in [report.lines(), report.merged_steps()] {
            assert_eq!(groups.iter().map(LineSteps::span).sum::<Span>(), all);
            assert_eq!(groups.iter().map(|group| group.steps.len()).sum::<usize>(), 40);
            let units = groups.iter().flat_map(LineSteps::units).map(|(_, span)| span);
            assert_eq!(units.sum::<Span>(), all);
        }
        assert_eq!((report.lines().len(), report.merged_steps().len()), (13, 14));
    }
}

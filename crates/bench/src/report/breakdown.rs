//! Composition of the critical path: one stacked bar, and its longest steps.

use cubeyard_sim::Span;

use super::markup::{WIDTH, class, legend, picture, swatch};
use super::{RunReport, SliceKind, Step};
use cubeyard_draw::{captioned, cell, number};
use cubeyard_units::text::{TimeUnit, count, percent, percent_column, span};

/// Number of steps in the table.
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

/// Draws the longest steps, in order of time.
fn steps(report: &RunReport) -> String {
    let mut longest = report.longest_steps(STEPS);
    if longest.is_empty() {
        return String::new();
    }
    longest.sort_by_key(|step| step.start);
    let unit = TimeUnit::of(report.kernel);
    let head = format!(
        "<th class=\"n\">at, {0}</th><th class=\"n\">takes, {0}</th><th class=\"n\">share</th>\
         <th>step</th><th>asked for at</th><th>why not earlier</th>",
        unit.name
    );
    let rows: String = longest.iter().map(|step| row(report, step, unit)).collect();
    caption(report, longest.len()) + &captioned("steps", "Steps of the critical path", &head, &rows)
}

fn caption(report: &RunReport, shown: usize) -> String {
    match report.critical.len() {
        1 => "<h3>Its only step</h3>\n".to_owned(),
        all if all == shown => format!("<h3>Its {all} steps</h3>\n"),
        all => format!("<h3>The longest {shown} of its {} steps</h3>\n", count(all as u64)),
    }
}

fn row(report: &RunReport, step: &Step, unit: TimeUnit) -> String {
    let share = report.of_kernel(step.span()).unwrap_or(f64::NAN);
    let what = cell(&step.what).replacen("<td>", &format!("<td>{}", swatch(step.kind)), 1);
    format!(
        "<tr>{}{}{}{what}{}{}</tr>\n",
        number(&unit.column(step.start)),
        number(&unit.column(step.span())),
        number(&percent_column(share)),
        cell(&step.place).replacen("<td>", "<td class=\"code\">", 1),
        cell(&step.remark())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn the_longest_steps_are_shown_in_the_order_of_time() {
        let step = |place: u64| Step {
            start: Span::from_ps(100 * place),
            end: Span::from_ps(100 * place + place % 20),
            what: format!("step {place}"),
            kind: SliceKind::Gemm,
            place: String::new(),
            why: String::new(),
            access: None,
        };
        let report = RunReport { critical: (0..20).map(step).collect(), ..RunReport::default() };
        let table = steps(&report);
        let shown: Vec<_> = (0..20).filter(|it| table.contains(&format!("step {it}<"))).collect();
        assert_eq!(shown, (8..20).collect::<Vec<_>>());
        assert!(table.contains("The longest 12 of its 20 steps"));
        assert!(table.find("step 8<") < table.find("step 19<"));
    }
}

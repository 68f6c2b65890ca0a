//! Limiting factor of a run, as text that follows "limited by".

use std::collections::BTreeMap;

use cubeyard_sim::Span;
use cubeyard_units::text::whole_percent;

use super::path::Leg;
use crate::report::{RunReport, SliceKind, Step};

/// Minimum fraction of the kernel time at which a bound counts as the limit.
const REACHED: f64 = 0.9;

/// Maximum number of source lines that are named: the largest, and those with at least half of its time.
const LINES: usize = 3;

/// Command name for host time between launches.
pub(super) const HOST: &str = "the host";

/// Names a resource that is almost always in use, or else the longest part of the critical path, or
/// else the busiest unit.
pub(super) fn limit(report: &RunReport, legs: &[Leg]) -> String {
    let reached = report.bound().filter(|_| report.share() >= REACHED);
    match (reached, longest(legs), report.busiest_unit()) {
        (Some(bound), ..) => {
            format!("{} (in use {} of the time)", bound.resource, whole_percent(report.share()))
        }
        (None, Some(part), _) => part,
        (None, None, Some(unit)) => {
            format!("{} (busy {} of the time)", unit.unit, whole_percent(unit.mean))
        }
        (None, None, None) => String::new(),
    }
}

/// Time on the path, and the part of it spent waiting behind other traffic.
#[derive(Clone, Copy, Default)]
struct PathTime {
    all: Span,
    waiting: Span,
}

/// Names the unit with the most time on the path, its share, and the commands at the lines with most of that time.
fn longest(legs: &[Leg]) -> Option<String> {
    let mut units: BTreeMap<PathUnit, PathTime> = BTreeMap::new();
    let mut lines: BTreeMap<(PathUnit, &str, &str), Span> = BTreeMap::new();
    for Leg { step, command, .. } in legs {
        let unit = PathUnit::of(step.kind, command);
        let time = units.entry(unit).or_default();
        time.all += step.span();
        time.waiting += step.access.map_or(Span::ZERO, |access| access.waiting);
        *lines.entry((unit, command, &step.place)).or_default() += step.span();
    }
    let whole: Span = units.values().map(|time| time.all).sum();
    let (unit, time) = units.into_iter().rev().max_by_key(|(_, time)| time.all)?;
    lines.retain(|(of, _, _), _| *of == unit);
    let share = |part: Span, of: Span| whole_percent(part.ps() as f64 / of.ps() as f64);
    let behind = match time.waiting {
        Span::ZERO => String::new(),
        waiting => format!(", {} of that behind other traffic", share(waiting, time.all)),
    };
    let named =
        format!("{} ({} of the critical path{behind})", unit.name(), share(time.all, whole));
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(_, span)| std::cmp::Reverse(*span));
    let Some(of) = unit.preposition() else { return Some(named) };
    if let [((_, command, place), _)] = lines[..] {
        return Some(format!("{named} {of} `{command}` at {place}"));
    }
    let line = |((_, command, place), span): &((_, &str, &str), Span)| {
        format!("`{command}` at {place} ({})", share(*span, whole))
    };
    let largest = lines.iter().map(|(_, span)| *span).max().unwrap_or_default();
    let is_large = |span: Span| span.ps() >= largest.ps() / 2;
    let named_lines = lines.iter().filter(|(_, span)| is_large(*span)).take(LINES).map(line);
    Some(format!("{named}, above all {of} {}", named_lines.collect::<Vec<_>>().join(", ")))
}

/// Kind of work on the path. Waits for different causes are different kinds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PathUnit {
    Unit(SliceKind),
    Host,
    Launch,
}

impl PathUnit {
    fn of(kind: SliceKind, command: &str) -> Self {
        match kind {
            SliceKind::Wait if command == HOST => Self::Host,
            SliceKind::Wait if command.is_empty() => Self::Launch,
            kind => Self::Unit(kind),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Host => "the host between launches",
            Self::Launch => "launches that reach PEs one after the other",
            Self::Unit(SliceKind::Cpu) => "the calls that PE_CPU dispatches",
            Self::Unit(SliceKind::Wait) => "waiting",
            Self::Unit(kind) => kind.name(),
        }
    }

    /// Returns the word before a command of the unit; `None` if it is the same for all commands.
    fn preposition(self) -> Option<&'static str> {
        match self {
            Self::Host | Self::Launch | Self::Unit(SliceKind::Cpu) => None,
            Self::Unit(SliceKind::Gemm | SliceKind::Math | SliceKind::Wait) => Some("in"),
            Self::Unit(SliceKind::Fetch) => Some("for"),
            Self::Unit(_) => Some("of"),
        }
    }
}

/// Returns the time of each kind of work in the given steps, in the order of legends.
pub(super) fn breakdown(steps: &[Step]) -> Vec<(SliceKind, Span)> {
    let of = |kind| {
        let same = steps.iter().filter(|step| step.kind == kind);
        (kind, same.map(Step::span).sum::<Span>())
    };
    let mut parts: Vec<_> = SliceKind::ALL.into_iter().map(of).collect();
    parts.retain(|(_, span)| *span > Span::ZERO);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leg(kind: SliceKind, ns: u64, command: &str, place: &str) -> Leg {
        let step = Step {
            start: Span::ZERO,
            end: Span::from_ps(1000 * ns),
            what: String::new(),
            kind,
            place: place.to_owned(),
            why: String::new(),
            access: None,
        };
        Leg { step, command: command.to_owned(), record: None }
    }

    /// A layer of a transformer was limited by one load with 14 % of its path, where messages of many lines had 47 %.
    #[test]
    fn the_unit_with_most_of_the_path_is_named_before_its_largest_line() {
        let mut legs = vec![leg(SliceKind::DmaRead, 14, "load f16[8, 8]", "layer.rs:7")];
        legs.extend((0..4).map(|_| leg(SliceKind::Message, 3, "send f16[2]", "layer.rs:20")));
        legs.extend((0..35).map(|line| {
            leg(SliceKind::Message, 1, "receive f16[2]", &format!("layer.rs:{}", 30 + line))
        }));
        legs.push(leg(SliceKind::Cpu, 39, "load f16[8, 8]", "layer.rs:7"));
        assert_eq!(
            longest(&legs).unwrap(),
            "message (47 % of the critical path), above all of `send f16[2]` at layer.rs:20 (12 %)"
        );
    }

    #[test]
    fn lines_with_at_least_half_of_the_largest_are_named_too() {
        let line = |ns, place: &str| leg(SliceKind::Gemm, ns, "dot", place);
        let legs = [("a.py:1", 40), ("a.py:2", 21), ("a.py:3", 20), ("a.py:4", 19)];
        let named = |legs: &[(&str, u64)]| {
            let legs: Vec<_> = legs.iter().map(|(place, ns)| line(*ns, place)).collect();
            longest(&legs).unwrap()
        };
        assert_eq!(
            named(&legs),
            "GEMM (100 % of the critical path), above all in `dot` at a.py:1 (40 %), `dot` at a.py:2 (21 %), \
             `dot` at a.py:3 (20 %)"
        );
        assert!(named(&legs[1..]).ends_with("`dot` at a.py:4 (32 %)"), "{}", named(&legs[1..]));
        assert!(!named(&[legs[0], legs[3]]).contains("a.py:4"));
    }

    #[test]
    fn a_unit_with_one_line_names_it_without_a_second_share() {
        let legs =
            [leg(SliceKind::Math, 90, "exp f32[8]", "a.py:3"), leg(SliceKind::Wait, 10, "", "")];
        assert_eq!(
            longest(&legs).unwrap(),
            "MATH (90 % of the critical path) in `exp f32[8]` at a.py:3"
        );
        assert_eq!(
            longest(&legs[1..]).unwrap(),
            "launches that reach PEs one after the other (100 % of the critical path)"
        );
        assert_eq!(longest(&[]), None);
    }
}

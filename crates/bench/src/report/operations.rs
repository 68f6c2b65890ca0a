//! Every operation of a run, for the timeline of its page.
//!
//! The page holds them in packed form: lines of text for lanes, launches and names, and LEB128 numbers (seven bits per
//! byte) for the operations, stored by column, because similar numbers compress well together.

use std::collections::BTreeMap;

use cubeyard_draw::pack::{element, plain, put};
use cubeyard_draw::xml::escape;
use cubeyard_sim::Span;

use super::markup::class;
use super::{SliceKind, Step};

/// Every operation of a run by unit of a PE, with the launches.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    lanes: Vec<UnitLane>,
    names: Names,
    launches: Vec<(String, Span, Span)>,
    /// PEs that are shown first.
    shown: Vec<String>,
}

/// Operations of one unit of a PE.
#[derive(Clone, Debug)]
struct UnitLane {
    pe: String,
    unit: String,
    operations: Vec<Operation>,
}

/// Operation of a unit. Instants are spans since the start of the first launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) start: Span,
    pub(crate) end: Span,
    pub(crate) busy: Span,
    pub(crate) kind: SliceKind,
    /// Index of the operation's name, from [`Timeline::name`].
    pub(crate) name: u32,
    /// Number of the operation's launch, from 1; 0 if it has none.
    pub(crate) launch: u32,
    /// Index of the operation's source line.
    pub(crate) line: u32,
    /// Index of the reason why the operation did not begin earlier.
    pub(crate) why: u32,
}

/// Distinct names, with their indices.
#[derive(Clone, Debug, Default)]
struct Names {
    all: Vec<String>,
    known: BTreeMap<String, u32>,
}

impl Timeline {
    /// Creates a timeline without lanes. `shown` are the PEs that are shown first.
    pub(crate) fn new(launches: Vec<(String, Span, Span)>, shown: Vec<String>) -> Self {
        Self { launches, shown, ..Self::default() }
    }

    /// Returns the index of a text: a name, a source line or a reason.
    pub(crate) fn name(&mut self, name: String) -> u32 {
        let Names { all, known } = &mut self.names;
        *known.entry(name).or_insert_with_key(|name| {
            all.push(name.clone());
            u32::try_from(all.len() - 1).expect("fewer names than operations")
        })
    }

    /// Adds a lane.
    pub(crate) fn push(&mut self, pe: String, unit: &str, mut operations: Vec<Operation>) {
        operations.sort_by_key(|operation| (operation.start, operation.end));
        self.lanes.push(UnitLane { pe, unit: unit.to_owned(), operations });
    }

    /// Returns the number of operations.
    pub fn operations(&self) -> usize {
        self.lanes.iter().map(|lane| lane.operations.len()).sum()
    }

    /// Returns the figure of the page, with the critical path as a lane outside all PEs. `still` is for print.
    pub(super) fn figure(&self, critical: &[Step], still: &str) -> String {
        let mut all = self.clone();
        let path = critical.iter().map(|step| {
            let (start, end) = (step.start, step.end.max(step.start));
            let (busy, name) = (end.saturating_sub(start), all.name(step.what.clone()));
            let (line, why) = (all.name(step.place.clone()), all.name(step.remark()));
            Operation { start, end, busy, kind: step.kind, name, launch: 0, line, why }
        });
        let path = path.collect();
        all.push(String::new(), "critical path", path);
        all.lanes.rotate_right(1);
        all.markup(still)
    }

    fn markup(&self, still: &str) -> String {
        let kinds = SliceKind::ALL.map(|kind| class(kind).trim_start_matches("k-")).join(" ");
        let ends = self.all().map(|operation| operation.end).max().unwrap_or_default();
        let ends = self.launches.iter().map(|launch| launch.2).fold(ends, Span::max);
        [
            format!(
                "<figure class=\"operations\" aria-label=\"What each unit did when\" data-end=\"{}\" \
                 data-kinds=\"{kinds}\" data-shown=\"{}\">\n<div class=\"still\">\n{still}</div>\n<div class=\"drawn\"></div>\n",
                ends.ps().max(1),
                self.shown.iter().map(|pe| escape(pe)).collect::<Vec<_>>().join("&#9;")
            ),
            element("lanes", self.lanes_text().as_bytes()),
            element("launches", self.launches_text().as_bytes()),
            element("names", lines(&self.names.all).as_bytes()),
            element("ops", &self.columns()),
            "</figure>\n".to_owned(),
        ]
        .concat()
    }

    fn all(&self) -> impl Iterator<Item = &Operation> + Clone {
        self.lanes.iter().flat_map(|lane| &lane.operations)
    }

    fn lanes_text(&self) -> String {
        let line = |lane: &UnitLane| {
            format!("{}\t{}\t{}", plain(&lane.pe), plain(&lane.unit), lane.operations.len())
        };
        self.lanes.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn launches_text(&self) -> String {
        let line = |(name, start, end): &(String, Span, Span)| {
            format!("{}\t{}\t{}", plain(name), start.ps(), end.ps())
        };
        self.launches.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Returns the columns: difference from the previous start in the lane, length, idle time, kind, name, launch, line,
    /// reason.
    fn columns(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 * self.operations());
        for lane in &self.lanes {
            let mut before = 0;
            for operation in &lane.operations {
                put(&mut bytes, operation.start.ps() - before);
                before = operation.start.ps();
            }
        }
        let length = |it: &Operation| it.end.saturating_sub(it.start).ps();
        self.all().for_each(|it| put(&mut bytes, length(it)));
        self.all().for_each(|it| put(&mut bytes, length(it).saturating_sub(it.busy.ps())));
        self.all().for_each(|it| put(&mut bytes, place(it.kind)));
        self.all().for_each(|it| put(&mut bytes, u64::from(it.name)));
        self.all().for_each(|it| put(&mut bytes, u64::from(it.launch)));
        self.all().for_each(|it| put(&mut bytes, u64::from(it.line)));
        self.all().for_each(|it| put(&mut bytes, u64::from(it.why)));
        bytes
    }
}

/// Returns the position of a kind in [`SliceKind::ALL`].
fn place(kind: SliceKind) -> u64 {
    SliceKind::ALL.iter().position(|other| *other == kind).unwrap_or_default() as u64
}

/// Joins texts, one per line.
fn lines(texts: &[String]) -> String {
    texts.iter().map(|text| plain(text)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(start: u64, end: u64, busy: u64, name: u32) -> Operation {
        let [start, end, busy] = [start, end, busy].map(Span::from_ps);
        Operation { start, end, busy, kind: SliceKind::Gemm, name, launch: 1, line: 7, why: 9 }
    }

    #[test]
    fn columns_hold_differences_in_order_of_time() {
        let mut timeline = Timeline::default();
        let (dot, tile) = (timeline.name("dot".to_owned()), timeline.name("a\ntile".to_owned()));
        assert_eq!(timeline.name("dot".to_owned()), dot);
        timeline.push(
            "pe0".to_owned(),
            "GEMM",
            vec![operation(30, 40, 4, tile), operation(5, 9, 4, dot)],
        );
        assert_eq!(timeline.columns(), [5, 25, 4, 10, 0, 6, 3, 3, 0, 1, 1, 1, 7, 7, 9, 9]);
        assert_eq!(timeline.lanes_text(), "pe0\tGEMM\t2");
        assert_eq!(lines(&timeline.names.all), "dot\na tile");
    }
}

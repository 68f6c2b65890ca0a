//! Activity over time: named intervals in lanes, and quantities below them on the same axis.
//!
//! A figure holds a picture, for print and for readers without scripts, and the same data in packed form. From these,
//! the script of a page draws every interval, with zoom and a description of what is under the pointer.

mod still;

use std::collections::BTreeMap;

use crate::pack::{element, plain, put};
use crate::svg::colour;
use crate::xml::escape;

/// Intervals and quantities over a common axis of time, in picoseconds.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// End of the axis.
    pub end: u64,
    /// Names of the kinds of intervals. The index of a kind is also the index of its colour.
    pub kinds: Vec<String>,
    /// Colours of the kinds, as `#rrggbb`; a kind without one has the colour of its index.
    pub colours: Vec<Option<String>>,
    /// Lanes from top to bottom.
    pub lanes: Vec<Lane>,
    /// Quantities below the lanes, in bytes.
    pub levels: Vec<Level>,
}

/// Lane with its intervals, which do not overlap.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// Name beside the lane.
    pub name: String,
    /// Intervals in any order.
    pub intervals: Vec<Interval>,
}

/// Named interval of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Begin in picoseconds.
    pub start: u64,
    /// End in picoseconds.
    pub end: u64,
    /// Index of its kind.
    pub kind: usize,
    /// Name of the interval.
    pub name: String,
}

/// Quantity that is constant between its changes.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// Name beside the quantity.
    pub name: String,
    /// Times in ascending order, and the value from each time on.
    pub values: Vec<(u64, u64)>,
}

impl Activity {
    /// Returns the figure for a page; empty if there is nothing to draw.
    pub fn figure(&self, title: &str) -> String {
        if self.lanes.is_empty() && self.levels.is_empty() {
            return String::new();
        }
        let mut sorted = self.clone();
        for lane in &mut sorted.lanes {
            lane.intervals.sort_by_key(|it| (it.start, it.end));
        }
        sorted.markup(title)
    }

    fn markup(&self, title: &str) -> String {
        let (names, columns) = self.columns();
        let colours: Vec<_> = (0..self.kinds.len()).map(|kind| self.colour(kind)).collect();
        [
            self.legend(),
            format!(
                "<figure class=\"activity\" aria-label=\"{}\" data-end=\"{}\" data-colours=\"{}\">\n\
                 <div class=\"still wide\">\n{}</div>\n<div class=\"drawn\"></div>\n",
                escape(title),
                self.end.max(1),
                colours.join(" "),
                still::picture(self, title)
            ),
            element("lanes", counted(self.lanes.iter().map(|it| (&it.name, it.intervals.len()))).as_bytes()),
            element("names", names.join("\n").as_bytes()),
            element("intervals", &columns),
            element("levels", counted(self.levels.iter().map(|it| (&it.name, it.values.len()))).as_bytes()),
            element("values", &self.values()),
            "</figure>\n".to_owned(),
        ]
        .concat()
    }

    /// Returns the names of kinds that occur, each with its colour.
    fn legend(&self) -> String {
        let used = |kind: usize| self.intervals().any(|it| it.kind == kind);
        let item = |(kind, name): (usize, &String)| {
            format!("<li><i style=\"background:{}\"></i>{}</li>\n", self.colour(kind), escape(name))
        };
        let items: String =
            self.kinds.iter().enumerate().filter(|it| used(it.0)).map(item).collect();
        format!("<ul class=\"kinds\">\n{items}</ul>\n")
    }

    /// Returns the colour of a kind.
    fn colour(&self, kind: usize) -> &str {
        let given = self.colours.get(kind).and_then(Option::as_deref);
        given.unwrap_or_else(|| kind_colour(kind))
    }

    fn intervals(&self) -> impl Iterator<Item = &Interval> {
        self.lanes.iter().flat_map(|lane| &lane.intervals)
    }

    /// Returns distinct names, and columns: difference from the previous start in the lane, length, kind, name.
    fn columns(&self) -> (Vec<String>, Vec<u8>) {
        let (mut names, mut known, mut places) = (Vec::new(), BTreeMap::new(), Vec::new());
        for it in self.intervals() {
            let place = *known.entry(&it.name).or_insert_with(|| {
                names.push(plain(&it.name));
                names.len() as u64 - 1
            });
            places.push(place);
        }
        let mut bytes = Vec::with_capacity(8 * places.len());
        for lane in &self.lanes {
            let mut before = 0;
            for it in &lane.intervals {
                put(&mut bytes, it.start - before);
                before = it.start;
            }
        }
        self.intervals().for_each(|it| put(&mut bytes, it.end.saturating_sub(it.start)));
        self.intervals().for_each(|it| put(&mut bytes, it.kind as u64));
        places.iter().for_each(|place| put(&mut bytes, *place));
        (names, bytes)
    }

    /// Returns the columns of the quantities: difference from the previous time, and value.
    fn values(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for level in &self.levels {
            let mut before = 0;
            for (time, _) in &level.values {
                put(&mut bytes, time.saturating_sub(before));
                before = before.max(*time);
            }
        }
        let values = self.levels.iter().flat_map(|level| &level.values);
        values.for_each(|(_, value)| put(&mut bytes, *value));
        bytes
    }
}

/// Order of the colours of kinds: light ones, on which text can be read, first.
const ORDER: [usize; 7] = [5, 4, 2, 3, 1, 6, 0];

/// Returns the colour of the kind with this index.
pub fn kind_colour(kind: usize) -> &'static str {
    colour(ORDER[kind % ORDER.len()])
}

/// Returns a line for each name and count.
fn counted<'a>(rows: impl Iterator<Item = (&'a String, usize)>) -> String {
    rows.map(|(name, count)| format!("{}\t{count}", plain(name))).collect::<Vec<_>>().join("\n")
}

/// Style of pages with these figures.
pub const STYLE: &str = ".activity{margin:0}.activity canvas{display:block;cursor:grab;touch-action:pan-y}\n\
     .activity canvas:active{cursor:grabbing}.activity .drawn{border:1px solid var(--line);border-radius:4px}\n\
     .activity.live .still,.activity:not(.live) .drawn{display:none}\n\
     .kinds{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:4px 16px;font-size:13px;margin:0 0 8px}\n\
     .kinds i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px;vertical-align:-1px}\n\
     .activity .tools output{min-height:3em;flex:1 1 240px;align-content:center}\n\
     @media print{.activity.live .still{display:block}.activity .drawn{display:none}}\n";

#[cfg(test)]
mod tests;

//! Page of a step: key figures, timeline with memory, flame graph of modules, and tables.

use cubeyard_draw::activity::{self, Activity, Interval, Lane, Level, kind_colour};
use cubeyard_draw::flame::{self, Node, flame};
use cubeyard_draw::{remark, section, tile, tiles};
use pyo3::prelude::*;

use crate::error::Kind;
use crate::table::{Cell, table};

/// Lane: its name, and intervals with begin and end in picoseconds, index of the kind, and name.
type GivenLane = (String, Vec<(u64, u64, usize, String)>);
/// Quantity: its name, and times in picoseconds with the value from each time on.
type GivenLevel = (String, Vec<(u64, u64)>);
/// Box of a flame graph in preorder: depth, name, description, weight, and index of the kind.
type GivenBox = (usize, String, String, u64, usize);
/// Table: title, remark, names of columns, and cells.
type GivenTable = (String, String, Vec<String>, Vec<Vec<Cell>>);

/// Makes the page of a step.
///
/// `head` has the title, the summary and the verdict. `figures` are key figures: name, value and remark. `lanes` and
/// `levels` are drawn up to `end`; `kinds` names the kinds of their intervals. `boxes` is a flame graph in preorder,
/// with its title.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parts of a page, each of another type")]
#[expect(clippy::needless_pass_by_value, reason = "Python hands in values")]
fn step_page(
    head: (String, String, String),
    figures: Vec<(String, String, String)>,
    end: u64,
    kinds: Vec<String>,
    lanes: Vec<GivenLane>,
    levels: Vec<GivenLevel>,
    boxes: Vec<GivenBox>,
    tables: Vec<GivenTable>,
) -> PyResult<String> {
    let (title, summary, verdict) = head;
    let activity = Activity {
        end,
        kinds,
        lanes: lanes.into_iter().map(lane).collect(),
        levels: levels.into_iter().map(level).collect(),
        ..Activity::default()
    };
    let mut main = cubeyard_draw::header(&title, &summary, &verdict);
    main += &tiles(
        &figures.iter().map(|(name, value, remark)| tile(name, value, remark)).collect::<String>(),
    );
    main += &section(
        "Timeline and memory",
        &activity.figure("Work of each stream and allocated bytes over time"),
    );
    main += &section("Modules", &graph(boxes)?);
    for (title, about, names, rows) in &tables {
        let about = if about.is_empty() { String::new() } else { remark(about) };
        main += &section(title, &(table(names, rows) + &about));
    }
    let style = [activity::STYLE, flame::STYLE].concat();
    Ok(cubeyard_draw::page(&title, &style, &main, flame::SCRIPT))
}

fn lane((name, intervals): GivenLane) -> Lane {
    let interval = |(start, end, kind, name)| Interval { start, end, kind, name };
    Lane { name, intervals: intervals.into_iter().map(interval).collect() }
}

fn level((name, values): GivenLevel) -> Level {
    Level { name, values }
}

/// Draws the flame graph; empty without boxes.
fn graph(boxes: Vec<GivenBox>) -> PyResult<String> {
    let mut open: Vec<Node> = Vec::new();
    for (depth, name, description, weight, kind) in boxes {
        let is_root = open.is_empty() && depth == 0;
        if !is_root && (depth == 0 || depth > open.len()) {
            return Err(Kind::Input.error(format!(
                "box {name}: expected a depth from 1 to {}, found {depth}",
                open.len()
            )));
        }
        close(&mut open, depth);
        open.push(Node {
            name,
            description,
            weight,
            colour: kind_colour(kind),
            children: Vec::new(),
        });
    }
    close(&mut open, 1);
    Ok(open.pop().map_or_else(String::new, |root| flame("Time of each module", &root)))
}

/// Puts the open boxes at `depth` and below it into their parents.
fn close(open: &mut Vec<Node>, depth: usize) {
    while open.len() > depth.max(1) {
        let node = open.pop().expect("there is more than one");
        open.last_mut().expect("there was more than one").children.push(node);
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(step_page, module)?)
}

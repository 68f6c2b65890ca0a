//! Page of a record: the result of its run, the bounds and parts of its time, its inputs and its machine.

use cubeyard_bench::compare::Measured;
use cubeyard_bench::record::Record;
use cubeyard_draw::xml::escape;
use cubeyard_draw::{header, page, remark, section, tile, tiles};
use cubeyard_units::text::{count, percent, quantity};
use serde_json::{Map, Value};

use super::records::shown;
use super::runs::{self, Machines, Run, limit, plain};
use crate::grid::{Grid, bytes, time};

/// Maximum number of times in the table.
const MOST: usize = 1000;
/// Figures that have places of their own on the page.
const PLACED: [&str; 8] = [
    "rows",
    "kernel_ns",
    "bounds_ns",
    "path_ns",
    "utilisation",
    "limited_by",
    "share_of_bound",
    "check",
];

/// Shows a run.
pub(super) fn page_of(run: &Run, machines: &Machines) -> String {
    let Run { name, record } = run;
    let all = Measured::all(record);
    let longest = runs::longest(&all);
    let title = runs::title(record);
    let verdict = longest.map(|it| verdict(it, all.len())).unwrap_or_default();
    let main = [
        header(&title, name, &verdict),
        failure(record),
        longest.map(|it| key_figures(it, record)).unwrap_or_default(),
        times(&all),
        longest.map(|it| parts(it, all.len())).unwrap_or_default(),
        others(record),
        section("Inputs", &inputs(record)),
        section("Machine", &machine(record, machines)),
    ];
    page(&title, "", &main.concat(), "")
}

/// States the time and its limit; of several times, the longest.
fn verdict(measured: &Measured, number: usize) -> String {
    let limit = match limit(measured) {
        limit if limit.is_empty() => String::new(),
        limit => format!(", limited by {limit}"),
    };
    let name = match number {
        1 => measured.name.clone(),
        number => format!("The longest of {} times is {}", count(number as u64), measured.name),
    };
    format!("{name}: {}{limit}", time(measured.time_ns))
}

fn failure(record: &Record) -> String {
    let Some(error) = &record.error else { return String::new() };
    let lines: Vec<_> = error.lines().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
    section("Failed", &lines.concat())
}

fn key_figures(measured: &Measured, record: &Record) -> String {
    let mut all = tile("time", &time(measured.time_ns), &measured.name);
    if let Some((name, bound)) = measured.bound() {
        all += &tile("bound", &time(*bound), &format!("{name}, which is the largest"));
        if measured.time_ns > 0.0 {
            all += &tile(
                "share of the bound",
                &percent(bound / measured.time_ns),
                "100 % is the bound itself",
            );
        }
    }
    let check =
        record.figures.iter().find_map(|figures| figures.get("check")).and_then(Value::as_object);
    for (name, value) in check.into_iter().flatten().take(1) {
        all += &tile("check", &plain(value), name);
    }
    tiles(&all)
}

/// Lists the times of a record with several.
fn times(all: &[Measured]) -> String {
    if all.len() < 2 {
        return String::new();
    }
    let row = |it: &Measured| {
        let bound = it.bound().map_or_else(|| "–".to_owned(), |(_, bound)| time(*bound));
        vec![it.name.clone(), limit(it), time(it.time_ns), bound]
    };
    let rows: Vec<_> = all.iter().take(MOST).map(row).collect();
    let more = match all.len() - rows.len() {
        0 => String::new(),
        more => remark(&format!("{} more times are not shown.", count(more as u64))),
    };
    section(
        "Times",
        &(Grid::new(&["time of", "limited by", "time", "bound"], rows, 2).html("") + &more),
    )
}

/// Lists the bounds, the critical path and the utilisation of a time.
fn parts(measured: &Measured, number: usize) -> String {
    let of = if number > 1 { format!(" of {}", measured.name) } else { String::new() };
    let share = |ns: f64| {
        if measured.time_ns > 0.0 { percent(ns / measured.time_ns) } else { "–".to_owned() }
    };
    let timed = |heading: &str, all: &[(String, f64)]| {
        let mut all = all.to_vec();
        all.sort_by(|one, other| other.1.total_cmp(&one.1));
        let rows = all.into_iter().map(|(name, ns)| vec![name, time(ns), share(ns)]).collect();
        grid(&[heading, "time", "share of the time"], rows)
    };
    let used = measured.utilisation.iter().map(|(name, share)| vec![name.clone(), percent(*share)]);
    [
        section(&format!("Bounds{of}"), &timed("resource", &measured.bounds_ns)),
        section(&format!("Critical path{of}"), &timed("part", &measured.path_ns)),
        section(&format!("Utilisation{of}"), &grid(&["unit", "mean"], used.collect())),
    ]
    .concat()
}

fn grid(heading: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() { String::new() } else { Grid::new(heading, rows, 1).html("") }
}

/// Lists the figures without a place of their own, with units by the ends of their names.
fn others(record: &Record) -> String {
    let figures = record.figures.iter().flatten();
    let (mut rows, mut rest) = (Vec::new(), Map::new());
    for (name, value) in figures.filter(|(name, _)| !PLACED.contains(&name.as_str())) {
        match value {
            Value::Object(_) | Value::Array(_) => drop(rest.insert(name.clone(), value.clone())),
            value => rows.push(figure(name, value)),
        }
    }
    let rest = if rest.is_empty() { String::new() } else { shown(&[Value::Object(rest)]) };
    section("Figures", &(grid(&["figure", "value"], rows) + &rest))
}

fn figure(name: &str, value: &Value) -> Vec<String> {
    let named = |name: &str, text: String| vec![name.replace('_', " "), text];
    match (name.strip_suffix("_ns"), name.strip_suffix("_bytes"), value.as_f64(), value.as_u64()) {
        (Some(name), _, Some(ns), _) => named(&format!("{name}_time"), time(ns)),
        (_, Some(name), _, Some(size)) => named(&format!("bytes_{name}"), bytes(size)),
        (_, _, Some(number), _) if name == "flop" => named("operations", quantity(number, "FLOP")),
        (_, _, _, Some(number)) => named(name, count(number)),
        _ => named(name, plain(value)),
    }
}

fn inputs(record: &Record) -> String {
    let rows: Vec<_> =
        record.inputs.iter().map(|(name, value)| vec![name.clone(), plain(value)]).collect();
    let version = format!("Simulated by version {}.", record.version);
    let table = if rows.is_empty() {
        String::new()
    } else {
        Grid::new(&["input", "value"], rows, 2).html("")
    };
    table + &remark(&version)
}

fn machine(record: &Record, machines: &Machines) -> String {
    match machines.changes(record) {
        None => {
            remark("Another machine than the default one; the record does not contain its keys.")
        }
        Some(changes) if changes.is_empty() => remark("The default machine."),
        Some(changes) => {
            let rows = changes.into_iter().map(Vec::from).collect();
            Grid::new(&["key", "default machine", "this machine"], rows, 3).html("")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_have_the_units_of_their_names() {
        assert_eq!(figure("host_ns", &json!(1500.0)), ["host time", "1.5 µs"]);
        assert_eq!(figure("read_bytes", &json!(2048)), ["bytes read", "2.00 KiB"]);
        assert_eq!(figure("flop", &json!(2_000_000_000_u64)), ["operations", "2 GFLOP"]);
        assert_eq!(figure("pes", &json!(4096)), ["pes", "4,096"]);
        assert_eq!(figure("name", &json!("x")), ["name", "x"]);
    }
}

//! Studies as CSV: a row for each point and measured time.

use cubeyard_bench::compare::Measured;

use super::{Study, parts};
use crate::points::Outcome;

/// Columns behind the keys.
const FIXED: [&str; 8] =
    ["name", "time_ns", "bound_ns", "bound", "limited_by", "ok", "topology", "error"];

/// Returns all points as CSV, with times in nanoseconds. The columns of the cost follow if there is an expression, then
/// a column for each part of the times.
pub(super) fn csv(study: &Study) -> String {
    let names = parts::names(study);
    let costs = study.cost.iter().flat_map(|_| ["cost".to_owned(), "front".to_owned()]);
    let of_parts = names.iter().map(|name| field(&format!("{name}_ns")));
    let keys = study.grid.keys().map(field);
    let heading = keys.chain(FIXED.map(str::to_owned)).chain(costs).chain(of_parts);
    let mut text = heading.collect::<Vec<_>>().join(",") + "\n";
    for (place, (point, outcome)) in study.points().enumerate() {
        for (figures, measured) in fields(outcome) {
            let values = point.iter().map(|(_, value)| field(value));
            let figures = figures.iter().map(|it| field(it));
            let rest = costs_of(study, place).into_iter().chain(parts_of(&measured, &names));
            text += &values.chain(figures).chain(rest).collect::<Vec<_>>().join(",");
            text.push('\n');
        }
    }
    text
}

/// Returns the cost of a point, and whether it is on the front.
fn costs_of(study: &Study, place: usize) -> Vec<String> {
    let Some(_) = &study.cost else { return Vec::new() };
    let cost = study.designs.all()[place].as_ref().and_then(|it| it.cost);
    let cost = cost.map_or_else(String::new, |cost| cost.to_string());
    vec![cost, study.designs.front()[place].to_string()]
}

fn parts_of(measured: &Measured, names: &[String]) -> Vec<String> {
    let part = |name: &String| measured.path_ns.iter().find(|(known, _)| known == name);
    let text = |name| part(name).map_or_else(String::new, |(_, ns)| ns.to_string());
    names.iter().map(text).collect()
}

fn fields(outcome: &Outcome) -> Vec<([String; 8], Measured)> {
    match outcome {
        Ok(it) => {
            let row = |measured: Measured| {
                let (bound, least) = measured.bound().cloned().unzip();
                let least = least.map_or_else(String::new, |least: f64| least.to_string());
                let limit = measured.limited_by.clone().unwrap_or_default();
                let (time, ok) = (measured.time_ns.to_string(), it.is_well.to_string());
                let (bound, hash) = (bound.unwrap_or_default(), it.record.topology.clone());
                let name = measured.name.clone();
                ([name, time, least, bound, limit, ok, hash, String::new()], measured)
            };
            Measured::all(&it.record).into_iter().map(row).collect()
        }
        Err(error) => {
            let none = String::new;
            let error = error.lines().next().unwrap_or_default().to_owned();
            let ok = "false".to_owned();
            let fields = [none(), none(), none(), none(), none(), ok, none(), error];
            vec![(fields, Measured::default())]
        }
    }
}

/// Quotes a field if needed (RFC 4180).
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        assert_eq!(field("a"), "a");
        assert_eq!(field("[N, S]"), "\"[N, S]\"");
        assert_eq!(field("a \"b\"\n"), "\"a \"\"b\"\"\n\"");
    }
}

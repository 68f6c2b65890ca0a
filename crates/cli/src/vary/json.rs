//! Studies as JSON, with times in nanoseconds.

use cubeyard_bench::compare::Measured;
use cubeyard_bench::record::VERSION;
use cubeyard_study::levers::Limit;
use serde_json::{Value, json};

use super::{Point, Study, values};
use crate::points::Outcome;

pub(super) fn json(study: &Study) -> Value {
    let all = study.points().enumerate();
    let points = all.map(|(place, (point, outcome))| {
        let mut value = of_point(&point, outcome);
        let design = study.designs.all()[place].as_ref();
        value["time_ns"] = json!(design.map(|it| it.time_ns));
        value["limit"] = json!(limit(outcome));
        if study.cost.is_some() {
            value["cost"] = json!(design.and_then(|it| it.cost));
            value["front"] = json!(study.designs.front()[place]);
        }
        value
    });
    let keys: Vec<_> = study.grid.keys().collect();
    let designs = &study.designs;
    let mut value = json!({
        "version": VERSION,
        "command": study.title,
        "keys": keys,
        "points": points.collect::<Vec<_>>(),
        "verdict": designs.verdict(),
        "fastest": designs.fastest(),
    });
    if let Some(cost) = &study.cost {
        value["cost"] = json!(cost);
        value["cheapest"] = json!(designs.cheapest());
        value["knee"] = json!(designs.knee());
    }
    value
}

fn of_point(point: &Point<'_>, outcome: &Outcome) -> Value {
    let values = values(point);
    match outcome {
        Ok(it) => json!({
            "values": values,
            "topology": it.record.topology,
            "inputs": it.record.inputs,
            "rows": Measured::figures(&Measured::all(&it.record))["rows"],
            "ok": it.is_well,
            "error": null,
        }),
        Err(error) => json!({ "values": values, "ok": false, "error": error }),
    }
}

/// Returns the limit of the longest time of a point.
fn limit(outcome: &Outcome) -> Option<String> {
    let rows = Measured::all(&outcome.as_ref().ok()?.record).into_iter().rev();
    let longest = rows.max_by(|one, other| one.time_ns.total_cmp(&other.time_ns))?;
    Limit::of(&longest).map(|limit| limit.text)
}

//! Sweeps as JSON.

use anyhow::Result;
use cubeyard_device::topology::Topology;
use cubeyard_study::collectives::{Row, Sweep, Winner};
use serde_json::{Value, json};

use crate::record::stamped;

pub(super) fn render(sweep: &Sweep, topology: &Topology) -> Result<String> {
    Ok(serde_json::to_string_pretty(&stamped(value(sweep), topology))? + "\n")
}

/// Returns the object of `cubeyard ccl --format json`.
pub fn value(sweep: &Sweep) -> Value {
    let world = sweep.map.world();
    let bound = sweep.bound.as_ref().map(|bound| {
        json!({
            "kind": bound.kind.name(),
            "busbw_gbs": bound.bus / 1e9,
            "capacity_gbs": bound.capacity / 1e9,
            "side": bound.side,
            "links": bound.links,
        })
    });
    let refused = sweep.refused.iter();
    let refused = refused.map(|(name, why)| json!({ "algorithm": name, "why": why }));
    json!({
        "operation": sweep.operation.name(),
        "description": sweep.operation.to_string(),
        "dtype": sweep.dtype.name(),
        "ranks": world.ranks,
        "rank_kind": sweep.ranks.kind(),
        "pes_per_rank": sweep.map.positions(),
        "grid": world.grid,
        "bound": bound,
        "rows": sweep.rows.iter().map(row).collect::<Vec<_>>(),
        "winners": sweep.winners().iter().map(winner).collect::<Vec<_>>(),
        "refused": refused.collect::<Vec<_>>(),
        "right": sweep.is_right(),
    })
}

fn row(row: &Row) -> Value {
    let mut value = json!({ "algorithm": row.algorithm, "bytes": row.bytes, "count": row.count });
    match &row.figures {
        Ok(figures) => {
            value["time_us"] = json!(figures.time.ns() / 1e3);
            value["host_us"] = json!(figures.host.ns() / 1e3);
            value["algbw_gbs"] = json!(figures.algorithm_bandwidth / 1e9);
            value["busbw_gbs"] = json!(figures.bus_bandwidth / 1e9);
            value["share_of_bound"] = json!(figures.share);
            value["estimate_us"] = json!(figures.estimate.map(|span| span.ns() / 1e3));
            value["wrong"] = json!(figures.check.map(|check| check.wrong));
            value["differing"] = json!(figures.check.map(|check| check.differing));
            value["memories"] = json!(figures.check.map(|check| check.memories));
        }
        Err(why) => value["failed"] = json!(why),
    }
    value
}

fn winner(winner: &Winner) -> Value {
    json!({ "algorithm": winner.algorithm, "from_bytes": winner.from, "to_bytes": winner.to })
}

//! Reports on models as JSON.

use anyhow::Result;
use cubeyard_model::Phase;
use cubeyard_model::report::{ModelReport, PartReport, Use};
use serde_json::{Value, json};

pub(super) fn render(report: &ModelReport) -> Result<String> {
    Ok(serde_json::to_string_pretty(&value(report))? + "\n")
}

/// Returns one object.
pub(crate) fn value(report: &ModelReport) -> Value {
    let (cut, memory) = (&report.cut, &report.memory);
    let phase = match cut.work.phase {
        Phase::Decode => "decode",
        Phase::Prefill => "prefill",
    };
    json!({
        "model": cut.spec.name,
        "parameters": cut.spec.parameters(),
        "layers": cut.spec.layers,
        "phase": phase,
        "batch": cut.work.batch,
        "context": cut.work.context,
        "dtype": cut.work.dtype.name(),
        "sips": cut.sips,
        "cubes": cut.cubes,
        "pes": cut.pes,
        "parts": report.parts.iter().map(part).collect::<Vec<_>>(),
        "launches": report.launches,
        "launching_us": report.launching.ns() / 1e3,
        "total_us": report.total.ns() / 1e3,
        "tokens": report.tokens(),
        "tokens_per_second": report.rate(),
        "bandwidth_bound_us": report.bandwidth_bound.ns() / 1e3,
        "share_of_bandwidth_bound": report.bandwidth_share(),
        "bound_us": report.bound().ns() / 1e3,
        "share_of_bound": report.share(),
        "positions_run": report.positions.0,
        "positions": report.positions.1,
        "memory_per_pe": {
            "capacity_bytes": memory.capacity,
            "weights": used(memory.weights),
            "caches": used(memory.cache),
            "activations": used(memory.activations),
            "all": used(memory.total),
        },
    })
}

fn part(part: &PartReport) -> Value {
    json!({
        "part": part.part.name(),
        "count": part.count,
        "each_us": part.each().ns() / 1e3,
        "total_us": part.total.ns() / 1e3,
        "bytes": part.demand.bytes,
        "flop": part.demand.flop,
        "memory_bound_us": part.least[0].ns() / 1e3,
        "gemm_bound_us": part.least[1].ns() / 1e3,
        "share_of_bound": part.share(),
    })
}

fn used(used: Use) -> Value {
    json!({ "most_bytes": used.most, "mean_bytes": used.mean, "all_bytes": used.all })
}

//! Reports on models as JSON.

use anyhow::Result;
use cubeyard_device::topology::Topology;
use cubeyard_model::report::{ModelReport, PartReport, Use};
use cubeyard_model::{HfModel, Phase};
use cubeyard_runtime::dtype::DType;
use serde_json::{Value, json};

use crate::record::stamped;

pub(super) fn render(report: &ModelReport, topology: &Topology) -> Result<String> {
    Ok(serde_json::to_string_pretty(&stamped(value(report), topology))? + "\n")
}

/// Returns the object of `cubeyard model --format json`.
pub fn value(report: &ModelReport) -> Value {
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
        "weights": cut.work.weights.name(),
        "experts_used": cut.routing.map(|routing| routing.used),
        "expert_places": cut.routing.map(|routing| routing.places),
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
        "all_reduces": report.all_reduces,
        "placement": cut.placement_notes(),
        "notes": report.notes,
        "memory_per_pe": {
            "capacity_bytes": memory.capacity,
            "weights": used(memory.weights),
            "caches": used(memory.cache),
            "activations": used(memory.activations),
            "all": used(memory.total),
        },
    })
}

/// Returns the dimensions of a configuration of Hugging Face.
pub fn configuration(HfModel { spec, dtype, notes }: &HfModel) -> Value {
    let experts = spec.family.experts;
    json!({
        "name": spec.name,
        "parameters": spec.parameters(),
        "layers": spec.layers,
        "hidden": spec.hidden,
        "ffn": spec.ffn,
        "heads": spec.heads,
        "kv_heads": spec.kv_heads,
        "head_dim": spec.head_dim,
        "vocab": spec.vocab,
        "experts": experts.map(|experts| experts.count),
        "active_experts": experts.map(|experts| experts.active),
        "dtype": dtype.map(DType::name),
        "notes": notes,
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

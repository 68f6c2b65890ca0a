//! Reports of plans as JSON.

use serde::{Serialize, Serializer};
use serde_json::json;

use super::report::{BoundaryReport, PlanReport, StageReport};

impl Serialize for StageReport {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let report = &self.report;
        let stage = json!({
            "stage": self.stage,
            "first_layer": self.first_layer,
            "layers": self.layers,
            "first_sip": self.first_sip,
            "has_embedding": report.cut.ends.has_embedding,
            "has_head": report.cut.ends.has_head,
            "total_ns": report.total.ns(),
            "bound_ns": report.bound().ns(),
            "parts": report.parts,
            "launching_ns": report.launching.ns(),
            "all_reduces": report.all_reduces,
            "all_reduce_bytes_per_cube": self.all_reduce_bytes(),
            "memory_per_pe": self.memory,
        });
        stage.serialize(to)
    }
}

impl Serialize for BoundaryReport {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let boundary = json!({
            "after_stage": self.stage,
            "over": if self.is_network { "network" } else { "links" },
            "bytes": self.bytes,
            "sent_bytes": self.sent,
            "time_ns": self.time.ns(),
        });
        boundary.serialize(to)
    }
}

impl Serialize for PlanReport {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let work = &self.cut().work;
        let report = json!({
            "model": self.cut().spec.name,
            "plan": self.plan,
            "sips": self.sips,
            "sips_used": self.plan.sips(),
            "phase": work.phase,
            "batch": self.batch,
            "sequences_of_a_replica": self.share,
            "microbatches": self.microbatches,
            "sequences_of_a_microbatch": self.micro,
            "context": work.context,
            "dtype": work.dtype.name(),
            "weights": work.weights.name(),
            "verdict": self.verdict(),
            "latency_ns": self.latency().ns(),
            "period_ns": self.period().ns(),
            "tokens": self.tokens(),
            "tokens_per_second": self.rate(),
            "utilisation": self.utilisation(),
            "bound_ns": self.bound().ns(),
            "boundary_ns": self.boundary_time().ns(),
            "slowest_stage": self.slowest(),
            "most_bytes_of_a_pe": self.most_bytes(),
            "stages": self.stages,
            "boundaries": self.boundaries,
            "notes": self.notes(),
        });
        report.serialize(to)
    }
}

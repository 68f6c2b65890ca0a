//! Report of a sweep.

use serde::{Serialize, Serializer};
use serde_json::json;

use super::{Figures, Row, Sweep};

impl Serialize for Sweep {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let world = self.map.world();
        let refused = self.refused.iter();
        let refused = refused.map(|(name, why)| json!({ "algorithm": name, "why": why }));
        let report = json!({
            "operation": self.operation.name(),
            "description": self.operation.to_string(),
            "dtype": self.dtype.name(),
            "ranks": world.ranks,
            "rank_kind": self.ranks.kind(),
            "pes_per_rank": self.map.positions(),
            "grid": world.grid,
            "bound": self.bound,
            "rows": self.rows,
            "winners": self.winners(),
            "refused": refused.collect::<Vec<_>>(),
            "right": self.is_right(),
        });
        report.serialize(to)
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut row = match &self.figures {
            Ok(figures) => json!(figures),
            Err(why) => json!({ "failed": why }),
        };
        row["algorithm"] = json!(self.algorithm);
        row["bytes"] = json!(self.bytes);
        row["count"] = json!(self.count);
        row.serialize(to)
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let figures = json!({
            "time_ns": self.time.ns(),
            "host_ns": self.host.ns(),
            "algbw_gbs": self.algorithm_bandwidth / 1e9,
            "busbw_gbs": self.bus_bandwidth / 1e9,
            "share_of_bound": self.share,
            "estimate_ns": self.estimate.map(cubeyard_sim::Span::ns),
            "wrong": self.check.map(|check| check.wrong),
            "differing": self.check.map(|check| check.differing),
            "memories": self.check.map(|check| check.memories),
        });
        figures.serialize(to)
    }
}

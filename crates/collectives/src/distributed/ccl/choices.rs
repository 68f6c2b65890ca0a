//! The algorithms that may be chosen at all.

use cubeyard_device::topology::Topology;
use cubeyard_sim::Span;

use super::{CclAlgorithm, CclConfig, Cost};
use crate::collective::{Operation, ReduceOp};
use crate::distributed::error::DistError;
use crate::distributed::rank_map::RankMap;

impl CclConfig {
    /// Returns the names of the algorithms that are chosen for some operation of up to 2^`longest` bytes among
    /// `ranks` ranks. The root is taken to be rank 0; another makes little difference.
    pub(in crate::distributed) fn choices(
        &self,
        topology: &Topology,
        ranks: usize,
        longest: u32,
    ) -> Result<Vec<String>, DistError> {
        let may = |own: &&CclAlgorithm| own.enabled && own.excludes(topology, ranks).is_none();
        let all: Vec<_> = self.algorithms.iter().filter(may).collect();
        let mut chosen: Vec<String> = Vec::new();
        for operation in Operation::all(ReduceOp::Sum, 0) {
            let costs = all.iter().map(|own| own.cost(topology, operation));
            let costs = costs.collect::<Result<Vec<_>, _>>()?;
            for size in (0..=longest).map(|power| 1_u64 << power) {
                let known = all.iter().zip(&costs).filter(|(own, _)| own.bytes.contains(&size));
                let timed = known.filter_map(|(own, cost)| Some((cost.as_ref()?.span(size), own)));
                let ps = |span: &Option<Span>| span.map_or(u64::MAX, Span::ps);
                let best = timed.min_by_key(|(span, _)| ps(span)).map(|(_, own)| &own.name);
                chosen.extend(best.filter(|name| !chosen.contains(name)).cloned());
            }
        }
        Ok(chosen)
    }
}

impl CclAlgorithm {
    /// Returns the cost of an operation, if the algorithm supports it.
    pub(super) fn cost(
        &self,
        topology: &Topology,
        operation: Operation,
    ) -> Result<Option<Cost>, DistError> {
        let (map, algorithm) = (RankMap::new(topology, &self.config)?, self.algorithm());
        if algorithm.refuses(operation, map.world()).is_some() {
            return Ok(None);
        }
        let slot = self.config.ring.slot_bytes.get();
        let schedule = algorithm.schedule(operation, map.world());
        Ok(schedule.map(|schedule| Cost::of(topology, &map, &schedule, slot)))
    }
}

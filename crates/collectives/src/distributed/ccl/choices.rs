//! The algorithms that may be chosen at all.

use cubeyard_device::topology::Topology;

use super::fastest::is_close;
use super::{CclAlgorithm, CclConfig, Cost};
use crate::collective::{Operation, ReduceOp};
use crate::distributed::error::DistError;
use crate::distributed::rank_map::RankMap;

impl CclConfig {
    /// Returns the names of the algorithms that may be chosen for some operation of up to 2^`longest` bytes among
    /// `ranks` ranks. The root is assumed to be rank 0; another root makes little difference.
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
                let timed: Vec<_> = known
                    .filter_map(|(own, cost)| Some((cost.as_ref()?.span(size), &own.name)))
                    .collect();
                let shortest = timed.iter().filter_map(|(span, _)| *span).min();
                for (_, name) in
                    timed.iter().filter(|(span, _)| is_close(self.defaults.ranks, *span, shortest))
                {
                    if !chosen.contains(name) {
                        chosen.push((*name).clone());
                    }
                }
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

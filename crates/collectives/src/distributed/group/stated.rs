//! Orders of the elements of a reduction's outputs, as the algorithm states them.

use std::ops::Range;

use cubeyard_memory::address::PeId;
use cubeyard_runtime::Tensor;
use cubeyard_runtime::placement::Shard;

use super::Group;
use crate::collective::{Operation, Orders, PePart, part};
use crate::distributed::error::DistError;

impl Group {
    /// Returns the orders of each different output of a reduction among SIPs whose inputs are like this one. All ranks
    /// share one output, or each rank gets a part as its own.
    ///
    /// Returns `None` in these cases: the algorithm does not state its order; several PEs hold the same elements; a PE
    /// does not hold whole rows of a matrix that divides evenly among outputs.
    pub(in crate::distributed) fn orders(
        &self,
        operation: Operation,
        input: &Tensor,
    ) -> Result<Option<Vec<Orders>>, DistError> {
        let layout = input.layout()?;
        let shards = layout.shards();
        let width = shards.iter().map(|shard| shard.columns.end).max().unwrap_or(0);
        let outputs = self.output_count(operation);
        let is_whole = shards.iter().all(|shard| shard.columns == (0..width));
        if layout.copies() > 1 || !is_whole || !width.is_multiple_of(outputs as u64) {
            return Ok(None);
        }
        let mut all = vec![Orders::new(); outputs];
        for shard in shards {
            let Some(held) = self.orders_of(operation, shard, shards) else { return Ok(None) };
            let start = shard.rows.start * width / outputs as u64;
            for (output, orders) in all.iter_mut().enumerate() {
                let elements = shard.elements();
                orders.extend(within(&held, &part(elements, output, outputs), start));
            }
        }
        Ok(Some(all))
    }

    /// Returns the number of different outputs.
    fn output_count(&self, operation: Operation) -> usize {
        if matches!(operation, Operation::ReduceScatter(_)) { self.world().ranks } else { 1 }
    }

    /// Returns the orders of the elements of one PE.
    fn orders_of(&self, operation: Operation, shard: &Shard, all: &[Shard]) -> Option<Orders> {
        // A launch numbers only the PEs of a cube that hold elements.
        let mut pes: Vec<PeId> = all.iter().map(|shard| shard.at.pe).collect();
        pes.sort_unstable();
        pes.dedup();
        let is_odd = pes.iter().position(|&pe| pe == shard.at.pe)? % 2 == 1;
        let part = PePart { elements: shard.elements(), is_odd };
        self.algorithm.orders(operation, self.world(), part)
    }
}

/// Returns the orders within a range, which begins at `start` in the output.
fn within(orders: &Orders, range: &Range<u64>, start: u64) -> Orders {
    let cut = orders.iter().map(|(at, order)| {
        let at = at.start.max(range.start)..at.end.min(range.end);
        (at, order.clone())
    });
    let cut = cut.filter(|(at, _)| !at.is_empty());
    cut.map(|(at, order)| (at.start - range.start + start..at.end - range.start + start, order))
        .collect()
}

//! Exchanges among ranks, by which times and orders are kept.

use std::fmt;

use cubeyard_runtime::dtype::DType;

use crate::collective::{Operation, ReduceOp};

/// A collective or a message among SIPs. Equal exchanges take the same time and combine values in the same order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exchange {
    /// Collective, barrier or message.
    pub kind: ExchangeKind,
    /// Ranks of the world that take part, in the order of their group; of a message the sender and the receiver.
    pub ranks: Vec<usize>,
    /// Element type of the tensors.
    pub dtype: DType,
    /// Number of elements of a part: of a rank's tensor in an `all_reduce`, `reduce`, `broadcast` or message, and of the
    /// part for one rank, or from one rank, elsewhere.
    pub count: u64,
}

/// The operation of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExchangeKind {
    /// Collective of all ranks of a group.
    Collective(Operation),
    /// Barrier of all ranks of a group.
    Barrier,
    /// Message from one rank to another.
    Send,
}

impl Exchange {
    /// Returns the operation and its operator, if values are combined.
    pub fn reduction(&self) -> Option<(Operation, ReduceOp)> {
        let ExchangeKind::Collective(operation) = self.kind else { return None };
        Some((operation, operation.op()?))
    }

    /// Returns the shapes of a rank's input and output on the machine; one if they are the same tensor.
    pub(super) fn shapes(&self) -> Vec<Vec<u64>> {
        let (part, parts) = (vec![self.count, 1], vec![self.count, self.ranks.len() as u64]);
        let ExchangeKind::Collective(operation) = self.kind else {
            let is_message = self.kind == ExchangeKind::Send;
            return if is_message { vec![vec![self.count]] } else { Vec::new() };
        };
        match operation {
            Operation::AllGather | Operation::Gather(_) => vec![part, parts],
            Operation::ReduceScatter(_) | Operation::Scatter(_) => vec![parts, part],
            Operation::AllToAll => vec![parts.clone(), parts],
            Operation::AllReduce(_) | Operation::Reduce(..) | Operation::Broadcast(_) => {
                vec![vec![self.count]]
            }
        }
    }

    /// Returns the size in bytes as `cubeyard ccl` counts it: the larger of a rank's input and output.
    pub fn bytes(&self) -> u64 {
        let elements = self.shapes().into_iter().map(|shape| shape.into_iter().product::<u64>());
        elements.max().unwrap_or(0) * self.dtype.size()
    }

    /// Returns the ratio of bus bandwidth to algorithm bandwidth, as nccl-tests define it.
    pub fn bus_factor(&self) -> f64 {
        match self.kind {
            ExchangeKind::Collective(operation) => operation.bus_factor(self.ranks.len()),
            ExchangeKind::Barrier => 0.0,
            ExchangeKind::Send => 1.0,
        }
    }
}

/// Writes the operation with its operator and root.
impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ExchangeKind::Collective(operation) => operation.fmt(f),
            ExchangeKind::Barrier => f.write_str("barrier"),
            ExchangeKind::Send => f.write_str("send"),
        }
    }
}

//! Collective operations and reduction operators.

use std::fmt;
use std::str::FromStr;

use cubeyard_runtime::dtype::DType;
use cubeyard_yaml::NoSuchName;

use super::pieces::part;
use cubeyard_tl::numeric::{Binary, TileType, infer};

/// Operator that combines the values of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReduceOp {
    /// Sum of all values.
    Sum,
    /// Product of all values.
    Prod,
    /// Minimum of all values.
    Min,
    /// Maximum of all values.
    Max,
    /// Sum divided by the number of ranks; of floats only.
    Avg,
    /// Bitwise and; of integers and bools only.
    Band,
    /// Bitwise or; of integers and bools only.
    Bor,
    /// Bitwise exclusive or; of integers and bools only.
    Bxor,
}

impl ReduceOp {
    /// All reduction operators.
    pub const ALL: [Self; 8] =
        [Self::Sum, Self::Prod, Self::Min, Self::Max, Self::Avg, Self::Band, Self::Bor, Self::Bxor];

    /// Returns the name used by PyTorch.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
            Self::Band => "band",
            Self::Bor => "bor",
            Self::Bxor => "bxor",
        }
    }

    /// Returns whether the operator is defined for an element type.
    pub fn suits(self, dtype: DType) -> bool {
        let is_joined = TileType::new(dtype, &[1])
            .and_then(|tile| infer::binary(self.binary(), &tile, &tile))
            .is_ok();
        is_joined && (self != Self::Avg || dtype.is_float())
    }

    /// Returns whether the order of combination can change a bit of the result.
    pub const fn depends_on_order(self, dtype: DType, ranks: usize) -> bool {
        dtype.is_float()
            && match self {
                Self::Sum | Self::Prod | Self::Avg => ranks > 2,
                // Of `0` and `-0` the first operand is kept.
                Self::Min | Self::Max => ranks > 1,
                Self::Band | Self::Bor | Self::Bxor => false,
            }
    }

    /// Returns the operation that combines two values.
    pub const fn binary(self) -> Binary {
        match self {
            Self::Sum | Self::Avg => Binary::Add,
            Self::Prod => Binary::Mul,
            Self::Min => Binary::Minimum,
            Self::Max => Binary::Maximum,
            Self::Band => Binary::And,
            Self::Bor => Binary::Or,
            Self::Bxor => Binary::Xor,
        }
    }
}

impl FromStr for ReduceOp {
    type Err = NoSuchName;

    fn from_str(text: &str) -> Result<Self, NoSuchName> {
        NoSuchName::find(text, &Self::ALL, Self::name)
    }
}

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Every rank gets the combined inputs.
    AllReduce(ReduceOp),
    /// The root gets the combined inputs; the other ranks keep theirs.
    Reduce(ReduceOp, usize),
    /// Every rank gets the root's input.
    Broadcast(usize),
    /// Every rank gets all inputs, one after the other.
    AllGather,
    /// Rank `i` gets part `i` of the combined inputs.
    ReduceScatter(ReduceOp),
    /// Rank `i` gets part `i` of all inputs, one after the other.
    AllToAll,
    /// The root gets all inputs, one after the other.
    Gather(usize),
    /// Rank `i` gets part `i` of the root's input.
    Scatter(usize),
}

impl Operation {
    /// Returns all operations, with a reduction operator and a root.
    pub const fn all(op: ReduceOp, root: usize) -> [Self; 8] {
        [
            Self::AllReduce(op),
            Self::Reduce(op, root),
            Self::Broadcast(root),
            Self::AllGather,
            Self::ReduceScatter(op),
            Self::AllToAll,
            Self::Gather(root),
            Self::Scatter(root),
        ]
    }

    /// Returns the operation with this name, with a reduction operator and a root.
    pub fn named(name: &str, op: ReduceOp, root: usize) -> Result<Self, NoSuchName> {
        NoSuchName::find(name, &Self::all(op, root), Self::name)
    }

    /// Returns the name used by PyTorch.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce(_) => "all_reduce",
            Self::Reduce(..) => "reduce",
            Self::Broadcast(_) => "broadcast",
            Self::AllGather => "all_gather",
            Self::ReduceScatter(_) => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::Gather(_) => "gather",
            Self::Scatter(_) => "scatter",
        }
    }

    /// Returns the root, if the operation has one.
    pub const fn root(self) -> Option<usize> {
        match self {
            Self::Reduce(_, root)
            | Self::Broadcast(root)
            | Self::Gather(root)
            | Self::Scatter(root) => Some(root),
            _ => None,
        }
    }

    /// Returns the length of the output relative to the input, as a fraction.
    pub const fn growth(self, ranks: u64) -> (u64, u64) {
        match self {
            Self::AllGather | Self::Gather(_) => (ranks, 1),
            Self::ReduceScatter(_) | Self::Scatter(_) => (1, ranks),
            _ => (1, 1),
        }
    }

    /// Returns the number of output elements of a rank whose input has `input` elements. Where the input is
    /// divided among ranks, parts differ by at most one element.
    ///
    /// ```
    /// use cubeyard_collectives::collective::{Operation, ReduceOp};
    ///
    /// let scatter = Operation::ReduceScatter(ReduceOp::Sum);
    /// assert_eq!([0, 1, 2].map(|rank| scatter.output(rank, 3, 7)), [2, 2, 3]);
    /// assert_eq!(Operation::AllGather.output(0, 3, 7), 21);
    /// ```
    pub fn output(self, rank: usize, ranks: usize, input: u64) -> u64 {
        let part = part(input, rank, ranks);
        let (part, ranks) = (part.end - part.start, ranks as u64);
        match self {
            Self::AllReduce(_) | Self::Reduce(..) | Self::Broadcast(_) => input,
            Self::AllGather | Self::Gather(_) => input * ranks,
            Self::ReduceScatter(_) | Self::Scatter(_) => part,
            Self::AllToAll => part * ranks,
        }
    }

    /// Returns whether output and input have the same layout.
    pub const fn keeps_layout(self) -> bool {
        matches!(self, Self::AllReduce(_) | Self::Reduce(..) | Self::Broadcast(_))
    }

    /// Returns whether the outputs of all ranks are the same.
    pub const fn gives_all_the_same(self) -> bool {
        matches!(self, Self::AllReduce(_) | Self::Broadcast(_) | Self::AllGather)
    }

    /// Returns the reduction operator, if the operation has one.
    pub const fn op(self) -> Option<ReduceOp> {
        match self {
            Self::AllReduce(op) | Self::Reduce(op, _) | Self::ReduceScatter(op) => Some(op),
            _ => None,
        }
    }

    /// Returns the ratio of bus bandwidth, on the busiest wire, to algorithm bandwidth, as nccl-tests define it.
    pub fn bus_factor(self, ranks: usize) -> f64 {
        let ranks = ranks as f64;
        match self {
            Self::AllReduce(_) => 2.0 * (ranks - 1.0) / ranks,
            Self::AllGather
            | Self::ReduceScatter(_)
            | Self::AllToAll
            | Self::Gather(_)
            | Self::Scatter(_) => (ranks - 1.0) / ranks,
            Self::Reduce(..) | Self::Broadcast(_) => 1.0,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllReduce(op) | Self::ReduceScatter(op) => {
                write!(f, "{} {}", self.name(), op.name())
            }
            Self::Reduce(op, root) => write!(f, "reduce {} to {root}", op.name()),
            Self::Broadcast(root) | Self::Scatter(root) => {
                write!(f, "{} from {root}", self.name())
            }
            Self::Gather(root) => write!(f, "gather to {root}"),
            Self::AllGather | Self::AllToAll => f.write_str(self.name()),
        }
    }
}

//! Orders in which algorithms combine the values of ranks.
//!
//! Sums of floats depend on the order of their additions. So do the minimum and maximum of `0` and `-0`. Each
//! algorithm states its order, and [`combine`](super::combine()) computes its numbers without a simulation.
//! `crates/collectives/tests/it/collectives/bits.rs` compares them with a simulated machine.

use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use super::pieces::part;

/// A binary tree over ranks: the order in which their values are combined.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Value of a rank.
    Rank(usize),
    /// Combination of two values: the first operand and the second.
    Join(Rc<Self>, Rc<Self>),
}

impl Order {
    /// Combines two orders.
    pub fn join(first: Self, second: Self) -> Self {
        Self::Join(Rc::new(first), Rc::new(second))
    }

    /// Returns the order in which each rank after the first is the second operand in turn.
    ///
    /// # Panics
    /// If there is no rank.
    pub fn left_to_right(ranks: usize) -> Self {
        assert!(ranks > 0, "an order has a rank");
        Self::Rank(0).then((1..ranks).map(Self::Rank))
    }

    /// Returns whether the tree holds each rank below `ranks` exactly once.
    pub fn is_complete(&self, ranks: usize) -> bool {
        let mut found = self.evaluate(&|rank| vec![rank], &|a, b| [a, b].concat());
        found.sort_unstable();
        found.into_iter().eq(0..ranks)
    }

    /// Combines this order, as the first operand, with each of `others` in turn.
    pub(super) fn then(self, others: impl IntoIterator<Item = Self>) -> Self {
        others.into_iter().fold(self, Self::join)
    }

    /// Returns the order of a value that is passed from place to place and is the second operand at each place.
    /// Returns `None` without a place.
    pub(super) fn passed(places: impl IntoIterator<Item = Self>) -> Option<Self> {
        places.into_iter().reduce(|come, own| Self::join(own, come))
    }

    /// Evaluates the order on the values of ranks.
    pub fn evaluate<T>(&self, value: &impl Fn(usize) -> T, join: &impl Fn(T, T) -> T) -> T {
        match self {
            Self::Rank(rank) => value(*rank),
            Self::Join(first, second) => {
                join(first.evaluate(value, join), second.evaluate(value, join))
            }
        }
    }
}

/// Writes the tree, e.g. `((0 1) 2)`.
impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "{rank}"),
            Self::Join(first, second) => write!(f, "({first} {second})"),
        }
    }
}

/// Orders of a PE's elements: ranges of its input, ascending and complete, each with its order.
pub type Orders = Vec<(Range<u64>, Order)>;

/// A PE's part of the input of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PePart {
    /// Number of elements.
    pub elements: u64,
    /// Whether the PE has an odd number in its cube and shares its rank with the cube's other PEs.
    pub is_odd: bool,
}

impl PePart {
    /// Returns one order for all elements.
    pub fn whole(self, order: Order) -> Orders {
        vec![(0..self.elements, order)]
    }

    /// Returns one order for each of `count` parts, which differ in length by at most one element.
    pub fn by_parts(self, count: usize, order: impl Fn(usize) -> Order) -> Orders {
        let all = (0..count).map(|index| (part(self.elements, index, count), index));
        let held = all.filter(|(range, _)| !range.is_empty());
        held.map(|(range, index)| (range, order(index))).collect()
    }
}

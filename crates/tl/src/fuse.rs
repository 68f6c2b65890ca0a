//! Fusion: chains of elementwise operations that the vector unit runs as one pass.
//!
//! A [`Lazy`] is an expression over tiles. [`Tl::eval`] turns it into a command: each of its tiles is fetched from the
//! TCM once, every strip goes through all operations in registers, and only results are stored. The results equal those
//! of the same operations executed one by one.
//!
//! ```
//! # use cubeyard_tl::{Tile, Tl};
//! fn weights(tl: &Tl, scores: &Tile, greatest: &Tile) -> [Tile; 2] {
//!     let weights = (scores.lazy() - greatest).exp();
//!     tl.eval_all([&weights, &weights.sum_keep(1)])
//! }
//! ```
//!
//! A reduction along the last axis stays in the unit if a row fits in a strip. Strips then consist of whole rows, the
//! result is known within its strip, and later operations may broadcast it over the row again. Any other reduction ends
//! a pass, because its result is known only at the end: later operations in the same expression may not be larger than
//! the result.

mod chain;

pub use chain::Chain;
use chain::{ChainBuilder, ChainSource};

use std::ops::{Add, Div, Mul, Neg, Sub};
use std::rc::Rc;

use cubeyard_device::pe::Work;
use cubeyard_runtime::Scalar;
use cubeyard_runtime::dtype::DType;
use smallvec::SmallVec;

use super::functions;
use super::op::Op;
use super::order::TileUse;
use super::tape::Effect;
use super::{Tile, Tl};
use crate::numeric::{Binary, Constant, Reduce, Ternary, TileType, Unary, promoted};

/// An expression over tiles; see the [module](self). Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lazy {
    tl: Tl,
    node: Rc<LazyNode>,
}

#[derive(Debug)]
struct LazyNode {
    ty: TileType,
    reduced: Reduced,
    /// Row length, if the expression broadcasts a reduction of the same pass over its rows.
    row: Option<u64>,
    kind: LazyKind,
}

/// Reductions of the same pass on which an expression depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduced {
    No,
    /// Only reductions of rows of this length, each of which lies in one strip.
    Rows(u64),
    /// Other reductions as well, whose results are known only at the end of the pass.
    AtTheEnd,
}

impl Reduced {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, reduced) | (reduced, Self::No) => reduced,
            (reduced, other) if reduced == other => reduced,
            _ => Self::AtTheEnd,
        }
    }

    /// Returns the dependency of a reduction of `ty` along an axis.
    fn along(self, ty: &TileType, axis: usize, strip: u64) -> Self {
        let length = ty.shape[axis];
        let is_row = axis + 1 == ty.shape.len() && (1..=strip).contains(&length);
        if is_row { self.and(Self::Rows(length)) } else { Self::AtTheEnd }
    }
}

impl LazyNode {
    fn leaf(ty: TileType, kind: LazyKind) -> Rc<Self> {
        Rc::new(Self { ty, reduced: Reduced::No, row: None, kind })
    }

    /// Returns the row length, if a result of type `ty` broadcasts this reduction over the reduced rows.
    fn spreads_to(&self, ty: &TileType) -> Option<u64> {
        let Reduced::Rows(length) = self.reduced else { return None };
        let (last, rows) = ty.shape.split_last()?;
        let is_column = self.ty.shape.split_last() == Some((&1, rows));
        (is_column && *last == length).then_some(length)
    }
}

#[derive(Debug)]
enum LazyKind {
    Tile(Tile),
    Number(Constant),
    Operation(Op, SmallVec<[Rc<LazyNode>; 3]>),
}

/// An operand of an expression: another expression, a tile, or a number.
#[derive(Clone, Debug)]
pub enum Term<'a> {
    /// An expression of the same kernel, computed in the same pass.
    Lazy(&'a Lazy),
    /// A tile in the TCM.
    Tile(&'a Tile),
    /// A number.
    Number(Scalar),
}

impl<'a> From<&'a Lazy> for Term<'a> {
    fn from(lazy: &'a Lazy) -> Self {
        Self::Lazy(lazy)
    }
}

impl<'a> From<&'a Tile> for Term<'a> {
    fn from(tile: &'a Tile) -> Self {
        Self::Tile(tile)
    }
}

functions::numbers!(Term);

impl Tile {
    /// Returns the tile as an expression.
    #[must_use]
    pub fn lazy(&self) -> Lazy {
        let node = LazyNode::leaf(self.ty().clone(), LazyKind::Tile(self.clone()));
        Lazy { tl: self.tl().clone(), node }
    }
}

/// Defines functions of one expression.
macro_rules! define_unary {
    ($($(#[$about:meta])* $name:ident = $op:ident;)*) => {
        impl Lazy {
            $($(#[$about])*
            #[track_caller]
            #[must_use]
            pub fn $name(&self) -> Self {
                self.then(Op::Unary(Unary::$op), &[])
            })*
        }
    };
}

/// Defines functions of two operands.
macro_rules! define_binary {
    ($($(#[$about:meta])* $name:ident = $op:ident;)*) => {
        impl Lazy {
            $($(#[$about])*
            #[track_caller]
            #[must_use]
            pub fn $name<'a>(&self, other: impl Into<Term<'a>>) -> Self {
                self.then(Op::Binary(Binary::$op), &[other.into()])
            })*
        }
    };
}

/// Defines functions of two operands, either of which may be a number.
macro_rules! define_terms {
    ($($(#[$about:meta])* $name:ident = $op:ident;)*) => {
        /// Functions of two operands, at least one of which is an expression or a tile.
        pub mod terms {
            use super::{Binary, Lazy, Op, Term, Tl, applied};

            $($(#[$about])*
            #[track_caller]
            pub fn $name(tl: &Tl, x: Term<'_>, y: Term<'_>) -> Lazy {
                applied(tl, Op::Binary(Binary::$op), &[x, y])
            })*
        }
    };
}

/// Defines reductions along an axis, which is removed from the result or kept with length 1. Without an axis, all
/// elements are reduced to one.
macro_rules! define_reduce {
    ($($(#[$about:meta])* $name:ident, $keep:ident = $op:ident;)*) => {
        impl Lazy {
            $($(#[$about])*
            #[track_caller]
            #[must_use]
            pub fn $name(&self, axis: impl Into<Option<usize>>) -> Self {
                self.reduced(Reduce::$op, axis.into(), false)
            }

            $(#[$about])*
            #[doc = "The axis is kept with length 1."]
            #[track_caller]
            #[must_use]
            pub fn $keep(&self, axis: impl Into<Option<usize>>) -> Self {
                self.reduced(Reduce::$op, axis.into(), true)
            })*
        }
    };
}

functions::unary!(define_unary);

functions::binary!(define_binary);
functions::binary!(define_terms);
functions::reduce!(define_reduce);

impl Lazy {
    /// Returns type and shape.
    pub fn ty(&self) -> &TileType {
        &self.node.ty
    }

    /// Returns the tile of an expression without an operation, for which there is nothing to compute.
    pub fn as_tile(&self) -> Option<&Tile> {
        if let LazyKind::Tile(tile) = &self.node.kind { Some(tile) } else { None }
    }

    /// Returns `self * y + z`, rounded once.
    #[track_caller]
    #[must_use]
    pub fn fma<'a>(&self, y: impl Into<Term<'a>>, z: impl Into<Term<'a>>) -> Self {
        self.then(Op::Ternary(Ternary::Fma), &[y.into(), z.into()])
    }

    /// Returns `x` where `self` is true, else `y`.
    #[track_caller]
    #[must_use]
    pub fn select<'a>(&self, x: impl Into<Term<'a>>, y: impl Into<Term<'a>>) -> Self {
        self.then(Op::Ternary(Ternary::Where), &[x.into(), y.into()])
    }

    /// Clamps the elements to the range from `low` to `high`.
    #[track_caller]
    #[must_use]
    pub fn clamp<'a>(&self, low: impl Into<Term<'a>>, high: impl Into<Term<'a>>) -> Self {
        self.then(Op::Ternary(Ternary::Clamp), &[low.into(), high.into()])
    }

    /// Converts the elements to another type.
    #[track_caller]
    #[must_use]
    pub fn cast(&self, dtype: DType) -> Self {
        if self.node.ty.dtype == dtype {
            return self.clone();
        }
        self.then(Op::Cast(dtype), &[])
    }

    /// Views the bits of the elements as another type of the same size.
    #[track_caller]
    #[must_use]
    pub fn bitcast(&self, dtype: DType) -> Self {
        self.then(Op::Bitcast(dtype), &[])
    }

    /// Reduces along an axis; without one, along each axis from the last to the first. The index of an element cannot be
    /// found one axis after the other.
    #[track_caller]
    fn reduced(&self, op: Reduce, axis: Option<usize>, keep: bool) -> Self {
        if let Some(axis) = axis {
            return self.then(Op::Reduce(op, axis, keep), &[]);
        }
        let rank = self.ty().shape.len();
        if rank != 1 && matches!(op, Reduce::Argmax | Reduce::Argmin) {
            self.tl.fail(format!("{} of {}: expected an axis, or a tile", op.name(), self.ty()));
        }
        // Not in a closure: `track_caller` would report the closure as the line of the kernel.
        let mut all = self.clone();
        for axis in (0..rank).rev() {
            all = all.then(Op::Reduce(op, axis, keep), &[]);
        }
        all
    }

    /// Applies an operation to this expression and others.
    #[track_caller]
    fn then(&self, op: Op, others: &[Term<'_>]) -> Self {
        let mut terms: SmallVec<[Term<'_>; 3]> = SmallVec::new();
        terms.push(self.into());
        terms.extend(others.iter().cloned());
        applied(&self.tl, op, &terms)
    }

    #[track_caller]
    fn operation(tl: &Tl, op: Op, operands: SmallVec<[Rc<LazyNode>; 3]>) -> Self {
        let types: SmallVec<[_; 3]> = operands.iter().map(|node| &node.ty).collect();
        let ty = tl.checked(op.infer(&types));
        drop(types);
        let strip = tl.state.site.core.math.strip.into();
        let smaller = |node: &&Rc<LazyNode>| {
            node.reduced != Reduced::No && node.ty.elements() < ty.elements()
        };
        let mut row = None;
        for node in operands.iter().filter(smaller) {
            match node.spreads_to(&ty) {
                Some(length) => row = Some(length),
                None => tl.fail(at_the_end(&op, &ty, &node.ty, strip)),
            }
        }
        let before = operands.iter().fold(Reduced::No, |all, node| all.and(node.reduced));
        let reduced = match op {
            Op::Reduce(_, axis, _) => before.along(&operands[0].ty, axis, strip),
            _ => before,
        };
        let node = LazyNode { ty, reduced, row, kind: LazyKind::Operation(op, operands) };
        Self { tl: tl.clone(), node: Rc::new(node) }
    }
}

/// Applies an operation to expressions, tiles and numbers, which are converted to one type; see [`promoted`].
#[track_caller]
pub(super) fn applied(tl: &Tl, op: Op, terms: &[Term<'_>]) -> Lazy {
    let (conditions, terms) = terms.split_at(op.conditions());
    let mut types = terms.iter().filter_map(dtype_of);
    let Some(beside) = types.next() else { tl.fail(op.alone()) };
    let dtype = promoted(beside, terms.iter().filter_map(number_of));
    // Operands of different types are not converted, and are refused.
    let into = if types.all(|other| other == beside) { Some(dtype) } else { None };
    let mut operands = SmallVec::with_capacity(3);
    operands.extend(conditions.iter().filter_map(|term| node_of(term).ok()));
    // Not in a closure: `track_caller` would report the closure as the line of the kernel.
    for term in terms {
        operands.push(match (node_of(term), into) {
            (Ok(node), Some(into)) if node.ty.dtype != into => {
                Lazy { tl: tl.clone(), node }.cast(into).node
            }
            (Ok(node), _) => node,
            (Err(number), _) => number_node(tl, number, dtype),
        });
    }
    Lazy::operation(tl, op, operands)
}

#[track_caller]
fn number_node(tl: &Tl, number: Scalar, dtype: DType) -> Rc<LazyNode> {
    let constant = tl.checked(Constant::new(number, dtype));
    LazyNode::leaf(TileType::scalar(dtype), LazyKind::Number(constant))
}

/// Describes a step that uses a reduction of the same pass whose result is known only at the end.
fn at_the_end(op: &Op, ty: &TileType, reduction: &TileType, strip: u64) -> String {
    let what = format!("{} {ty} uses a reduction, {reduction}, of the same pass", op.name());
    let is_column = reduction.shape.last() == Some(&1);
    let why = match ty.shape.last() {
        Some(row) if is_column && *row > strip => {
            format!("a row of {row} elements is longer than a strip, {strip}")
        }
        _ => "it is known at its end".to_owned(),
    };
    format!("{what}, but {why}: evaluate the reduction before")
}

/// Returns the node of an expression or a tile; a number is returned as the error.
fn node_of(term: &Term<'_>) -> Result<Rc<LazyNode>, Scalar> {
    match term {
        Term::Lazy(lazy) => Ok(Rc::clone(&lazy.node)),
        Term::Tile(tile) => Ok(tile.lazy().node),
        Term::Number(number) => Err(*number),
    }
}

fn number_of(term: &Term<'_>) -> Option<Scalar> {
    if let Term::Number(number) = term { Some(*number) } else { None }
}

fn dtype_of(term: &Term<'_>) -> Option<DType> {
    match term {
        Term::Lazy(lazy) => Some(lazy.ty().dtype),
        Term::Tile(tile) => Some(tile.ty().dtype),
        Term::Number(_) => None,
    }
}

/// Defines operators between expressions, tiles and numbers.
macro_rules! operators {
    ($($operator:ident, $method:ident;)*) => {
        $(
        impl<'a, T: Into<Term<'a>>> $operator<T> for &Lazy {
            type Output = Lazy;

            #[track_caller]
            fn $method(self, other: T) -> Lazy {
                self.then(Op::Binary(Binary::$operator), &[other.into()])
            }
        }

        impl<'a, T: Into<Term<'a>>> $operator<T> for Lazy {
            type Output = Lazy;

            #[track_caller]
            fn $method(self, other: T) -> Lazy {
                (&self).$method(other)
            }
        }
        )*
    };
}

operators! {
    Add, add;
    Sub, sub;
    Mul, mul;
    Div, div;
}

impl Neg for &Lazy {
    type Output = Lazy;

    #[track_caller]
    fn neg(self) -> Lazy {
        self.then(Op::Unary(Unary::Neg), &[])
    }
}

impl Tl {
    /// Computes an expression in one pass.
    #[track_caller]
    pub fn eval(&self, expression: &Lazy) -> Tile {
        let [tile] = self.eval_all([expression]);
        tile
    }

    /// Computes several expressions in one pass; common subexpressions are computed once.
    #[track_caller]
    pub fn eval_all<const N: usize>(&self, expressions: [&Lazy; N]) -> [Tile; N] {
        let tiles = self.eval_each(&expressions);
        tiles.try_into().unwrap_or_else(|_| unreachable!("one tile for each expression"))
    }

    /// Does the same as [`eval_all`](Self::eval_all), for a number of expressions that is known only at run time.
    #[track_caller]
    pub fn eval_each(&self, expressions: &[&Lazy]) -> Vec<Tile> {
        if expressions.is_empty() {
            self.fail("no expression: there is nothing to compute");
        }
        let mut builder = ChainBuilder::default();
        let results: Vec<_> = expressions.iter().map(|each| builder.add(&each.node)).collect();
        let ChainBuilder { mut chain, tiles, .. } = builder;
        let mut outputs = Vec::with_capacity(expressions.len());
        for (result, expression) in results.into_iter().zip(expressions) {
            let ChainSource::Step(step) = result else {
                self.fail("an expression without an operation: there is nothing to compute")
            };
            chain.outputs.push(step);
            outputs.push(self.tile(expression.ty().clone()));
        }
        chain.values = outputs.iter().map(Tile::value).collect();
        self.state.tape.borrow_mut().add_flop(chain.flop());
        let work = Work::Compute(chain.cost(&self.state.site.core));
        let reads = tiles.iter().map(TileUse::Read);
        let writes = outputs.iter().map(TileUse::Write);
        self.order(work, Effect::Fused(Rc::new(chain)), reads.chain(writes));
        outputs
    }
}

//! Fusion: chains of elementwise operations that the vector unit runs as one pass.
//!
//! A [`Lazy`] is an expression over tiles. [`Tl::eval`] makes a command of it: each tile in it is fetched from the TCM
//! once, every strip goes through all operations in registers, and only results are stored. The numbers are those of the
//! same operations one by one.
//!
//! ```
//! # use cubeyard_tl::{Tile, Tl};
//! fn weights(tl: &Tl, scores: &Tile, greatest: &Tile) -> [Tile; 2] {
//!     let weights = (scores.lazy() - greatest).exp();
//!     tl.eval_all([&weights, &weights.sum_keep(1)])
//! }
//! ```
//!
//! A reduction ends a pass, because its result is known at the end only: what follows it in the same expression may not
//! be larger than the result.

use std::ops::{Add, Div, Mul, Neg, Sub};
use std::rc::Rc;

use cubeyard_device::pe::{OpUnit, Strips, Work};
use cubeyard_device::topology::CoreSpec;
use cubeyard_runtime::dtype::DType;
use cubeyard_sim::Span;
use smallvec::SmallVec;

use super::input::{Input, ValueId};
use super::op::Op;
use super::order::After;
use super::tape::Effect;
use super::{Tile, Tl};
use crate::numeric::{Array, Binary, NumericError, Reduce, Ternary, TileType, Unary, infer};

/// An expression over tiles; see the [module](self). Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lazy {
    tl: Tl,
    node: Rc<Node>,
}

#[derive(Debug)]
struct Node {
    ty: TileType,
    /// Whether a reduction is part of it.
    is_reduced: bool,
    kind: NodeKind,
}

#[derive(Debug)]
enum NodeKind {
    Tile(Tile),
    Number(f64),
    Operation(Op, SmallVec<[Rc<Node>; 3]>),
}

/// An operand of an expression: another, a tile, or a number.
#[derive(Clone, Debug)]
pub enum Term<'a> {
    /// Another expression.
    Lazy(&'a Lazy),
    /// A tile in the TCM.
    Tile(&'a Tile),
    /// A number, of the type of the operand beside it.
    Number(f64),
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

impl From<f64> for Term<'_> {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl Tile {
    /// Returns an expression that is this tile.
    #[must_use]
    pub fn lazy(&self) -> Lazy {
        let kind = NodeKind::Tile(self.clone());
        let node = Node { ty: self.ty().clone(), is_reduced: false, kind };
        Lazy { tl: self.tl().clone(), node: Rc::new(node) }
    }
}

/// Defines functions of one expression.
macro_rules! unary {
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
macro_rules! binary {
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

unary! {
    /// Returns the absolute value of each element.
    abs = Abs;
    /// Returns e to the power of each element.
    exp = Exp;
    /// Returns 2 to the power of each element.
    exp2 = Exp2;
    /// Returns the natural logarithm of each element.
    log = Log;
    /// Returns the logarithm to base 2 of each element.
    log2 = Log2;
    /// Returns the square root of each element.
    sqrt = Sqrt;
    /// Returns 1 / sqrt(x) of each element.
    rsqrt = Rsqrt;
    /// Returns 1 / (1 + exp(-x)) of each element.
    sigmoid = Sigmoid;
    /// Returns the hyperbolic tangent of each element.
    tanh = Tanh;
    /// Returns the error function of each element.
    erf = Erf;
    /// Returns max(x, 0) of each element.
    relu = Relu;
}

binary! {
    /// Returns the greater of two elements.
    maximum = Maximum;
    /// Returns the smaller of two elements.
    minimum = Minimum;
    /// Returns whether it is less than `other`.
    lt = Lt;
    /// Returns whether it is at least `other`.
    ge = Ge;
}

impl Lazy {
    /// Returns type and shape.
    pub fn ty(&self) -> &TileType {
        &self.node.ty
    }

    /// Returns `self * y + z`, rounded once.
    #[track_caller]
    #[must_use]
    pub fn fma<'a>(&self, y: impl Into<Term<'a>>, z: impl Into<Term<'a>>) -> Self {
        self.then(Op::Ternary(Ternary::Fma), &[y.into(), z.into()])
    }

    /// Returns `x` where it is true, else `y`.
    #[track_caller]
    #[must_use]
    pub fn select<'a>(&self, x: impl Into<Term<'a>>, y: impl Into<Term<'a>>) -> Self {
        self.then(Op::Ternary(Ternary::Where), &[x.into(), y.into()])
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

    /// Sums the elements along an axis, which is kept with length 1.
    #[track_caller]
    #[must_use]
    pub fn sum_keep(&self, axis: usize) -> Self {
        self.then(Op::Reduce(Reduce::Sum, axis, true), &[])
    }

    /// Returns the greatest element along an axis, which is kept with length 1.
    #[track_caller]
    #[must_use]
    pub fn max_keep(&self, axis: usize) -> Self {
        self.then(Op::Reduce(Reduce::Max, axis, true), &[])
    }

    /// Applies an operation to this expression and others.
    #[track_caller]
    fn then(&self, op: Op, others: &[Term<'_>]) -> Self {
        let mut operands: SmallVec<[Rc<Node>; 3]> = SmallVec::new();
        operands.push(Rc::clone(&self.node));
        // The first operand of `where` is a condition; its type is not that of numbers.
        let condition = matches!(op, Op::Ternary(Ternary::Where));
        let beside =
            if condition { others.iter().find_map(dtype_of) } else { Some(self.ty().dtype) };
        for other in others {
            operands.push(self.operand(&op, other, beside));
        }
        self.operation(op, operands)
    }

    #[track_caller]
    fn operand(&self, op: &Op, term: &Term<'_>, beside: Option<DType>) -> Rc<Node> {
        match (term, beside) {
            (Term::Lazy(lazy), _) => Rc::clone(&lazy.node),
            (Term::Tile(tile), _) => tile.lazy().node,
            (Term::Number(number), Some(dtype)) => {
                let ty = TileType::scalar(dtype);
                self.tl.checked(infer::full(&ty, *number));
                Rc::new(Node { ty, is_reduced: false, kind: NodeKind::Number(*number) })
            }
            (Term::Number(_), None) => {
                self.tl.fail(format!("{} of numbers alone: one operand must be a tile", op.name()))
            }
        }
    }

    #[track_caller]
    fn operation(&self, op: Op, operands: SmallVec<[Rc<Node>; 3]>) -> Self {
        let types: SmallVec<[_; 3]> = operands.iter().map(|node| &node.ty).collect();
        let ty = self.tl.checked(op.infer(&types));
        drop(types);
        for node in operands.iter().filter(|node| node.is_reduced) {
            if node.ty.elements() < ty.elements() {
                let what = format!(
                    "{} {ty} uses a reduction, {}, of the same pass: evaluate the reduction before",
                    op.name(),
                    node.ty
                );
                self.tl.fail(what);
            }
        }
        let is_reduced =
            matches!(op, Op::Reduce(..)) || operands.iter().any(|node| node.is_reduced);
        let node = Node { ty, is_reduced, kind: NodeKind::Operation(op, operands) };
        Self { tl: self.tl.clone(), node: Rc::new(node) }
    }
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

    /// Computes several expressions in one pass; what they have in common is computed once.
    #[track_caller]
    pub fn eval_all<const N: usize>(&self, expressions: [&Lazy; N]) -> [Tile; N] {
        let mut builder = Builder::default();
        let results = expressions.map(|expression| builder.add(&expression.node));
        let Builder { mut chain, tiles, .. } = builder;
        let mut outputs = Vec::with_capacity(N);
        for (result, expression) in results.into_iter().zip(&expressions) {
            let Source::Step(step) = result else {
                self.fail("an expression without an operation: there is nothing to compute")
            };
            chain.outputs.push(step);
            outputs.push(self.tile(expression.ty().clone()));
        }
        chain.values = outputs.iter().map(Tile::value).collect();
        self.state.tape.borrow_mut().add_flop(chain.flop());
        let work = Work::Compute(chain.cost(&self.state.site.core));
        let (reads, writes): (Vec<_>, Vec<_>) = (tiles.iter().collect(), outputs.iter().collect());
        self.order(work, Effect::Fused(Rc::new(chain)), &reads, &writes, After::new());
        outputs.try_into().unwrap_or_else(|_| unreachable!("one tile for each expression"))
    }
}

/// A chain in the making.
#[derive(Default)]
struct Builder {
    chain: Chain,
    /// Nodes of the expressions by step, so that a node that occurs twice is one step.
    seen: Vec<Rc<Node>>,
    /// Tiles of the inputs.
    tiles: Vec<Tile>,
}

impl Builder {
    /// Adds a node and all below it that are not there, and returns where its value is.
    fn add(&mut self, node: &Rc<Node>) -> Source {
        match &node.kind {
            NodeKind::Number(number) => Source::Number(*number, node.ty.clone()),
            NodeKind::Tile(tile) => Source::Input(self.input(tile)),
            NodeKind::Operation(op, operands) => {
                if let Some(step) = self.seen.iter().position(|seen| Rc::ptr_eq(seen, node)) {
                    return Source::Step(step);
                }
                let operands = operands.iter().map(|operand| self.add(operand)).collect();
                self.chain.steps.push(Step { op: op.clone(), operands, ty: node.ty.clone() });
                self.seen.push(Rc::clone(node));
                Source::Step(self.chain.steps.len() - 1)
            }
        }
    }

    fn input(&mut self, tile: &Tile) -> usize {
        let same = |other: &Tile| other.value() == tile.value() && other.ty() == tile.ty();
        if let Some(place) = self.tiles.iter().position(same) {
            return place;
        }
        self.tiles.push(tile.clone());
        self.chain.inputs.push(tile.input());
        self.tiles.len() - 1
    }
}

/// Operations that run as one pass, each after its operands.
#[derive(Debug, Default)]
pub struct Chain {
    steps: Vec<Step>,
    /// Tiles that are read.
    inputs: Vec<Input>,
    /// Steps whose results are stored, and the values that they become.
    outputs: Vec<usize>,
    values: Vec<ValueId>,
}

#[derive(Debug)]
struct Step {
    op: Op,
    operands: SmallVec<[Source; 3]>,
    ty: TileType,
}

/// Where an operand of a step is.
#[derive(Clone, Debug)]
enum Source {
    Input(usize),
    Number(f64, TileType),
    Step(usize),
}

impl Chain {
    /// Returns the tiles that are read.
    pub(crate) fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Returns the values that are computed.
    pub(crate) fn values(&self) -> &[ValueId] {
        &self.values
    }

    fn flop(&self) -> u64 {
        let of = |step: &Step| step.op.flop(&self.types(step), &step.ty);
        self.steps.iter().map(of).sum()
    }

    fn types<'a>(&'a self, step: &'a Step) -> SmallVec<[&'a TileType; 3]> {
        let of = |source: &'a Source| match source {
            Source::Input(input) => &self.inputs[*input].ty,
            Source::Number(_, ty) => ty,
            Source::Step(step) => &self.steps[*step].ty,
        };
        step.operands.iter().map(of).collect()
    }

    /// Returns the strips of the pass: each is fetched once, worked on by every operation, and stored once.
    fn cost(&self, core: &CoreSpec) -> Strips {
        let elements = |step: &Step| {
            let types = self.types(step);
            types.iter().map(|ty| ty.elements()).max().unwrap_or(0).max(step.ty.elements())
        };
        let largest = self.steps.iter().map(elements).max().unwrap_or(0);
        let count = largest.div_ceil(core.math.strip.into()).max(1);
        let read: u64 = self.inputs.iter().map(|input| input.ty.nbytes()).sum();
        let written: u64 = self.outputs.iter().map(|&step| self.steps[step].ty.nbytes()).sum();
        let work = |step: &Step| step.op.math_rate(core).span(elements(step).div_ceil(count));
        Strips {
            unit: OpUnit::Math,
            count: u32::try_from(count).unwrap_or(u32::MAX),
            fetch: core.tcm_read.span(read.div_ceil(count)),
            work: self.steps.iter().map(work).sum::<Span>(),
            store: core.tcm_write.span(written.div_ceil(count)),
        }
    }

    /// Computes the outputs from the inputs.
    pub(crate) fn compute(&self, inputs: &[Rc<Array>]) -> Result<Vec<Array>, NumericError> {
        let mut done: Vec<Rc<Array>> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let operands: SmallVec<[Rc<Array>; 3]> = step
                .operands
                .iter()
                .map(|source| match source {
                    Source::Input(input) => Ok(Rc::clone(&inputs[*input])),
                    Source::Number(number, ty) => Array::full(ty.clone(), *number).map(Rc::new),
                    Source::Step(step) => Ok(Rc::clone(&done[*step])),
                })
                .collect::<Result<_, _>>()?;
            let operands: SmallVec<[&Array; 3]> = operands.iter().map(|array| &**array).collect();
            done.push(Rc::new(step.op.compute(&operands)?));
        }
        Ok(self.outputs.iter().map(|&step| (*done[step]).clone()).collect())
    }

    /// Returns the operations and the type of the last, e.g. `sub+exp f32[64, 64]`.
    pub(crate) fn describe(&self) -> String {
        let names: Vec<_> = self.steps.iter().map(|step| step.op.name()).collect();
        let ty = self.outputs.first().map(|&step| self.steps[step].ty.to_string());
        format!("{} {}", names.join("+"), ty.unwrap_or_default())
    }
}

//! Random kernels with chains, as data: for the machine and for the reference.

use std::rc::Rc;

use cubeyard_runtime::dtype::DType;

use super::reference::Costs;

/// Rows and columns.
pub(crate) type Shape = [u64; 2];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ty {
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) inputs: Vec<Ty>,
    pub(crate) commands: Vec<Ordered>,
}

#[derive(Clone, Debug)]
pub(crate) enum Ordered {
    Load(usize),
    Full(Ty),
    Add(usize, usize),
    Exp(usize),
    /// The row sums of a tile, as its product with a column of ones created earlier.
    RowSums(usize),
    Chain {
        steps: Vec<ChainStep>,
        outputs: Vec<usize>,
    },
    Wait(usize),
    Fence,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Neg,
    Relu,
    Exp,
    Rsqrt,
    Add,
    Maximum,
    Div,
    /// `x * y + 0.5`, a single operation.
    Fma,
    /// The lesser operand by a comparison and a selection, two operations.
    Below,
    Cast(DType),
    Sum(usize),
    Max(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum From {
    Tile(usize),
    Step(usize),
    Number(f64),
}

#[derive(Clone, Debug)]
pub(crate) struct ChainStep {
    pub(crate) function: Function,
    pub(crate) operands: Vec<From>,
    pub(crate) ty: Ty,
    /// Shape of the first operand.
    pub(crate) first: Shape,
    /// Whether the step broadcasts a reduction of rows over them.
    pub(crate) spreads: bool,
}

/// Random numbers from a hashed counter.
pub(crate) struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap()
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Reductions of the same chain that a value depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reduced {
    No,
    Rows,
    End,
}

/// A value that a step may use.
#[derive(Clone, Copy, Debug)]
struct Usable {
    from: From,
    ty: Ty,
    reduced: Reduced,
}

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

pub(crate) fn random(seed: u64) -> (Costs, Rc<Program>) {
    let mut dice = Dice(seed);
    let costs = Costs {
        dispatch: dice.one(&[0, 1000, 2000]),
        overhead: dice.one(&[0, 1000, 3000]),
        window: dice.one(&[1, 2, 5, 16]),
        read: dice.one(&[64, 512, 2048]),
        write: dice.one(&[64, 512, 2048]),
        strip: dice.one(&[64, 500, 2048]),
        simple: dice.one(&[256, 97]),
        special: dice.one(&[64, 33]),
        reduce: dice.one(&[128, 50]),
        tile: [dice.one(&[4, 32]), dice.one(&[8, 64]), dice.one(&[1, 32])],
        tflops: dice.one(&[1, 7]),
        is_separate: dice.below(2) == 1,
    };
    let whole = [dice.one(&[1, 3, 16, 33]), dice.one(&[1, 7, 64, 100, 600])];
    let shapes = [whole, whole, [1, whole[1]], [whole[0], 1]];
    let inputs: Vec<_> =
        (0..3).map(|_| Ty { dtype: dice.one(&FLOATS), shape: dice.one(&shapes) }).collect();
    let mut maker =
        Maker { dice, strip: costs.strip, shapes, tiles: Vec::new(), commands: Vec::new() };
    for (index, ty) in inputs.iter().enumerate() {
        maker.order(Ordered::Load(index), &[*ty]);
    }
    for _ in 0..maker.dice.below(12) + 2 {
        maker.command();
    }
    (costs, Rc::new(Program { inputs, commands: maker.commands }))
}

struct Maker {
    dice: Dice,
    strip: u64,
    shapes: [Shape; 4],
    tiles: Vec<Ty>,
    commands: Vec<Ordered>,
}

impl Maker {
    fn order(&mut self, command: Ordered, made: &[Ty]) {
        self.commands.push(command);
        self.tiles.extend(made);
    }

    fn command(&mut self) {
        let tile = self.dice.below(self.tiles.len());
        let ty = self.tiles[tile];
        match self.dice.below(12) {
            10 | 11 => {
                let made = Ty { dtype: DType::F32, shape: [ty.shape[0], 1] };
                self.order(Ordered::RowSums(tile), &[made]);
            }
            0 => self.order(Ordered::Wait(tile), &[]),
            1 => self.order(Ordered::Fence, &[]),
            2 => {
                let ty = Ty {
                    dtype: self.dice.one(&FLOATS),
                    shape: self.dice.one(&self.shapes.clone()),
                };
                self.order(Ordered::Full(ty), &[ty]);
            }
            3 => self.order(Ordered::Exp(tile), &[ty]),
            4 => {
                let same = |of: &usize| self.tiles[*of].dtype == ty.dtype;
                let others: Vec<_> = (0..self.tiles.len()).filter(same).collect();
                let other = self.dice.one(&others);
                let made = Ty { shape: broadcast(ty.shape, self.tiles[other].shape), ..ty };
                self.order(Ordered::Add(tile, other), &[made]);
            }
            _ => self.chain(),
        }
    }

    fn chain(&mut self) {
        let tiles = self.tiles.iter().enumerate();
        let mut values: Vec<Usable> = tiles
            .map(|(tile, &ty)| Usable { from: From::Tile(tile), ty, reduced: Reduced::No })
            .collect();
        let mut steps: Vec<ChainStep> = Vec::new();
        for _ in 0..=self.dice.below(12) {
            self.step(&mut values, &mut steps);
        }
        let mut outputs = vec![steps.len() - 1];
        for _ in 0..self.dice.below(3) {
            outputs.push(self.dice.below(steps.len()));
        }
        let made: Vec<_> = outputs.iter().map(|&step| steps[step].ty).collect();
        self.order(Ordered::Chain { steps, outputs }, &made);
    }

    /// Adds a step; more often than not it uses the last one.
    fn step(&mut self, values: &mut Vec<Usable>, steps: &mut Vec<ChainStep>) {
        let is_new = steps.is_empty() || self.dice.below(4) == 0;
        let at = if is_new { self.dice.below(values.len()) } else { values.len() - 1 };
        let x = values[at];
        let functions = [Function::Neg, Function::Relu, Function::Exp, Function::Rsqrt];
        let pairs =
            [Function::Add, Function::Maximum, Function::Div, Function::Fma, Function::Below];
        match self.dice.below(10) {
            0..3 => {
                let function = self.dice.one(&functions);
                add(values, steps, function, vec![x.from], x, x.ty, x.reduced, false);
            }
            3 => {
                let dtype = self.dice.one(&FLOATS);
                if dtype != x.ty.dtype {
                    cast(values, steps, x, dtype);
                }
            }
            4..6 => {
                let axis = self.dice.one(&[0, 1, 1]);
                let function = self.dice.one(&[Function::Sum(axis), Function::Max(axis)]);
                self.reduce(values, steps, function, x, axis);
            }
            _ => {
                let function = self.dice.one(&pairs);
                self.pair(values, steps, function, x);
            }
        }
        if steps.is_empty() {
            add(values, steps, Function::Neg, vec![x.from], x, x.ty, x.reduced, false);
        }
    }

    fn reduce(
        &mut self,
        values: &mut Vec<Usable>,
        steps: &mut Vec<ChainStep>,
        function: Function,
        x: Usable,
        axis: usize,
    ) {
        let mut ty = x.ty;
        ty.shape[axis] = 1;
        let length = x.ty.shape[1];
        // A reduction of a value that depends on rows of another length is known only at the end; here that is a
        // column.
        let is_row = axis == 1 && length <= self.strip;
        let again = x.reduced != Reduced::No && length != self.shapes[0][1];
        let reduced = match x.reduced {
            Reduced::No if is_row && length == self.shapes[0][1] => Reduced::Rows,
            Reduced::Rows if is_row && !again => Reduced::Rows,
            _ => Reduced::End,
        };
        add(values, steps, function, vec![x.from], x, ty, reduced, false);
    }

    /// Picks a second operand; if rows were reduced, mostly a whole value and its reduction.
    fn operands(&mut self, values: &[Usable], x: Usable) -> [Usable; 2] {
        let is_column = |of: &&Usable| of.reduced == Reduced::Rows && of.ty.shape[1] == 1;
        let is_whole = |of: &Usable| of.reduced != Reduced::End && of.ty.shape == self.shapes[0];
        let whole: Vec<_> = values.iter().copied().filter(is_whole).collect();
        match values.iter().rfind(is_column) {
            Some(column) if !whole.is_empty() && self.dice.below(2) == 0 => {
                [self.dice.one(&whole), *column]
            }
            _ => [x, values[self.dice.below(values.len())]],
        }
    }

    fn pair(
        &mut self,
        values: &mut Vec<Usable>,
        steps: &mut Vec<ChainStep>,
        function: Function,
        x: Usable,
    ) {
        let [x, y] = self.operands(values, x);
        let shape = broadcast(x.ty.shape, y.ty.shape);
        let spreads = |of: &Usable| {
            let smaller = of.reduced != Reduced::No && of.ty.shape != shape;
            let is_column = of.ty.shape == [shape[0], 1] && shape[1] == self.shapes[0][1];
            (smaller, of.reduced == Reduced::Rows && is_column)
        };
        let checked = [&x, &y].map(spreads);
        let is_refused = checked.contains(&(true, false));
        if is_refused || self.dice.below(5) == 0 {
            add(
                values,
                steps,
                function,
                vec![x.from, From::Number(0.5)],
                x,
                x.ty,
                x.reduced,
                false,
            );
            return;
        }
        let y = if y.ty.dtype == x.ty.dtype { y } else { cast(values, steps, y, x.ty.dtype) };
        let reduced = match (x.reduced, y.reduced) {
            (Reduced::No, other) | (other, Reduced::No) => other,
            (a, b) if a == b => a,
            _ => Reduced::End,
        };
        let ty = Ty { shape, ..x.ty };
        let spreads = checked.contains(&(true, true));
        add(values, steps, function, vec![x.from, y.from], x, ty, reduced, spreads);
    }
}

fn broadcast(a: Shape, b: Shape) -> Shape {
    [a[0].max(b[0]), a[1].max(b[1])]
}

fn cast(values: &mut Vec<Usable>, steps: &mut Vec<ChainStep>, x: Usable, dtype: DType) -> Usable {
    let ty = Ty { dtype, ..x.ty };
    add(values, steps, Function::Cast(dtype), vec![x.from], x, ty, x.reduced, false);
    *values.last().unwrap()
}

#[expect(clippy::too_many_arguments, reason = "all parts of a step and of its value")]
fn add(
    values: &mut Vec<Usable>,
    steps: &mut Vec<ChainStep>,
    function: Function,
    operands: Vec<From>,
    first: Usable,
    ty: Ty,
    reduced: Reduced,
    spreads: bool,
) {
    values.push(Usable { from: From::Step(steps.len()), ty, reduced });
    steps.push(ChainStep { function, operands, ty, first: first.ty.shape, spreads });
}

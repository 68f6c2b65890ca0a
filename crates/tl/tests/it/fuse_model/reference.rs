//! The time of a kernel computed literally from the costs of `docs/kernel-costs.md`: one strip after another, in
//! picoseconds.

use cubeyard_runtime::dtype::DType;

use super::program::{ChainStep, From, Function, Ordered, Program, Shape, Ty};

/// Costs of a PE: times in ps, bandwidths in GB/s, rates in 10⁹ elements per second.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    pub(crate) dispatch: u64,
    pub(crate) overhead: u64,
    pub(crate) window: usize,
    pub(crate) read: u64,
    pub(crate) write: u64,
    pub(crate) strip: u64,
    pub(crate) simple: u64,
    pub(crate) special: u64,
    pub(crate) reduce: u64,
    /// Rows, depth and columns of a tile of the matrix unit, and the unit's rate in 10¹² operations per second.
    pub(crate) tile: Shape3,
    pub(crate) tflops: u64,
    /// Whether the matrix unit and the vector unit are separate engines.
    pub(crate) is_separate: bool,
}

/// Rows, depth and columns.
pub(crate) type Shape3 = [u64; 3];

impl Costs {
    pub(crate) fn topology(&self) -> String {
        let Self { window, read, write, strip, simple, special, reduce, .. } = self;
        let (cycles, overhead) = (self.dispatch / 1000, self.overhead / 1000);
        let (tile, tflops) = (self.tile, self.tflops);
        let engines = if self.is_separate { "separate" } else { "shared" };
        format!(
            "pe:\n  core:\n    dispatch_cycles: {cycles}\n    scheduler_overhead_ns: {overhead}\n    window: {window}\n    \
             tcm_read_gbs: {read}\n    tcm_write_gbs: {write}\n    math:\n      strip_elements: {strip}\n      \
             simple_geps: {simple}\n      special_geps: {special}\n      reduce_geps: {reduce}\n    \
             gemm:\n      tile: {tile:?}\n      tflops: {{f32: {tflops}, f16: {tflops}, bf16: {tflops}}}\n    \
             compute_engines: {engines}\n"
        )
    }
}

/// A computation: the number of strips, and the time of each strip to fetch, compute and store.
struct Pass {
    strips: u64,
    each: [u64; 3],
}

fn size(dtype: DType) -> u64 {
    match dtype {
        DType::F32 => 4,
        DType::F16 | DType::Bf16 => 2,
        other => unreachable!("{other} is not in these kernels"),
    }
}

fn elements(shape: Shape) -> u64 {
    shape[0] * shape[1]
}

fn bytes(ty: Ty) -> u64 {
    elements(ty.shape) * size(ty.dtype)
}

/// Returns the time of `amount` at `rate`, in ps, rounded up.
fn ps(amount: u64, rate: u64) -> u64 {
    (amount * 1000).div_ceil(rate)
}

/// Returns the operations of a step: the number of elements of each, and its rate.
fn operations(costs: &Costs, step: &ChainStep, operands: &[Ty]) -> Vec<(u64, u64)> {
    let largest = operands.iter().map(|ty| elements(ty.shape)).chain([elements(step.ty.shape)]);
    let largest = largest.max().unwrap();
    let rates = match step.function {
        Function::Exp | Function::Rsqrt | Function::Div => vec![costs.special],
        Function::Sum(_) | Function::Max(_) => vec![costs.reduce],
        Function::Below => vec![costs.simple, costs.simple],
        _ => vec![costs.simple],
    };
    rates.into_iter().map(|rate| (largest, rate)).collect()
}

fn chain(costs: &Costs, steps: &[ChainStep], outputs: &[usize], tiles: &[Ty]) -> Pass {
    let is_needed = needed(steps, outputs);
    let steps_needed =
        || steps.iter().zip(&is_needed).filter(|(_, needed)| **needed).map(|(step, _)| step);
    let of = |from: &From| match *from {
        From::Tile(tile) => Some(tiles[tile]),
        From::Step(step) => Some(steps[step].ty),
        From::Number(_) => None,
    };
    let mut work = Vec::new();
    let mut strips = 1;
    for step in steps_needed() {
        let operands: Vec<_> = step.operands.iter().filter_map(of).collect();
        let all = operations(costs, step, &operands);
        let (largest, row) = (all[0].0, step.ty.shape[1]);
        let rows = if step.spreads { (largest / row).div_ceil(costs.strip / row) } else { 0 };
        strips = strips.max(largest.div_ceil(costs.strip)).max(rows);
        work.extend(all);
    }
    let mut fetched: Vec<usize> =
        steps_needed().flat_map(|step| &step.operands).filter_map(tile).collect();
    fetched.sort_unstable();
    fetched.dedup();
    let read: u64 = fetched.iter().map(|&tile| bytes(tiles[tile])).sum();
    let written: u64 = outputs.iter().map(|&step| bytes(steps[step].ty)).sum();
    let each = [
        ps(read.div_ceil(strips), costs.read),
        work.iter().map(|&(amount, rate)| ps(amount.div_ceil(strips), rate)).sum(),
        ps(written.div_ceil(strips), costs.write),
    ];
    Pass { strips, each }
}

fn tile(from: &From) -> Option<usize> {
    match *from {
        From::Tile(tile) => Some(tile),
        _ => None,
    }
}

/// Returns which steps are computed: only those that a result depends on.
fn needed(steps: &[ChainStep], outputs: &[usize]) -> Vec<bool> {
    let mut is_needed = vec![false; steps.len()];
    outputs.iter().for_each(|&output| is_needed[output] = true);
    for (index, step) in steps.iter().enumerate().rev() {
        let is_used = is_needed[index];
        for operand in &step.operands {
            if let From::Step(before) = *operand {
                is_needed[before] |= is_used;
            }
        }
    }
    is_needed
}

/// Returns the pass of a single operation: each operand is fetched, and the result stored.
fn alone(costs: &Costs, rate: u64, operands: &[Ty], result: Ty) -> Pass {
    let largest = operands.iter().chain([&result]).map(|ty| elements(ty.shape)).max().unwrap();
    let strips = largest.div_ceil(costs.strip).max(1);
    let read: u64 = operands.iter().map(|&ty| bytes(ty)).sum();
    let each = [
        ps(read.div_ceil(strips), costs.read),
        ps(largest.div_ceil(strips), rate),
        ps(bytes(result).div_ceil(strips), costs.write),
    ];
    Pass { strips, each }
}

/// Returns the pass of a product with a column: every tile fetches its operands in full and takes as long as a full
/// tile, and the store of the result is spread over all tiles.
fn product(costs: &Costs, left: Ty) -> Pass {
    let ([rows, depth], [m, k, _]) = (left.shape, costs.tile);
    let strips = rows.div_ceil(m) * depth.div_ceil(k);
    let (tile_rows, tile_depth) = (rows.min(m), depth.min(k));
    let read = (tile_rows * tile_depth + tile_depth) * size(left.dtype);
    let operations: u64 = 2 * costs.tile.iter().product::<u64>();
    let each = [
        ps(read, costs.read),
        operations.div_ceil(costs.tflops),
        ps((4 * rows).div_ceil(strips), costs.write),
    ];
    Pass { strips, each }
}

/// A PE in dispatch order: every engine takes its commands in that order, so a single pass over them is enough.
struct Pe<'a> {
    costs: &'a Costs,
    /// Times from which these are free: `PE_CPU`, the load engine, the stages of the compute engine, and the stages of
    /// a second engine for products.
    cpu: u64,
    loads: u64,
    stages: [[u64; 3]; 2],
    /// End times of the commands, and the command that created each tile.
    ends: Vec<u64>,
    makers: Vec<usize>,
    types: Vec<Ty>,
}

/// Returns the end of a kernel that starts at 0; `takes` holds the load times of its inputs.
pub(crate) fn time(costs: &Costs, program: &Program, takes: &[u64]) -> u64 {
    let (ends, makers, types) = (Vec::new(), Vec::new(), Vec::new());
    let mut pe = Pe { costs, cpu: 0, loads: 0, stages: [[0; 3]; 2], ends, makers, types };
    for command in &program.commands {
        pe.step(command, program, takes);
    }
    pe.ends.iter().copied().chain([pe.cpu]).max().unwrap()
}

impl Pe<'_> {
    fn step(&mut self, command: &Ordered, program: &Program, takes: &[u64]) {
        let Self { costs, .. } = *self;
        match command {
            Ordered::Load(input) => {
                let begin = self.issue(&[]).max(self.loads);
                self.loads = begin + takes[*input];
                self.made(self.loads, &[program.inputs[*input]]);
            }
            Ordered::Full(ty) => self.compute(&alone(costs, costs.simple, &[], *ty), &[], &[*ty]),
            Ordered::Exp(x) => {
                let ty = self.types[*x];
                self.compute(&alone(costs, costs.special, &[ty], ty), &[*x], &[ty]);
            }
            Ordered::RowSums(x) => {
                let left = self.types[*x];
                let ones = Ty { shape: [left.shape[1], 1], ..left };
                let ready = self.issue(&[]);
                let ones = self.stream(&alone(costs, costs.simple, &[], ones), 0, ready);
                self.made(ones, &[]);
                let ready = self.issue(&[*x]).max(ones);
                let end = self.stream(&product(costs, left), usize::from(costs.is_separate), ready);
                self.made(end, &[Ty { dtype: DType::F32, shape: [left.shape[0], 1] }]);
            }
            Ordered::Add(x, y) => {
                let [a, b] = [x, y].map(|tile| self.types[*tile]);
                let shape = [0, 1].map(|axis| a.shape[axis].max(b.shape[axis]));
                let made = Ty { shape, ..a };
                self.compute(&alone(costs, costs.simple, &[a, b], made), &[*x, *y], &[made]);
            }
            Ordered::Chain { steps, outputs } => {
                let pass = chain(costs, steps, outputs, &self.types);
                let used: Vec<_> = needed_tiles(steps, outputs);
                let made: Vec<_> = outputs.iter().map(|&step| steps[step].ty).collect();
                self.compute(&pass, &used, &made);
            }
            Ordered::Wait(tile) => {
                let end = self.ends[self.makers[*tile]];
                self.cpu = (self.cpu + costs.dispatch).max(end);
            }
            Ordered::Fence => {
                let ends = self.ends.iter().copied();
                self.cpu = ends.chain([self.cpu + costs.dispatch]).max().unwrap();
            }
        }
    }

    /// Dispatches a command when it has a place in the window; returns when it begins, that is, when its operands are
    /// available.
    fn issue(&mut self, operands: &[usize]) -> u64 {
        let before = self.ends.len().checked_sub(self.costs.window).map_or(0, |id| self.ends[id]);
        self.cpu = (self.cpu + self.costs.dispatch).max(before);
        let made = operands.iter().map(|&tile| self.ends[self.makers[tile]]);
        made.chain([self.cpu + self.costs.overhead]).max().unwrap()
    }

    fn compute(&mut self, pass: &Pass, operands: &[usize], made: &[Ty]) {
        let ready = self.issue(operands);
        let end = self.stream(pass, 0, ready);
        self.made(end, made);
    }

    /// Streams strips through the stages of an engine, and returns when the last one is stored.
    fn stream(&mut self, pass: &Pass, engine: usize, ready: u64) -> u64 {
        let mut at = ready;
        for _ in 0..pass.strips {
            at = ready;
            for (free, takes) in self.stages[engine].iter_mut().zip(pass.each) {
                at = at.max(*free) + takes;
                *free = at;
            }
        }
        at
    }

    fn made(&mut self, end: u64, tiles: &[Ty]) {
        self.makers.extend(tiles.iter().map(|_| self.ends.len()));
        self.types.extend(tiles);
        self.ends.push(end);
    }
}

fn needed_tiles(steps: &[ChainStep], outputs: &[usize]) -> Vec<usize> {
    let is_needed = needed(steps, outputs);
    let steps = steps.iter().zip(is_needed).filter(|(_, needed)| *needed);
    steps.flat_map(|(step, _)| &step.operands).filter_map(tile).collect()
}

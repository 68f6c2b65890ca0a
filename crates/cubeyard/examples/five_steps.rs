//! A layer norm in five steps, from operations one by one to units that work at the same time. `docs/kernels.md` goes
//! through them.
//!
//! `cargo run --release -p cubeyard --example five_steps` runs each on one PE, and prints its time and its limit.

use std::error::Error;
use std::io::{self, Write};

use cubeyard::bench::{
    Bench, BenchError, Lab, Needs, Outcome, Parameter, RunConfig, RunReport, Values, Work, run,
};
use cubeyard::kernels::{Args, Kernel, Mode, Tile, Tl};
use cubeyard::machine::Topology;
use cubeyard::tensors::{DType, Placement, RuntimeError, Split, Tensor};

/// Rows and columns of the matrix.
const SHAPE: [u64; 2] = [512, 1024];
/// Added to the variance, so that a row of equal elements does not divide by 0.
const EPSILON: f64 = 1e-5;

/// Tiles that all rows need: gamma, beta, and a column of ones.
struct Shared {
    gamma: Tile,
    beta: Tile,
    ones: Tile,
}

/// A way to normalise the rows of a tile.
type Normalise = fn(&Tl, &Tile, &Shared) -> Tile;

/// Operations one by one: each fetches its operands from the TCM and stores its result there.
fn one_by_one(tl: &Tl, x: &Tile, shared: &Shared) -> Tile {
    let (each, x) = (1.0 / x.dim(1) as f64, tl.cast(x, DType::F32));
    let mean = &tl.sum_keep(&x, 1) * each;
    let centred = &x - &mean;
    let variance = &tl.sum_keep(&(&centred * &centred), 1) * each;
    let normal = &centred * &tl.rsqrt(&(&variance + EPSILON));
    tl.cast(&tl.fma(&normal, &shared.gamma, &shared.beta), DType::F16)
}

/// Chains of operations: a pass for the mean, one for the variance, and one for the result.
fn in_chains(tl: &Tl, x: &Tile, shared: &Shared) -> Tile {
    let (each, x) = (1.0 / x.dim(1) as f64, x.lazy().cast(DType::F32));
    let mean = tl.eval(&(x.sum_keep(1) * each));
    let centred = x - &mean;
    let variance = (&centred * &centred).sum_keep(1) * each;
    let factor = tl.eval(&(variance + EPSILON).rsqrt());
    tl.eval(&(centred * &factor).fma(&shared.gamma, &shared.beta).cast(DType::F16))
}

/// One pass: sums of rows stay in the unit, because a row fits in a strip.
fn in_one_pass(tl: &Tl, x: &Tile, shared: &Shared) -> Tile {
    let (each, x) = (1.0 / x.dim(1) as f64, x.lazy().cast(DType::F32));
    let centred = &x - &(x.sum_keep(1) * each);
    let variance = (&centred * &centred).sum_keep(1) * each;
    let normal = centred * &(variance + EPSILON).rsqrt();
    tl.eval(&normal.fma(&shared.gamma, &shared.beta).cast(DType::F16))
}

/// Sums of rows by the matrix unit, while the vector unit normalises the rows before.
fn on_two_units(tl: &Tl, x: &Tile, shared: &Shared) -> Tile {
    let each = 1.0 / x.dim(1) as f64;
    let mean = tl.dot(x, &shared.ones).lazy() * each;
    let centred = x.lazy().cast(DType::F32) - &mean;
    let variance = (&centred * &centred).sum_keep(1) * each;
    let normal = centred * &(variance + EPSILON).rsqrt();
    tl.eval(&normal.fma(&shared.gamma, &shared.beta).cast(DType::F16))
}

/// Normalises all rows, some at a time. Arguments: x, gamma, beta and y.
fn layer_norm(tl: &Tl, args: &Args, rows: u64, normalise: Normalise) {
    let [x, gamma, beta, y] = [0, 1, 2, 3].map(|position| args.tensor(position).local());
    let [gamma, beta] = [gamma, beta].map(|row| tl.cast(&tl.load(&row), DType::F32));
    let ones = tl.full(&[x.dim(1), 1], 1.0, DType::F16);
    let shared = Shared { gamma, beta, ones };
    for start in (0..tl.cdiv(x.dim(0), rows)).map(|tile| tile * rows) {
        let shape = [rows.min(x.dim(0) - start), x.dim(1)];
        let tile = tl.load(&x.block(&[start, 0], &shape));
        tl.store(&y.block(&[start, 0], &shape), &normalise(tl, &tile, &shared));
    }
}

/// A step of the walk.
pub(crate) struct WalkStep {
    pub(crate) name: &'static str,
    rows: u64,
    normalise: Normalise,
    /// Value of `compute_engines`: published is one for both units.
    engines: &'static str,
}

pub(crate) const STEPS: [WalkStep; 5] = [
    WalkStep { name: "row by row", rows: 1, normalise: one_by_one, engines: "shared" },
    WalkStep { name: "tiles of 32 rows", rows: 32, normalise: one_by_one, engines: "shared" },
    WalkStep { name: "chains", rows: 32, normalise: in_chains, engines: "shared" },
    WalkStep { name: "one pass", rows: 32, normalise: in_one_pass, engines: "shared" },
    WalkStep { name: "two engines", rows: 32, normalise: on_two_units, engines: "separate" },
];

impl Bench for WalkStep {
    fn name(&self) -> &str {
        self.name
    }

    fn summary(&self) -> &'static str {
        "layer norm of the rows of a matrix on one PE"
    }

    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    fn needs(&self, _: &Values, _: &Topology, _: u64) -> Needs {
        Needs::elements([2, SHAPE[0], SHAPE[1]])
    }

    fn run(&self, lab: &Lab, _: &Values) -> Result<Outcome, BenchError> {
        let here = lab.placement(Split::RowWise, Split::RowWise, 1, 1);
        let [x, gamma, beta, y] = [
            place(lab, &SHAPE, &here, element)?,
            place(lab, &SHAPE[1..], &here, gamma)?,
            place(lab, &SHAPE[1..], &here, beta)?,
            lab.context.empty(&SHAPE, DType::F16)?.to(&here)?,
        ];
        let (rows, normalise) = (self.rows, self.normalise);
        let kernel = Kernel::new(self.name, move |tl, args| {
            Box::pin(async move { layer_norm(&tl, &args, rows, normalise) })
        });
        lab.launch(&kernel, vec![&x, &gamma, &beta, &y], Vec::new(), 1, 1)?;
        // The result is rounded to f16.
        let check = lab.check(&y, 1.0 / 2048.0, expected)?;
        let bytes = 2 * 2 * SHAPE[0] * SHAPE[1];
        Ok(Outcome { work: Work { bytes, ..Work::default() }, check, ..Outcome::default() })
    }
}

/// An element of the matrix, exact in `f16`; their mean is not 0.
fn element(place: u64) -> f64 {
    ((place * 7919) % 1021) as f64 / 512.0
}

fn gamma(column: u64) -> f64 {
    0.5 + (column % 3) as f64
}

fn beta(column: u64) -> f64 {
    (column % 5) as f64 - 2.0
}

fn place(
    lab: &Lab,
    shape: &[u64],
    here: &Placement,
    of: fn(u64) -> f64,
) -> Result<Tensor, RuntimeError> {
    let numbers: Vec<f64> = (0..shape.iter().product()).map(of).collect();
    lab.context.from_slice(shape, &numbers)?.to_dtype(DType::F16)?.to(here)
}

/// The normalised rows in `f64`.
fn expected() -> Vec<f64> {
    let [rows, columns] = SHAPE;
    let row = |row: u64| {
        let x = move || (0..columns).map(move |column| element(row * columns + column));
        let mean = x().sum::<f64>() / columns as f64;
        let variance = x().map(|x| (x - mean).powi(2)).sum::<f64>() / columns as f64;
        let normal = x().map(move |x| (x - mean) / (variance + EPSILON).sqrt());
        (0..columns).zip(normal).map(|(column, normal)| normal * gamma(column) + beta(column))
    };
    (0..rows).flat_map(row).collect()
}

/// Runs a step, and checks its numbers.
pub(crate) fn measure(step: &WalkStep) -> Result<RunReport, Box<dyn Error>> {
    let engines = format!("pe: {{core: {{compute_engines: {}}}}}", step.engines);
    let topology = Topology::read(step.name, &engines)?;
    let (set, sips) = (Vec::new(), Vec::new());
    let config = RunConfig { topology, set, data: true, mode: Mode::Recorded, sips, ops: true };
    let run = run(step, &config)?;
    if run.is_well() { Ok(run.report) } else { Err(format!("{}: wrong numbers", step.name).into()) }
}

/// Runs all steps, and prints the time and the limit of each.
pub(crate) fn walk(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    for (number, step) in (1..).zip(&STEPS) {
        let report = measure(step)?;
        writeln!(out, "{number}. {}: {}", step.name, report.kernel)?;
        writeln!(out, "   limited by {}", report.limited_by)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    walk(&mut io::stdout().lock())
}

//! Kernels from scratch, each slightly more complex than the previous one. `docs/kernels.md` explains them.
//!
//! `cargo run --release -p cubeyard --example first_kernel` runs them with data, and prints the time
//! of each.

use std::error::Error;
use std::io::{self, Write};

use cubeyard::kernels::{
    Args, Argument, Binary, Channel, ChannelEnd, Epilogue, Kernel, Launch, Launcher, Mode, Port,
    RingConfig, Tile, Tl, Unary,
};
use cubeyard::machine::{CubeId, PeId, PeRef, SipId, Topology};
use cubeyard::tensors::{Context, ContextConfig, DType, Placement, Split, Tensor};

type Outcome = Result<(), Box<dyn Error>>;

async fn double(tl: Tl, args: Args) {
    let (x, y) = (args.tensor(0).local(), args.tensor(1).local());
    let tile = tl.load(&x);
    tl.store(&y, &(&tile + &tile));
}

async fn triple(tl: Tl, args: Args) {
    let (x, y, block) = (args.tensor(0).local(), args.tensor(1).local(), args.whole(2));
    for index in 0..tl.cdiv(x.dim(0), block) {
        let (start, shape) = ([index * block], [block]);
        let mask = x.inside(&start, &shape);
        let tile = tl.load_masked(&x.block(&start, &shape), &mask, 0.0);
        tl.store_masked(&y.block(&start, &shape), &(&tile * 3.0), &mask);
    }
}

/// Returns the inverse square root of each row's sum, by Newton's method: many short commands per load.
fn inverse_root(tl: &Tl, tile: &Tile) -> Tile {
    let sum = tl.sum_keep(tile, 1);
    let mut guess = tl.full(&sum.ty().shape, 0.01, DType::F32);
    for _ in 0..12 {
        let error = &(&(&guess * &guess) * &sum) * -0.5;
        guess = &guess * &(&error + 1.5);
    }
    guess
}

async fn in_turn(tl: Tl, args: Args) {
    let (x, y, rows) = (args.tensor(0).local(), args.tensor(1).local(), args.whole(2));
    for start in (0..tl.cdiv(x.dim(0), rows)).map(|block| block * rows) {
        let tile = tl.load(&x.block(&[start, 0], &[rows, x.dim(1)]));
        tl.store(&y.block(&[start, 0], &[rows, 1]), &inverse_root(&tl, &tile));
    }
}

async fn loads_ahead(tl: Tl, args: Args) {
    let (x, y, rows) = (args.tensor(0).local(), args.tensor(1).local(), args.whole(2));
    let mut starts = (0..tl.cdiv(x.dim(0), rows)).map(|block| block * rows);
    let mut load = || starts.next().map(|at| (at, tl.load(&x.block(&[at, 0], &[rows, x.dim(1)]))));
    let mut next = load();
    while let Some((start, tile)) = next {
        next = load(); // issued before the commands that use this tile, so the load overlaps with them
        tl.store(&y.block(&[start, 0], &[rows, 1]), &inverse_root(&tl, &tile));
    }
}

async fn product(tl: Tl, args: Args) {
    let [a, b, c] = [0, 1, 2].map(|position| args.tensor(position).local());
    let sum = tl.dot(&tl.load(&a), &tl.load(&b)); // f16 times f16 is f32
    tl.store(&c, &tl.cast(&sum, DType::F16));
}

async fn layer(tl: Tl, args: Args) {
    let [a, b, c] = [0, 1, 2].map(|position| args.tensor(position).local());
    let bias = tl.load(&args.tensor(3).local());
    let handle = tl
        .gemm(&a, &b) // both in memory: loads of tiles overlap with products of others
        .after_tile(Epilogue::With(Binary::Add, bias))
        .after_tile(Epilogue::Unary(Unary::Relu))
        .store(&c);
    tl.wait(&handle).await;
}

async fn softmax(tl: Tl, args: Args) {
    let [x, y] = [0, 1].map(|position| args.tensor(position).local());
    let [weights, sums] = weights(&tl, &tl.load(&x));
    tl.store(&y, &tl.eval(&(weights.lazy() / &sums)));
}

fn weights(tl: &Tl, scores: &Tile) -> [Tile; 2] {
    let greatest = tl.eval(&scores.lazy().max_keep(1));
    let weights = (scores.lazy() - &greatest).exp();
    tl.eval_all([&weights, &weights.sum_keep(1)]) // one pass for both
}

async fn chosen_rows(tl: Tl, args: Args) {
    let [chosen, x, y] = [0, 1, 2].map(|position| args.tensor(position).local());
    let flags = tl.value(&tl.load(&chosen)).await;
    for (row, _) in (0..).zip(flags).filter(|(_, flag)| *flag != 0.0) {
        let tile = tl.load(&x.block(&[row, 0], &[1, x.dim(1)]));
        tl.store(&y.block(&[row, 0], &[1, x.dim(1)]), &tl.exp(&tile));
    }
}

async fn sum_around(tl: Tl, args: Args) {
    let own = args.tensor(0).local();
    let mut passing = tl.load(&own);
    let mut sum = passing.clone();
    for _ in 1..tl.num_programs(0) {
        tl.send(Port::E, &passing);
        passing = tl.recv(Port::W, &own.ty().shape, own.ty().dtype);
        sum = &sum + &passing;
    }
    tl.store(&args.tensor(1).local(), &sum);
}

async fn reads_nothing(tl: Tl, args: Args) {
    tl.load(&args.tensor(0).local());
}

async fn reads_beyond(tl: Tl, args: Args) {
    tl.load(&args.tensor(0).local().at(32, &[64]));
}

async fn both_write(tl: Tl, args: Args) {
    tl.store(&args.tensor(0).whole(), &tl.zeros(&[64], DType::F32));
}

fn main() -> Outcome {
    run(&mut io::stdout().lock())
}

pub(crate) fn run(out: &mut impl Write) -> Outcome {
    first(out)?;
    masks(out)?;
    ahead(out)?;
    products(out)?;
    chains(out)?;
    looks(out)?;
    messages(out)?;
    mistakes(out)
}

/// Creates a [`Kernel`] from an `async` function.
macro_rules! kernel {
    ($function:ident) => {
        Kernel::new(stringify!($function), |tl, args| Box::pin($function(tl, args)))
    };
}

fn first(out: &mut impl Write) -> Outcome {
    let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
    let rows = Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() };
    let x = context.from_slice(&[256, 64], &vec![1.5_f32; 256 * 64])?.to(&rows)?;
    let y = context.empty(&[256, 64], DType::F32)?.to(&rows)?;

    let launcher = Launcher::new(&context);
    let launch = Launch::new(SipId::new(0)?).arguments([&x, &y]);
    let report = launcher.run(&kernel!(double), &launch)?;
    assert_eq!(y.read::<f32>()?, vec![3.0; 256 * 64]);

    writeln!(out, "double: {} PEs, {} each; the first was told", report.pes.len(), report.max())?;
    write!(out, "{}", launcher.recordings()[0].tape())?;
    Ok(())
}

fn masks(out: &mut impl Write) -> Outcome {
    for window in [16, 1] {
        let context = machine(window)?;
        let x = place(&context, &[10_000], &vec![0.5_f32; 10_000])?;
        let y = context.empty(&[10_000], DType::F32)?.to(&one())?;
        let took =
            Launcher::new(&context).run(&kernel!(triple), &launch(&[&x, &y], &[2048], 1)?)?.max();
        assert_eq!(y.read::<f32>()?, vec![1.5; 10_000]);
        writeln!(out, "triple, with a window of {window}: {took}")?;
    }
    Ok(())
}

fn ahead(out: &mut impl Write) -> Outcome {
    let runs = [(kernel!(in_turn), 16), (kernel!(loads_ahead), 16), (kernel!(in_turn), 128)];
    for (kernel, window) in runs {
        let context = machine(window)?;
        let x = place(&context, &[256, 1024], &vec![1.0_f32; 256 * 1024])?;
        let y = context.empty(&[256, 1], DType::F32)?.to(&one())?;
        let launcher = Launcher::new(&context);
        let took = launcher.run(&kernel, &launch(&[&x, &y], &[16], 1)?)?.max();
        assert!(y.read::<f32>()?.known()?.iter().all(|root| (root * 32.0 - 1.0).abs() < 1e-3));
        let blocks = 256 / 16;
        let commands = launcher.recordings()[0].tape().to_string().lines().count() / blocks;
        let name = kernel.name();
        writeln!(out, "{name}, with a window of {window}: {took}; {commands} commands a block")?;
    }
    Ok(())
}

fn products(out: &mut impl Write) -> Outcome {
    let context = machine(16)?;
    let half = || context.full(&[128, 128], DType::F16, 0.5)?.to(&one());
    let (a, b) = (half()?, half()?);
    let c = context.empty(&[128, 128], DType::F16)?.to(&one())?;
    let bias: Vec<f32> = (0..128).map(|column| column as f32 - 64.0).collect();
    let bias = place(&context, &[128], &bias)?;
    let launcher = Launcher::new(&context);
    for kernel in [kernel!(product), kernel!(layer)] {
        let took = launcher.run(&kernel, &launch(&[&a, &b, &c, &bias], &[], 1)?)?.max();
        let values: Vec<f64> =
            c.read_bytes()?.known()?.chunks(2).map(|two| DType::F16.decode(two)).collect();
        let (first, last) = (values[0], values[127]);
        writeln!(
            out,
            "{}: {took}; a row of c begins with {first}, ends with {last}",
            kernel.name()
        )?;
    }
    Ok(())
}

fn chains(out: &mut impl Write) -> Outcome {
    let context = machine(16)?;
    let numbers: Vec<f32> = (0..64 * 256).map(|place| (place % 256) as f32 / 64.0).collect();
    let x = place(&context, &[64, 256], &numbers)?;
    let y = place(&context, &[64, 256], &numbers)?;
    let launcher = Launcher::new(&context);
    let took = launcher.run(&kernel!(softmax), &launch(&[&x, &y], &[], 1)?)?.max();
    let parts = y.read::<f32>()?.known()?;
    let sum: f64 = parts[..256].iter().map(|&part| f64::from(part)).sum();
    writeln!(out, "softmax: {took}; the first row adds up to {sum:.6}")?;
    Ok(())
}

fn looks(out: &mut impl Write) -> Outcome {
    let context = machine(16)?;
    let chosen = place(&context, &[8], &[0.0_f32, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0])?;
    let x = place(&context, &[8, 512], &vec![0.0_f32; 8 * 512])?;
    let y = place(&context, &[8, 512], &vec![0.0_f32; 8 * 512])?;
    let launch = launch(&[&chosen, &x, &y], &[], 1)?;
    let refused = Launcher::new(&context).run(&kernel!(chosen_rows), &launch);
    writeln!(out, "recorded: {}", refused.err().ok_or("it cannot be recorded")?)?;
    let live = Launcher::with_mode(&context, Mode::Live);
    let took = live.run(&kernel!(chosen_rows), &launch)?.max();
    let ones = y
        .read::<f32>()?
        .known()?
        .iter()
        .filter(|value| (**value - 1.0).abs() < f32::EPSILON)
        .count();
    writeln!(out, "live: {took}; {} rows of 8", ones / 512)?;
    Ok(())
}

fn messages(out: &mut impl Write) -> Outcome {
    let context = machine(16)?;
    let by_pe =
        Placement { pe: Split::RowWise, cubes: Some(1), pes: Some(4), ..Placement::default() };
    let x = context.from_slice(&[4, 256], &[1.0_f32; 1024])?.to(&by_pe)?;
    let y = context.empty(&[4, 256], DType::F32)?.to(&by_pe)?;
    let end = |pe: u32, port: Port| -> Result<ChannelEnd, Box<dyn Error>> {
        let pe = PeRef { sip: SipId::new(0)?, cube: CubeId::new(0)?, pe: PeId::new(pe % 4)? };
        Ok(ChannelEnd { pe, port: port.of_group(0) })
    };
    let mut ring = Vec::new();
    for pe in 0..4 {
        ring.push(Channel { ends: [end(pe, Port::E)?, end(pe + 1, Port::W)?] });
    }
    let channels = context.connect(&ring, &RingConfig::default())?;
    let took =
        Launcher::new(&context).run(&kernel!(sum_around), &launch(&[&x, &y], &[], 4)?)?.max();
    assert_eq!(y.read::<f32>()?, vec![4.0; 1024]);
    writeln!(out, "sum_around: {took} on 4 PEs; the ring was laid in {}", channels.latency())?;
    Ok(())
}

fn mistakes(out: &mut impl Write) -> Outcome {
    let context = machine(16)?;
    let launcher = Launcher::new(&context);
    let nobodys = context.empty(&[64], DType::F32)?.to(&one())?;
    let x = place(&context, &[64], &[0.0_f32; 64])?;
    launcher.run(&kernel!(reads_nothing), &launch(&[&nobodys], &[], 1)?)?;
    let refused = launcher.run(&kernel!(reads_beyond), &launch(&[&x], &[], 1)?);
    writeln!(out, "refused: {}", refused.err().ok_or("it is beyond")?)?;
    launcher.run(&kernel!(both_write), &launch(&[&x], &[], 2)?)?;
    for finding in launcher.findings() {
        writeln!(out, "found: {finding}")?;
    }
    Ok(())
}

/// Creates a machine with data whose PEs have up to `window` commands in flight.
fn machine(window: u32) -> Result<Context, Box<dyn Error>> {
    let text = format!("pe:\n  core:\n    window: {window}\n");
    let topology = Topology::read("the example", &text)?;
    Ok(Context::new(ContextConfig { topology, data: true, ..ContextConfig::default() }))
}

/// Returns the placement on a single PE.
fn one() -> Placement {
    Placement::one(SipId::new(0).expect("there is a first one"))
}

fn place(context: &Context, shape: &[u64], values: &[f32]) -> Result<Tensor, Box<dyn Error>> {
    Ok(context.from_slice(shape, values)?.to(&one())?)
}

/// Returns a launch on the first PEs of the first cube.
fn launch<'a>(
    tensors: &[&'a Tensor],
    numbers: &[u64],
    pes: u32,
) -> Result<Launch<'a>, Box<dyn Error>> {
    let launch = Launch::new(SipId::new(0)?).arguments(tensors.iter().copied());
    let launch = launch
        .arguments(numbers.iter().map(|&number| Argument::from(number)))
        .cubes(vec![CubeId::new(0)?]);
    Ok(launch.pes((0..pes).map(PeId::new).collect::<Result<_, _>>()?))
}

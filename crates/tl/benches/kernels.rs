//! Benchmark of the simulator's speed on kernels.
//!
//! `cargo bench -p cubeyard-tl --bench kernels` runs a GEMM of 512³ on one PE and one of 4096³ over the 128 PEs of a
//! SIP, and replays recorded kernels of a million commands, all without data. Times are CPU time of a single thread,
//! the best of several runs.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the clock and prints"
)]

#[path = "../../runtime/benches/clock/mod.rs"]
mod clock;

use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Argument, Context, ContextConfig, Launch, LaunchReport, Tensor};
use cubeyard_tl::Tl;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::launch::Launcher;

use clock::cpu;

fn main() {
    // `cargo bench` passes `--bench`; `cargo test --benches` does not, and runs a shorter version.
    let full = std::env::args().any(|argument| argument == "--bench");
    let (small, large, commands) = if full { (512, 4096, 1_000_000) } else { (64, 256, 1000) };
    single(small);
    many(large);
    for (name, body) in [("math", math as Body), ("load, add, store", copies as Body)] {
        replay(name, body, commands);
    }
}

type Body = fn(&Tl, &Args);

fn load_ref(tl: &Tl, args: &Args) {
    let a = tl.load(&args.tensor(0).local());
    tl.gemm(&a, &args.tensor(1).local()).store(&args.tensor(2).local());
}

fn gemm() -> Kernel {
    Kernel::new("gemm", |tl, args| Box::pin(async move { load_ref(&tl, &args) }))
}

fn first<T>(id: Result<T, impl std::fmt::Debug>) -> Vec<T> {
    vec![id.expect("there is a first one")]
}

fn launch<'a>(tensors: &[&'a Tensor], one: bool) -> Launch<'a> {
    let sip = SipId::new(0).expect("there is a first one");
    let (cubes, pes) =
        if one { (first(CubeId::new(0)), first(PeId::new(0))) } else { (vec![], vec![]) };
    Launch::new(sip).arguments(tensors.iter().copied()).cubes(cubes).pes(pes)
}

/// Returns the shortest time of several runs, in seconds.
fn best(runs: usize, mut run: impl FnMut() -> LaunchReport) -> (f64, LaunchReport) {
    let timed = |_| {
        let start = cpu();
        let report = run();
        (cpu() - start, report)
    };
    (0..runs)
        .map(timed)
        .min_by(|(one, _), (other, _)| one.total_cmp(other))
        .expect("at least one run")
}

fn print(name: &str, seconds: f64, parts: u64, what: &str, report: &LaunchReport) {
    let rate = parts as f64 / seconds / 1e6;
    println!(
        "{name:<28}{:>10.1} ms {rate:>8.2} M {what}/s   {} simulated",
        seconds * 1e3,
        report.max()
    );
}

fn single(size: u64) {
    let context = Context::new(ContextConfig::default());
    let one = Placement::one(SipId::new(0).expect("the first"));
    let place =
        |dtype| context.empty(&[size, size], dtype).expect("a shape").to(&one).expect("room");
    let (a, b, c) = (place(DType::F16), place(DType::F16), place(DType::F32));
    let kernel = gemm();
    let launch = launch(&[&a, &b, &c], true);
    let (seconds, report) =
        best(5, || Launcher::new(&context).run(&kernel, &launch).expect("it runs"));
    let tiles = size.div_ceil(32).pow(2) * size.div_ceil(64);
    print(&format!("gemm {size}³ on one PE"), seconds, tiles, "tiles", &report);
}

fn many(size: u64) {
    let context = Context::new(ContextConfig::default());
    let rows = Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() };
    let everywhere =
        Placement { cube: Split::Replicate, pe: Split::Replicate, ..Placement::default() };
    let place =
        |dtype, over| context.empty(&[size, size], dtype).expect("a shape").to(over).expect("room");
    let (a, b, c) =
        (place(DType::F16, &rows), place(DType::F16, &everywhere), place(DType::F32, &rows));
    let kernel = gemm();
    let launch = launch(&[&a, &b, &c], false);
    let (seconds, report) =
        best(1, || Launcher::new(&context).run(&kernel, &launch).expect("it runs"));
    let each = (size / 128).div_ceil(32) * size.div_ceil(32) * size.div_ceil(64);
    print(&format!("gemm {size}³ on 128 PEs"), seconds, 128 * each, "tiles", &report);
}

fn math(tl: &Tl, args: &Args) {
    let x = tl.load(&args.tensor(0).local());
    for _ in 0..args.whole(2) {
        drop(&x + &x);
    }
}

fn copies(tl: &Tl, args: &Args) {
    let (x, y) = (args.tensor(0).local(), args.tensor(1).local());
    for _ in 0..args.whole(2) / 3 {
        let tile = tl.load(&x);
        tl.store(&y, &(&tile + &tile));
    }
}

fn replay(name: &str, body: Body, commands: u64) {
    let context = Context::new(ContextConfig::default());
    let one = Placement::one(SipId::new(0).expect("the first"));
    let place = || context.empty(&[64], DType::F32).expect("a shape").to(&one).expect("room");
    let (x, y) = (place(), place());
    let kernel = Kernel::new(name, move |tl, args| {
        body(&tl, &args);
        Box::pin(async {})
    });
    let mut launch = launch(&[&x, &y], true);
    launch.arguments.push(Argument::from(commands));
    let launcher = Launcher::new(&context);
    let (recorded, _) = best(1, || launcher.run(&kernel, &launch).expect("it runs"));
    let (seconds, report) = best(3, || launcher.run(&kernel, &launch).expect("it runs"));
    print(&format!("replay of {name}"), seconds, commands, "commands", &report);
    let rate = commands as f64 / (recorded - seconds) / 1e6;
    println!(
        "{:<28}{:>10.1} ms {rate:>8.2} M commands/s",
        "  recorded in",
        (recorded - seconds) * 1e3
    );
}

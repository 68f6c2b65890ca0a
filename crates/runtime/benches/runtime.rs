//! Benchmark of the host's cost of tensors: small ones by the hundred thousand, and one of 64 GiB.
//!
//! `cargo bench -p cubeyard-runtime --bench runtime` deploys and drops tensors of 64 elements on one PE, first one
//! after another and then all alive at once, and a matrix over the 128 PEs of a SIP. Times are CPU time of a single
//! thread. They are measured per thousand tensors; after a warm-up, the last thousand is compared with the first.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the clock and prints"
)]

mod clock;

use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Addressing, Context, ContextConfig, Tensor};

use clock::cpu;

/// Number of tensors, and number of tensors per measurement.
const TENSORS: usize = 100_000;
const CHUNK: usize = 1_000;

fn main() {
    // `cargo bench` passes `--bench`; `cargo test --benches` does not, and runs a shorter version.
    let tensors =
        if std::env::args().any(|argument| argument == "--bench") { TENSORS } else { CHUNK };
    // Runs first, while the process has no free memory to reuse.
    large();
    println!("{tensors} tensors of 64 f16 in one PE, µs of CPU time each");
    println!("{:<34}{:>8}{:>12}{:>12}{:>8}", "", "mean", "first 1,000", "last 1,000", "ratio");
    for (addressing, name) in [(Addressing::Virtual, "virtual"), (Addressing::Physical, "physical")]
    {
        one_by_one(addressing, name, tensors);
        all_alive(addressing, name, tensors);
    }
}

fn context(addressing: Addressing) -> Context {
    Context::new(ContextConfig { addressing, ..ContextConfig::default() })
}

fn deploy(context: &Context) -> Tensor {
    let place = Placement { cubes: Some(1), pes: Some(1), ..Placement::default() };
    context.empty(&[64], DType::F16).expect("a shape").to(&place).expect("room")
}

/// Calls `act` the given number of times, and returns the µs per call of each thousand.
fn chunks(times: usize, mut act: impl FnMut()) -> Vec<f64> {
    let chunk = |_| {
        let start = cpu();
        (0..CHUNK).for_each(|_| act());
        (cpu() - start) * 1e6 / CHUNK as f64
    };
    (0..times / CHUNK).map(chunk).collect()
}

fn print(name: &str, chunks: &[f64]) {
    let mean = chunks.iter().sum::<f64>() / chunks.len() as f64;
    let (first, last) = (chunks[0], chunks[chunks.len() - 1]);
    println!("{name:<34}{mean:>8.2}{first:>12.2}{last:>12.2}{:>8.2}", last / first);
}

fn one_by_one(addressing: Addressing, name: &str, tensors: usize) {
    let context = context(addressing);
    chunks(CHUNK, || drop(deploy(&context)));
    let hops = || context.machine(|machine| machine.view().engine().flit_hops());
    let before = hops();
    let both = chunks(tensors, || drop(deploy(&context)));
    print(&format!("{name}: deploy and drop"), &both);
    println!("  {} flit-hops each", (hops() - before) / tensors as u64);
    assert!(context.is_pristine());
}

fn all_alive(addressing: Addressing, name: &str, tensors: usize) {
    let context = context(addressing);
    chunks(CHUNK, || drop(deploy(&context)));
    let mut alive = Vec::with_capacity(tensors);
    let deployed = chunks(tensors, || alive.push(deploy(&context)));
    print(&format!("{name}: deploy, all kept"), &deployed);
    let mut oldest = alive.into_iter();
    let dropped = chunks(tensors, || drop(oldest.next()));
    print(&format!("{name}: drop, oldest first"), &dropped);
    assert!(context.is_pristine());
}

/// Returns the resident memory of the process, in bytes; 0 if unknown.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4096
}

fn large() {
    let before = resident();
    let context = context(Addressing::Virtual);
    let made = resident();
    let place = Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() };
    let start = cpu();
    let tensor = context.empty(&[1 << 18, 1 << 17], DType::F16).expect("a shape");
    let tensor = tensor.to(&place).expect("room");
    let deployed = cpu() - start;
    let after = resident();
    let start = cpu();
    drop(tensor);
    let dropped = cpu() - start;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("64 GiB of f16 over the 128 PEs of a SIP");
    println!("deploy {:.1} ms, drop {:.1} ms", deployed * 1e3, dropped * 1e3);
    println!(
        "host memory: {:.1} MiB for the machine, {:.1} MiB for the tensor",
        mib(made.saturating_sub(before)),
        mib(after.saturating_sub(made))
    );
    println!();
    assert!(context.is_pristine());
}

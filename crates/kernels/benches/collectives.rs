//! How fast collectives run in the simulator.
//!
//! `cargo bench -p cubeyard-kernels --bench collectives` runs a ring all-reduce of 1 MiB a PE over the 256 PEs of
//! the default machine, without data. Times are CPU time of the one thread.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the clock and prints"
)]

use std::sync::OnceLock;
use std::time::Instant;

use cubeyard_kernels::collective::{Operation, ReduceOp, Ring};
use cubeyard_kernels::distributed::{Group, GroupConfig, Ranks};
use cubeyard_kernels::launch::Launcher;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, ContextConfig, RingConfig, Tensor};

fn main() {
    // `cargo bench` says so; `cargo test --benches` does not, and gets a quick look.
    let full = std::env::args().any(|argument| argument == "--bench");
    let bytes: u64 = if full { 1 << 20 } else { 1 << 10 };
    let context = Context::new(ContextConfig::default());
    let tensor = |sip: u32| -> Tensor {
        let sips = vec![SipId::new(sip).expect("there are two")];
        let (cube, pe) = (Split::RowWise, Split::RowWise);
        let rows = Placement { cube, pe, sips, ..Placement::default() };
        let tensor = context.empty(&[128, bytes / 2], DType::F16).expect("it fits");
        tensor.to(&rows).expect("it fits")
    };
    let tensors = [tensor(0), tensor(1)];
    let ring = RingConfig { slots: 4, slot_bytes: 4096, ..RingConfig::default() };
    let config = GroupConfig { ranks: Ranks::Pe, ring, ..GroupConfig::default() };
    let group = Group::new(&context, &config, Box::new(Ring), 1).expect("there is room");
    let launcher = Launcher::new(&context);
    let pairs: Vec<_> = tensors.iter().map(|tensor| (tensor, tensor)).collect();
    for round in 0..3 {
        let start = cpu();
        let operation = Operation::AllReduce(ReduceOp::Sum);
        let report = group.run(&launcher, &context, operation, &pairs).expect("it runs");
        let took = cpu() - start;
        let commands: u64 = report
            .launches
            .iter()
            .flat_map(|launch| &launch.cores)
            .map(|(_, core)| core.commands)
            .sum();
        println!(
            "ring all-reduce of {} KiB a PE over 256 PEs, run {round}: {took:.3} s, {commands} commands, {} simulated",
            bytes >> 10,
            report.kernel
        );
    }
}

/// CPU seconds that this thread has had; where the system does not say, seconds of the clock.
fn cpu() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let clock = || START.get_or_init(Instant::now).elapsed().as_secs_f64();
    // Linux brings the figure up to date when a thread gives way, else a few times in 10 ms.
    std::thread::yield_now();
    let had = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let had = had.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    had.map_or_else(clock, |ns| ns as f64 / 1e9)
}

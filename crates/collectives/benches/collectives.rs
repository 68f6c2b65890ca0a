//! Speed of collectives in the simulator.
//!
//! `cargo bench -p cubeyard-collectives --bench collectives` runs a ring all-reduce of 1 MiB per PE over the 256 PEs of
//! the default machine, without data. Times are CPU time of one thread.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the clock and prints"
)]

#[path = "../../runtime/benches/clock/mod.rs"]
mod clock;

use cubeyard_collectives::collective::{Operation, ReduceOp, Ring};
use cubeyard_collectives::distributed::{Group, GroupConfig, Ranks};
use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, ContextConfig, RingConfig, Tensor};
use cubeyard_tl::launch::Launcher;

use clock::cpu;

fn main() {
    // `cargo bench` passes `--bench`; without it, as in `cargo test --benches`, the run is short.
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
    let ring = RingConfig::default();
    let config = GroupConfig { ranks: Ranks::Pe, ring, ..GroupConfig::default() };
    let group = Group::new(&context, &config, Box::new(Ring), 1).expect("there is room");
    let launcher = Launcher::new(&context);
    let pairs: Vec<_> = tensors.iter().map(|tensor| (tensor, tensor)).collect();
    for round in 0..3 {
        let start = cpu();
        let operation = Operation::AllReduce(ReduceOp::Sum);
        let report = group.run(&launcher, operation, &pairs).expect("it runs");
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

//! A model uses the all-reduce algorithm that `auto` chooses.

use cubeyard_collectives::collective::{Operation, ReduceOp};
use cubeyard_collectives::distributed::{CclConfig, Ranks};
use cubeyard_device::topology::Topology;
use cubeyard_model::cut::ExpertPlacement;
use cubeyard_model::{MeasureConfig, ModelSpec, Phase, StepPart, Workload, measure};
use cubeyard_runtime::dtype::DType;
use cubeyard_study::collectives::{Sweep, SweepConfig, Which};

/// Returns a model that a machine of two cubes can divide.
fn tiny() -> ModelSpec {
    let text = b"{name: tiny, layers: 3, hidden: 256, ffn: 512, heads: 8, kv_heads: 2, head_dim: 32, vocab: 64}";
    ModelSpec::read_bytes("tiny", text).unwrap()
}

/// Returns a machine whose SIPs have two cubes of two PEs.
fn machine(sips: u32) -> Topology {
    let text =
        format!("sips: {{count: {sips}}}\ncubes: {{w: 2, h: 1}}\npe: {{routers: [r0c0, r0c1]}}\n");
    Topology::read("sips", &text).unwrap()
}

/// Measures the time of an all-reduce by the given algorithms, as `ccl` does.
fn alone(topology: &Topology, bytes: u64, which: Which) -> f64 {
    let mut ccl = CclConfig::embedded();
    ccl.each(|config| config.ranks = Ranks::Cube);
    let sweep = Sweep::run(&SweepConfig {
        topology: topology.clone(),
        ccl,
        which,
        operation: Operation::AllReduce(ReduceOp::Sum),
        dtype: DType::F16,
        sizes: vec![bytes],
        check_up_to: 0,
        every_memory: false,
    });
    sweep.unwrap().rows[0].figures.as_ref().unwrap().time.ns()
}

/// The algorithm was always `grid`. So 16 SIPs took longer than 8, and 40 % longer than with the choice of `ccl`.
#[test]
fn an_all_reduce_takes_as_long_as_the_one_that_ccl_chooses() {
    for (sips, batch) in [(1, 1), (2, 8), (8, 1), (16, 1), (16, 8)] {
        let (topology, spec) = (machine(sips), tiny());
        let config = MeasureConfig {
            spec: spec.clone(),
            work: Workload {
                phase: Phase::Decode,
                batch,
                context: 16,
                chunk: 32,
                dtype: DType::F16,
                weights: DType::F16,
                experts: ExpertPlacement::Split,
                kv: None,
            },
            topology: topology.clone(),
            layers: 1,
            positions: None,
            notes: Vec::new(),
        };
        let report = measure(&config, &mut |_, _| ()).unwrap();
        let part = report.parts.iter().find(|it| it.part == StepPart::AllReduce).unwrap();
        let bytes = batch * spec.hidden * 2;
        let chosen = alone(&topology, bytes, Which::Auto);
        let took = part.each().ns();
        assert!(
            (took / chosen - 1.0).abs() < 0.15,
            "{sips} SIPs, batch {batch}: {took} ns, alone {chosen} ns"
        );
        let grid = alone(&topology, bytes, Which::from("grid"));
        assert!(took < 1.15 * grid, "{sips} SIPs, batch {batch}: {took} ns, by grid {grid} ns");
    }
}

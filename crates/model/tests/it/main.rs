//! Steps of models through the public interface: relations between the times of different workloads.

mod grid;
mod kinds;
mod layout;
#[path = "../../../../testdata/long_tests.rs"]
mod long_tests;
mod masks;
mod plans;
mod rounds;
mod steps;
mod types;

use cubeyard_device::topology::Topology;
use cubeyard_model::cut::ExpertPlacement;
use cubeyard_model::report::ModelReport;
use cubeyard_model::{MeasureConfig, ModelError, ModelSpec, Phase, Workload, measure};
use cubeyard_runtime::dtype::DType;

/// Two SIPs of two cubes with two PEs.
const SMALL: &str = "sips: {count: 2}\ncubes: {w: 2, h: 1}\npe: {routers: [r0c0, r0c1]}\n";

fn small() -> Topology {
    Topology::read("small", SMALL).unwrap()
}

/// Returns a model that the small machine can divide: a head of K and V for each SIP.
fn tiny() -> ModelSpec {
    let text = b"{name: tiny, layers: 3, hidden: 256, ffn: 512, heads: 8, kv_heads: 2, head_dim: 32, vocab: 64}";
    ModelSpec::read_bytes("tiny", text).unwrap()
}

fn work(phase: Phase, batch: u64, context: u64) -> Workload {
    Workload {
        phase,
        batch,
        context,
        chunk: 32,
        dtype: DType::F16,
        weights: DType::F16,
        experts: ExpertPlacement::Split,
        kv: None,
    }
}

fn config(spec: ModelSpec, work: Workload) -> MeasureConfig {
    let topology = small();
    MeasureConfig { spec, work, topology, layers: 1, positions: None, notes: Vec::new() }
}

fn tried(spec: &ModelSpec, work: Workload) -> Result<ModelReport, ModelError> {
    measure(&config(spec.clone(), work), &mut |_, _| ())
}

fn measured(spec: &ModelSpec, work: Workload) -> ModelReport {
    tried(spec, work).unwrap_or_else(|error| panic!("{spec:?} {work:?}: {error}"))
}

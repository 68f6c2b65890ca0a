//! Benches: kernels with inputs, a check of their results, and bounds on their time.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! A bench is a file and a line in [`catalogue`]. It declares its [`Parameter`]s, creates its tensors on the [`Lab`],
//! launches kernels of the [`library`](cubeyard_kernels), and compares the results with its own reference. Times,
//! bounds and limits are computed for all benches by [`run`](fn@run).

mod attention;
mod block_sparse;
pub mod compare;
mod copy;
mod ddp;
mod error;
mod figures;
mod flash_attention;
mod gemm;
mod gemm_multi;
mod gqa_decode;
mod inputs;
mod lab;
mod layer_norm;
mod limit;
mod links;
mod log;
mod mlp;
mod moe;
mod op_table;
mod parameter;
mod path;
mod peaks;
mod phase;
mod qkv;
pub mod record;
mod reference;
pub mod report;
mod rms_norm;
mod rows;
mod run;
mod sequence_attention;
mod softmax;
mod tp_mlp;
mod transformer_layer;
mod vector_add;
mod work;

pub use cubeyard_tl::{Needs, TooLarge};
pub use error::{BenchError, OwnError};
pub use figures::{BenchEntry, RunFigures};
pub use lab::Lab;
pub use log::RunLog;
pub use parameter::{Parameter, ParameterError, ParameterKind, Value, Values};
pub use run::{Run, RunConfig, RunInputs, check_memory, run, sip};
pub use work::Work;

use cubeyard_device::topology::Topology;

use crate::report::Check;

/// Kernels with inputs and a check.
pub trait Bench {
    /// Returns the name used on the command line.
    fn name(&self) -> &str;

    /// Returns a one-line description of the computation.
    fn summary(&self) -> &str;

    /// Returns the parameters with their ranges and defaults.
    fn parameters(&self) -> Vec<Parameter>;

    /// Returns whether the kernels read loaded values, so that the bench runs live and needs data mode.
    fn needs_data(&self) -> bool {
        false
    }

    /// Returns whether the bench uses all SIPs by default, rather than only the first.
    fn spans_sips(&self) -> bool {
        false
    }

    /// Returns the minimum host memory of a run on `sips` SIPs of a machine.
    fn needs(&self, values: &Values, topology: &Topology, sips: u64) -> Needs;

    /// Runs the bench.
    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError>;
}

/// Results of a bench's kernels.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Work that any implementation must do, from which bounds are computed.
    pub work: Work,
    /// Comparison with the reference; `None` without data.
    pub check: Option<Check>,
    /// Outcome of the bench's own assertions, for a bench that checks itself. The error is the text of the failed
    /// assertion, with its line. `None` without assertions.
    pub assertions: Option<Result<(), String>>,
    /// Remarks for the reader of the report.
    pub notes: Vec<String>,
}

/// Returns all benches, sorted by name.
pub fn catalogue() -> Vec<Box<dyn Bench>> {
    vec![
        Box::new(block_sparse::BlockSparse),
        Box::new(copy::Copy),
        Box::new(ddp::Ddp),
        Box::new(flash_attention::FlashAttention),
        Box::new(gemm::Gemm),
        Box::new(gemm_multi::GemmMulti),
        Box::new(gqa_decode::GqaDecode),
        Box::new(layer_norm::LayerNorm),
        Box::new(moe::Moe),
        Box::new(qkv::Qkv),
        Box::new(rms_norm::RmsNorm),
        Box::new(sequence_attention::SequenceAttention),
        Box::new(softmax::Softmax),
        Box::new(tp_mlp::TpMlp),
        Box::new(transformer_layer::TransformerLayer),
        Box::new(vector_add::VectorAdd),
    ]
}

/// Names of benches to suggest as a first example; the first that exists is used.
const FIRST: [&str; 2] = ["gemm", "vector-add"];

/// Returns the bench to suggest as a first example.
///
/// # Panics
/// If none exists, which a test excludes.
pub fn first() -> Box<dyn Bench> {
    let found = FIRST.iter().find_map(|name| find(name).ok());
    found.expect("there is a first example")
}

/// Returns the bench with this name; the error suggests the most similar name.
pub fn find(name: &str) -> Result<Box<dyn Bench>, BenchError> {
    let mut all = catalogue();
    let names: Vec<_> = all.iter().map(|bench| bench.name()).collect();
    if let Some(place) = names.iter().position(|known| *known == name) {
        return Ok(all.swap_remove(place));
    }
    let nearest = cubeyard_yaml::nearest(name, names.into_iter());
    let nearest = nearest.map(str::to_owned);
    Err(BenchError::NoSuchBench { name: name.to_owned(), nearest })
}

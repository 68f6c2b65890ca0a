//! Benches: kernels with inputs, a check of their numbers, and the bounds that they are held to.
//!
//! A bench is a file and a line in [`catalogue`]. It says what it can be asked ([`Parameter`]s), makes its
//! tensors on the [`Lab`], launches kernels of the [`library`](crate::library), and compares what they leave
//! with a reference of its own. What it took, and what limits it, is worked out for all of them by
//! [`run`](fn@run).

mod attention;
mod block_sparse;
mod copy;
mod ddp;
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
mod needs;
mod numbers;
mod parameter;
mod path;
mod peaks;
mod phase;
mod qkv;
mod rows;
mod run;
mod sequence_attention;
mod softmax;
mod tp_mlp;
mod transformer_layer;
mod vector_add;

pub use lab::{Lab, Work};
pub use log::RunLog;
pub use needs::{Needs, check_memory};
pub use parameter::{Kind, Parameter, ParameterError, Value, Values};
pub(crate) use peaks::hbm;
pub use run::{BenchError, Run, RunConfig, run};

use cubeyard_device::topology::Topology;

use crate::report::Check;

/// Kernels with inputs and a check.
pub trait Bench {
    /// What it is called on the command line.
    fn name(&self) -> &'static str;

    /// What it computes, in a line.
    fn summary(&self) -> &'static str;

    /// What it can be asked.
    fn parameters(&self) -> Vec<Parameter>;

    /// Whether its kernels look at what they load, so that it runs live and needs data.
    fn needs_data(&self) -> bool {
        false
    }

    /// Whether it is about several SIPs, so that it uses all of them where none are named.
    fn spans_sips(&self) -> bool {
        false
    }

    /// What it holds in the memory of the host at least, on so many SIPs of a machine.
    fn needs(&self, values: &Values, topology: &Topology, sips: u64) -> Needs;

    /// Runs it.
    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError>;
}

/// What a bench has to say of itself when its kernels have run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What had to be done, whatever the way: what the bounds are made of.
    pub work: Work,
    /// How the numbers compare with the reference; none without data.
    pub check: Option<Check>,
    /// What else a reader should know.
    pub notes: Vec<String>,
}

/// All benches, in the order of their names.
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
        Box::new(sequence_attention::SequenceAttention),
        Box::new(softmax::Softmax),
        Box::new(tp_mlp::TpMlp),
        Box::new(transformer_layer::TransformerLayer),
        Box::new(vector_add::VectorAdd),
    ]
}

/// A good first example: the first of these that there is.
const FIRST: [&str; 2] = ["gemm", "vector-add"];

/// The bench to begin with.
///
/// # Panics
/// If there is none, which a test sees to.
pub fn first() -> Box<dyn Bench> {
    let found = FIRST.iter().find_map(|name| find(name).ok());
    found.expect("there is a first example")
}

/// The bench of a name, or the most similar name.
pub fn find(name: &str) -> Result<Box<dyn Bench>, BenchError> {
    let mut all = catalogue();
    let names: Vec<_> = all.iter().map(|bench| bench.name()).collect();
    if let Some(place) = names.iter().position(|known| *known == name) {
        return Ok(all.swap_remove(place));
    }
    let nearest = cubeyard_device::input::nearest(name, names.into_iter());
    let nearest = nearest.map(str::to_owned);
    Err(BenchError::NoSuchBench { name: name.to_owned(), nearest })
}

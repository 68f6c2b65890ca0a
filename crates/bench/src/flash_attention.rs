//! Attention over whole sequences, with heads spread over PEs.

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Split;

use super::attention::{COMMANDS_OF_BLOCK, F16_ATTENTION, attention, attention_work, stored_keys};
use super::inputs::{at_least, numbers, place, queries, takes_turns};
use super::reference::size;
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use cubeyard_kernels::flash_attention;

pub(super) struct FlashAttention;

/// Parameters of a run.
struct FlashProblem {
    heads: u64,
    tokens: u64,
    /// Head dimension, in elements.
    features: u64,
    /// Tokens per block of Q, and of K and V.
    blocks: [u64; 2],
    causal: bool,
    cubes: u64,
    pes: u64,
}

const NOTE: &str = "the engine takes matrix and vector work in turn; with pe.core.compute_engines=separate the \
                    softmax of a block runs beside the products of its neighbours";

impl Bench for FlashAttention {
    fn name(&self) -> &'static str {
        "flash-attention"
    }

    fn summary(&self) -> &'static str {
        "attention of whole sequences (prefill), softmax block by block, each PE its heads"
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::whole("heads", 8, (1, 1 << 16), "heads of Q, K and V, over all sequences"),
            Parameter::whole("sequence", 1024, (1, 1 << 20), "tokens per sequence"),
            Parameter::whole("head-dim", 128, (1, 1024), "features per head"),
            Parameter::whole("block-q", 128, (1, 4096), "tokens per block of Q"),
            Parameter::whole("block-k", 128, (1, 4096), "tokens per block of K and V"),
            Parameter::choice(
                "causal",
                &["yes", "no"],
                "whether a token sees only itself and its predecessors",
            ),
            Parameter::whole("cubes", 1, (1, 64), "number of cubes"),
            Parameter::whole("pes", 8, (1, 64), "PEs per cube"),
        ]
    }

    fn needs(&self, values: &Values, _: &Topology, _: u64) -> Needs {
        let [heads, tokens, features, block_q, block_k] =
            values.wholes(["heads", "sequence", "head-dim", "block-q", "block-k"]);
        let (of_q, of_k) = (tokens.div_ceil(block_q), tokens.div_ceil(block_k));
        // With causal masking, half of all block pairs.
        let seen = if values.choice("causal") == "yes" { (of_k / 2).max(1) } else { of_k };
        Needs::elements([4, heads, tokens, features])
            + Needs::commands([COMMANDS_OF_BLOCK, heads, of_q, seen])
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let problem = FlashProblem::new(values)?;
        let FlashProblem { heads, tokens, features, blocks, causal, cubes, pes } = problem;
        let over = lab.placement(Split::RowWise, Split::RowWise, cubes, pes);
        let (shape, count) = ([heads, tokens * features], heads * tokens * features);
        let q = queries(lab, count, 1);
        let [k, v] = [2, 3].map(|seed| numbers(lab, count, seed));
        let keys = stored_keys(&k, tokens, features, blocks[1]);
        let mut tensors = Vec::new();
        for values in [&q, &keys, &v] {
            tensors.push(place(lab, &shape, DType::F16, &over, values)?);
        }
        tensors.push(lab.context.empty(&shape, DType::F16)?.to(&over)?);
        let numbers = vec![features, blocks[0], blocks[1], u64::from(causal)];
        lab.launch(&flash_attention(), tensors.iter().collect(), numbers, cubes, pes)?;
        let check = lab.check(&tensors[3], F16_ATTENTION, || problem.expected(&q, &k, &v))?;
        Ok(Outcome {
            work: problem.work(lab),
            check,
            notes: takes_turns(lab).then(|| NOTE.to_owned()).into_iter().collect(),
            ..Outcome::default()
        })
    }
}

impl FlashProblem {
    fn new(values: &Values) -> Result<Self, BenchError> {
        let [heads, tokens, features, cubes, pes] =
            values.wholes(["heads", "sequence", "head-dim", "cubes", "pes"]);
        at_least("heads", heads, cubes * pes, "one for each PE; or set cubes or pes")?;
        let blocks = values.wholes(["block-q", "block-k"]);
        let causal = values.choice("causal") == "yes";
        Ok(Self { heads, tokens, features, blocks, causal, cubes, pes })
    }

    fn expected(&self, q: &[f64], k: &[f64], v: &[f64]) -> Vec<f64> {
        let seen = |query: usize| if self.causal { query + 1 } else { size(self.tokens) };
        let each = size(self.tokens * self.features);
        let heads = q.chunks_exact(each).zip(k.chunks_exact(each)).zip(v.chunks_exact(each));
        heads.flat_map(|((q, k), v)| attention(q, k, v, self.features, seen)).collect()
    }

    /// Returns the work of the scores; Q, K, V and the output are each moved once.
    fn work(&self, lab: &Lab) -> Work {
        let Self { heads, tokens, features, .. } = *self;
        let scores = heads * if self.causal { tokens * (tokens + 1) / 2 } else { tokens * tokens };
        let out = 2 * heads * tokens * features;
        Work { bytes: 4 * out, ..attention_work(lab, scores, features, tokens, out) }
    }
}

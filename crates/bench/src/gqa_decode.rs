//! Attention of one new token per sequence, with the KV cache spread by head.

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Split;

use super::attention::{COMMANDS_OF_BLOCK, F16_ATTENTION, attention, attention_work, stored_keys};
use super::inputs::{at_least, core, multiple, numbers, place, queries};
use super::reference::size;
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use cubeyard_kernels::gqa_decode;

pub(super) struct GqaDecode;

/// Parameters of a run.
struct DecodeProblem {
    /// Number of sequences times heads of K and V.
    rows: u64,
    /// Heads of Q that share one head of K and V.
    group: u64,
    features: u64,
    context: u64,
}

impl Bench for GqaDecode {
    fn name(&self) -> &'static str {
        "gqa-decode"
    }

    fn summary(&self) -> &'static str {
        "attention of one new token of each sequence (decode), each PE its heads of the KV cache"
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::whole("batch", 1, (1, 1 << 16), "number of sequences"),
            Parameter::whole("context", 8192, (1, 1 << 24), "cached tokens per sequence"),
            Parameter::whole("q-heads", 64, (1, 1024), "heads of Q; Llama-70B has 64"),
            Parameter::whole("kv-heads", 8, (1, 1024), "heads of K and V; Llama-70B has 8"),
            Parameter::whole("head-dim", 128, (1, 1024), "features per head"),
            Parameter::whole("block-k", 256, (1, 1 << 16), "tokens per block of K and V"),
            Parameter::whole("cubes", 1, (1, 64), "number of cubes"),
            Parameter::whole("pes", 8, (1, 64), "PEs per cube"),
        ]
    }

    fn needs(&self, values: &Values, _: &Topology, _: u64) -> Needs {
        let [batch, context, q_heads, kv_heads, features, block] =
            values.wholes(["batch", "context", "q-heads", "kv-heads", "head-dim", "block-k"]);
        Needs::elements([2, batch, kv_heads, context, features])
            + Needs::elements([2, batch, q_heads, features])
            + Needs::commands([COMMANDS_OF_BLOCK, batch, kv_heads, context.div_ceil(block)])
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let [block, cubes, pes] = values.wholes(["block-k", "cubes", "pes"]);
        let problem = DecodeProblem::new(values)?;
        let DecodeProblem { rows, group, features, context } = problem;
        at_least("batch * kv-heads", rows, cubes * pes, "one for each PE; or set cubes or pes")?;
        let over = lab.placement(Split::RowWise, Split::RowWise, cubes, pes);
        let q = queries(lab, rows * group * features, 1);
        let [k, v] = [2, 3].map(|seed| numbers(lab, rows * context * features, seed));
        let keys = stored_keys(&k, context, features, block);
        let (of_token, of_cache) = ([rows, group * features], [rows, context * features]);
        let tensors = [
            place(lab, &of_token, DType::F16, &over, &q)?,
            place(lab, &of_cache, DType::F16, &over, &keys)?,
            place(lab, &of_cache, DType::F16, &over, &v)?,
            lab.context.empty(&of_token, DType::F16)?.to(&over)?,
        ];
        lab.launch(&gqa_decode(), tensors.iter().collect(), vec![features, block], cubes, pes)?;
        let check = lab.check(&tensors[3], F16_ATTENTION, || problem.expected(&q, &k, &v))?;
        Ok(Outcome {
            work: problem.work(lab),
            check,
            notes: problem.notes(lab),
            ..Outcome::default()
        })
    }
}

impl DecodeProblem {
    fn new(values: &Values) -> Result<Self, BenchError> {
        let [q, kv] = values.wholes(["q-heads", "kv-heads"]);
        multiple("q-heads", q, kv, "as many for each of the kv-heads")?;
        let (rows, group) = (values.whole("batch") * kv, q / kv);
        Ok(Self {
            rows,
            group,
            features: values.whole("head-dim"),
            context: values.whole("context"),
        })
    }

    fn expected(&self, q: &[f64], k: &[f64], v: &[f64]) -> Vec<f64> {
        let [token, cache] = [self.group, self.context].map(|count| size(count * self.features));
        let rows = q.chunks_exact(token).zip(k.chunks_exact(cache)).zip(v.chunks_exact(cache));
        let seen = |_| size(self.context);
        rows.flat_map(|((q, k), v)| attention(q, k, v, self.features, seen)).collect()
    }

    /// Returns the work of the scores; the cache is read once.
    fn work(&self, lab: &Lab) -> Work {
        let Self { rows, group, features, context } = *self;
        let (scores, out) = (rows * group * context, 2 * rows * features * group);
        let bytes = 4 * rows * features * context + 2 * out;
        Work { bytes, ..attention_work(lab, scores, features, group, out) }
    }

    fn notes(&self, lab: &Lab) -> Vec<String> {
        let rows = u64::from(core(lab).gemm.m);
        if self.group >= rows {
            return Vec::new();
        }
        let group = self.group;
        vec![format!(
            "GEMM takes {rows} rows at a time; {group} heads share a cache, and take as long as {rows} rows"
        )]
    }
}

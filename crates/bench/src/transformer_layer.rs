//! Transformer layer, tensor-parallel over cubes and SIPs.

mod numbers;
mod reference;

use std::rc::Rc;

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;

use super::inputs::at_least;
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use cubeyard_model::cut::ExpertPlacement;
use cubeyard_model::report::Demand;
use cubeyard_model::spec::{Activation, Experts, Family};
use cubeyard_model::{Cut, Driver, ModelError, ModelSpec, Phase, StepPart, Tensors, Workload};
use numbers::Numbers;

/// Tolerance in f16: Q, K and V, attention, and the inner features of the feed-forward part are rounded. So are the
/// sums of 32 cubes, added in nine steps, twice: about 16 roundings of 2⁻¹¹ on the path of any number.
const F16_LAYER: f64 = 16.0 / 2048.0;

pub(super) struct TransformerLayer;

impl Bench for TransformerLayer {
    fn name(&self) -> &'static str {
        "transformer-layer"
    }

    fn summary(&self) -> &'static str {
        "a transformer layer, its weights over all PEs of all SIPs, sums by all-reduce"
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::choice(
                "phase",
                &["decode", "prefill"],
                "decode: one new token of each sequence; prefill: the last tokens of each at once",
            ),
            Parameter::choice(
                "launches",
                &["one", "parts"],
                "one: one launch for the whole layer; parts: one launch for each part",
            ),
            Parameter::whole("batch", 32, (1, 1 << 12), "number of sequences"),
            Parameter::whole("context", 512, (1, 1 << 20), "tokens per sequence"),
            Parameter::whole("chunk", 512, (1, 1 << 14), "new tokens of all sequences in prefill"),
            Parameter::whole("hidden", 1024, (1, 1 << 16), "features of a token between layers"),
            Parameter::whole("ffn", 4096, (1, 1 << 18), "features inside the feed-forward part"),
            Parameter::whole("heads", 32, (1, 1024), "heads of Q"),
            Parameter::whole("kv-heads", 8, (1, 1024), "heads of K and V"),
            Parameter::whole("head-dim", 32, (1, 1024), "features per head"),
            Parameter::whole(
                "experts",
                1,
                (1, 64),
                "number of experts of the feed-forward part; 1 if it is dense",
            ),
            Parameter::whole("active", 2, (1, 64), "experts of each token, if there are several"),
            Parameter::choice(
                "placement",
                &["split", "sip", "cube"],
                "experts: each over all PEs, or experts of their own for each SIP or for some cubes",
            ),
            Parameter::choice(
                "weights",
                &["f16", "fp8", "int8"],
                "type of the weights; 8-bit types have a scale for each column",
            ),
            Parameter::choice(
                "family",
                &["llama", "qwen2", "qwen3", "gemma2"],
                "llama; qwen2: biases of Q, K and V; qwen3: norms of heads; gemma2: norms of results, GELU",
            ),
        ]
    }

    fn spans_sips(&self) -> bool {
        true
    }

    fn needs(&self, values: &Values, _: &Topology, _: u64) -> Needs {
        let [batch, context, hidden, ffn, heads, kv_heads, head_dim, experts] = values.wholes([
            "batch", "context", "hidden", "ffn", "heads", "kv-heads", "head-dim", "experts",
        ]);
        Needs::elements([2, hidden, heads, head_dim])
            + Needs::elements([2, hidden, kv_heads, head_dim])
            + Needs::elements([3, experts, hidden, ffn])
            + Needs::elements([2, batch, context, kv_heads, head_dim])
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let cut = Rc::new(cut(lab, values)?);
        let position = match cut.work.phase {
            Phase::Decode => cut.work.context - 1,
            Phase::Prefill => cut.work.context.saturating_sub(cut.each),
        };
        at_least("context", cut.work.context, cut.each, "as many as a step has")?;
        let numbers = Numbers::new(lab, &cut, position);
        let contents = |held, sip| lab.has_data.then(|| numbers.held(held, sip));
        let tensors = Tensors::new(&lab.context, &cut, &lab.sips, Some(&contents));
        let tensors = tensors.map_err(unfit)?;
        let mut driver = Driver::new(&lab.launcher, &cut, &tensors).map_err(unfit)?;
        let parts = match values.choice("launches") {
            "one" => vec![StepPart::Layer],
            _ => StepPart::layer(&cut),
        };
        for part in parts {
            driver.order(part, 0, position).map_err(unfit)?;
        }
        driver.finish().map_err(unfit)?;
        lab.settle()?;
        let found = &tensors.sips[lab.sips.len() - 1].tokens;
        let check = lab.check(found, F16_LAYER, || numbers.shared(&reference::layer(&numbers)))?;
        Ok(Outcome { work: work(&cut, position), check, ..Outcome::default() })
    }
}

fn cut(lab: &Lab, values: &Values) -> Result<Cut, BenchError> {
    let [batch, context, chunk, hidden, ffn, heads, kv_heads, head_dim] = values
        .wholes(["batch", "context", "chunk", "hidden", "ffn", "heads", "kv-heads", "head-dim"]);
    let phase = if values.choice("phase") == "decode" { Phase::Decode } else { Phase::Prefill };
    let (sips, all) = lab.context.machine(|machine| {
        let topology = machine.topology();
        let (cubes, pes) = (topology.cubes().count(), topology.pes().count());
        (lab.sips.len() as u64, (lab.sips.len() * cubes * pes) as u64)
    });
    // Neither the embedding nor the head is run: one word per PE is enough.
    let (name, layers, vocab, others) = ("a layer".to_owned(), 1, all, Vec::new());
    let family = family(values);
    let spec =
        ModelSpec { name, layers, hidden, ffn, heads, kv_heads, head_dim, vocab, family, others };
    let dtype = DType::F16;
    let weights = match values.choice("weights") {
        "fp8" => DType::Fp8E4m3,
        "int8" => DType::I8,
        _ => dtype,
    };
    let placement = values.choice("placement");
    let placed = ExpertPlacement::NAMES.into_iter().find(|(name, _)| *name == placement);
    let experts = placed.map(|(_, placement)| placement).unwrap_or_default();
    let work = Workload { phase, batch, context, chunk, dtype, weights, experts, kv: None };
    lab.context.machine(|machine| Cut::new(&spec, work, machine.topology(), sips)).map_err(unfit)
}

fn family(values: &Values) -> Family {
    let name = values.choice("family");
    let [experts, active] = values.wholes(["experts", "active"]);
    let activation = if name == "gemma2" { Activation::Gelu } else { Activation::Silu };
    Family {
        has_qkv_bias: name == "qwen2",
        has_qk_norm: name == "qwen3",
        has_post_norms: name == "gemma2",
        activation,
        experts: (experts > 1).then_some(Experts { count: experts, active: active.min(experts) }),
        ..Family::default()
    }
}

fn unfit(error: ModelError) -> BenchError {
    match error {
        ModelError::Runtime(error) => error.into(),
        ModelError::DoesNotFit { source, .. } => (*source).into(),
        ModelError::Group(error) => error.into(),
        other => BenchError::Unfit(other.to_string()),
    }
}

fn work(cut: &Cut, position: u64) -> Work {
    let Demand { bytes, flop } = cut.demand(StepPart::Layer, position);
    Work { gemm: Some((DType::F16, flop)), bytes, ..Work::default() }
}

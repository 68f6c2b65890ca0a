//! The projections of tokens to queries, keys and values, in the shapes of known models.

use cubeyard_runtime::Argument;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Split;

use super::inputs::{
    F16_SUMS, core, fits_tcm, multiple, numbers, ordered, panel_order, place, product, size,
};
use super::{Bench, BenchError, Lab, Outcome, Parameter, Values, Work};
use crate::library::qkv;
use crate::report::Check;

pub(super) struct Qkv;

/// What was asked.
struct Asked {
    tokens: u64,
    /// Features of a token.
    d: u64,
    /// Heads of Q, K and V.
    heads: [u64; 3],
    /// Features of a head.
    size: u64,
    cubes: u64,
    pes: u64,
    /// What cubes do with tokens, and with heads.
    splits: [Split; 2],
}

impl Bench for Qkv {
    fn name(&self) -> &'static str {
        "qkv"
    }

    fn summary(&self) -> &'static str {
        "tokens to queries, keys and values, each PE its heads"
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::choice(
                "model",
                &["llama-8b", "llama-70b", "gpt3"],
                "whose shapes: 32 heads and 8 of K and V, 64 and 8, 96 and 96",
            ),
            Parameter::whole(
                "shrink",
                8,
                (1, 128),
                "by which features of tokens and heads are divided; 1: the model's own",
            ),
            Parameter::whole("tokens", 32, (1, 1 << 20), "that are projected"),
            Parameter::choice(
                "across",
                &["tokens", "heads"],
                "what cubes split; PEs of a cube always split heads",
            ),
            Parameter::whole("resident", 128, (1, 1 << 20), "tokens in the TCM at once"),
            Parameter::whole("cubes", 1, (1, 64), "that take part"),
            Parameter::whole("pes", 8, (1, 64), "of each cube"),
        ]
    }

    fn run(&self, lab: &Lab<'_>, values: &Values) -> Result<Outcome, BenchError> {
        let asked = Asked::new(values)?;
        let Asked { tokens, d, heads, size: features, cubes, pes, splits } = asked;
        let (resident, width) = (values.whole("resident"), u64::from(core(lab).gemm.n));
        asked.check(lab, resident, width)?;
        let over_x = lab.placement(splits[0], Split::Replicate, cubes, pes);
        let over_weights = lab.placement(splits[1], Split::RowWise, cubes, pes);
        // A row is a head, so cubes split tokens where its columns are.
        let of_tokens =
            if splits[0] == Split::RowWise { Split::ColumnWise } else { Split::RowWise };
        let over_outs = lab.placement(of_tokens, Split::RowWise, cubes, pes);
        let x = numbers(lab, tokens * d, 1);
        let weights: Vec<_> = (2..)
            .zip(heads)
            .map(|(seed, heads)| numbers(lab, heads * d * features, seed))
            .collect();
        let mut tensors = vec![place(lab, &[tokens, d], DType::F16, &over_x, &x)?];
        for (values, heads) in weights.iter().zip(heads) {
            let stored = stored(values, [d, features], width);
            tensors.push(place(lab, &[heads, d * features], DType::F16, &over_weights, &stored)?);
        }
        for heads in heads {
            tensors
                .push(lab.context.empty(&[heads, tokens * features], DType::F16)?.to(&over_outs)?);
        }
        let mut arguments: Vec<_> = tensors.iter().map(Argument::Tensor).collect();
        arguments.extend([resident, features, width].map(|number| Argument::Scalar(number as f64)));
        lab.launch(&qkv(), arguments, cubes, pes)?;
        let mut check: Option<Check> = None;
        for (out, weights) in tensors[4..].iter().zip(&weights) {
            let expected = || projected(&x, weights, [d, features]);
            check = worse(check, lab.check(out, F16_SUMS, expected)?);
        }
        Ok(Outcome { work: asked.work(), check, notes: Vec::new() })
    }
}

impl Asked {
    fn new(values: &Values) -> Result<Self, BenchError> {
        let (d, heads) = match values.choice("model") {
            "llama-8b" => (4096, [32, 8, 8]),
            "llama-70b" => (8192, [64, 8, 8]),
            _ => (12288, [96, 96, 96]),
        };
        let [shrink, tokens, cubes, pes] =
            ["shrink", "tokens", "cubes", "pes"].map(|name| values.whole(name));
        if !128_u64.is_multiple_of(shrink) {
            let text = format!(
                "shrink={shrink}: expected 1, 2, 4 and so on up to 128, the features of a head"
            );
            return Err(BenchError::Unfit(text));
        }
        let splits = match values.choice("across") {
            "tokens" => [Split::RowWise, Split::Replicate],
            _ => [Split::Replicate, Split::RowWise],
        };
        Ok(Self { tokens, d: d / shrink, heads, size: 128 / shrink, cubes, pes, splits })
    }

    fn check(&self, lab: &Lab<'_>, resident: u64, width: u64) -> Result<(), BenchError> {
        let mut tokens = self.tokens;
        if self.splits[0] == Split::RowWise {
            multiple(
                "tokens",
                tokens,
                self.cubes,
                "as many for each of the cubes; or set across=heads",
            )?;
            tokens /= self.cubes;
        }
        let (held, wide) = (resident.min(tokens), width.min(self.size));
        let what = format!("{held} tokens of {} features and two panels of weights", self.d);
        let bytes = 2 * (held * self.d + 2 * wide * self.d + 2 * width * width);
        fits_tcm(lab, bytes, &what, "fewer resident tokens")
    }

    /// Each PE reads its tokens and weights at least once, and writes what it makes of them.
    fn work(&self) -> Work {
        let columns = self.heads.iter().sum::<u64>() * self.size;
        let (tokens, weights) = (self.tokens * self.d, self.d * columns);
        // Those without a head do nothing.
        let copies = match self.splits[0] {
            Split::RowWise => [self.pes.min(self.heads[0]), self.cubes],
            _ => [(self.cubes * self.pes).min(self.heads[0]), 1],
        };
        let bytes = 2 * (copies[0] * tokens + copies[1] * weights + self.tokens * columns);
        Work { gemm: Some((DType::F16, 2 * tokens * columns)), bytes, ..Work::default() }
    }
}

/// The weights of each head panel by panel.
fn stored(values: &[f64], [d, features]: [u64; 2], width: u64) -> Vec<f64> {
    let order = if values.is_empty() { Vec::new() } else { panel_order(d, features, width) };
    let head = size(d * features);
    values.chunks_exact(head).flat_map(|head| ordered(head, &order)).collect()
}

/// The tokens times the weights of each head.
fn projected(x: &[f64], weights: &[f64], [d, features]: [u64; 2]) -> Vec<f64> {
    let heads = weights.chunks_exact(size(d * features));
    heads.flat_map(|head| product(x, head, d, features)).collect()
}

/// Both checks as one: of all elements, the worst.
fn worse(one: Option<Check>, other: Option<Check>) -> Option<Check> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Check {
            elements: one.elements + other.elements,
            worst: one.worst.max(other.worst),
            tolerance: one.tolerance,
        }),
        (one, other) => one.or(other),
    }
}

//! Projection of tokens to queries, keys and values, in the shapes of known models.

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Split;
use cubeyard_runtime::{RuntimeError, Tensor};

use super::inputs::{F16_SUMS, core, fits_tcm, multiple, numbers, place};
use super::reference::{ordered, panel_order, product, size, worse};
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use crate::report::Check;
use cubeyard_kernels::qkv;

pub(super) struct Qkv;

/// Parameters of a run.
struct QkvProblem {
    tokens: u64,
    /// Number of features of a token.
    d: u64,
    /// Number of heads of Q, K and V.
    heads: [u64; 3],
    /// Head dimension.
    features: u64,
    cubes: u64,
    pes: u64,
    /// Whether cubes split tokens rather than heads.
    across_tokens: bool,
    /// Number of tokens in the TCM at once.
    resident: u64,
    /// Number of columns of a panel.
    width: u64,
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
                "model: 32 heads of Q and 8 of K and V, 64 and 8, or 96 and 96",
            ),
            Parameter::whole(
                "shrink",
                2,
                (1, 128),
                "divisor of the features of tokens and heads; 1 is the model's own size",
            ),
            Parameter::whole("tokens", 128, (1, 1 << 20), "tokens to project"),
            Parameter::choice(
                "across",
                &["tokens", "heads"],
                "dimension split over cubes; the PEs of a cube always split heads",
            ),
            Parameter::whole("resident", 128, (1, 1 << 20), "tokens in the TCM at once"),
            Parameter::whole("cubes", 1, (1, 64), "number of cubes"),
            Parameter::whole("pes", 8, (1, 64), "PEs per cube"),
        ]
    }

    fn needs(&self, values: &Values, topology: &Topology, _: u64) -> Needs {
        let (tokens, (d, heads)) = (values.whole("tokens"), shape(values));
        let shrink = values.whole("shrink");
        let (d, columns) = (d / shrink, heads.iter().sum::<u64>() * 128 / shrink);
        let matrices = [[tokens, d], [d, columns], [tokens, columns]];
        let matrices = matrices.map(Needs::elements).into_iter().sum::<Needs>();
        matrices + Needs::tiles(topology, [tokens, d, columns])
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let problem = QkvProblem::new(lab, values)?;
        let x = numbers(lab, problem.tokens * problem.d, 1);
        let weights =
            [0, 1, 2].map(|of| numbers(lab, problem.heads[of] * problem.head(), 2 + of as u64));
        let inputs = problem.inputs(lab, &x, &weights)?;
        let outs = problem.outs(lab)?;
        let numbers = vec![problem.resident, problem.features, problem.width];
        lab.launch(
            &qkv(),
            inputs.iter().chain(&outs).collect(),
            numbers,
            problem.cubes,
            problem.pes,
        )?;
        let mut check: Option<Check> = None;
        for (out, weights) in outs.iter().zip(&weights) {
            check = worse(check, lab.check(out, F16_SUMS, || problem.expected(&x, weights))?);
        }
        Ok(Outcome { work: problem.work(), check, ..Outcome::default() })
    }
}

impl QkvProblem {
    fn new(lab: &Lab, values: &Values) -> Result<Self, BenchError> {
        let (d, heads) = shape(values);
        let shrink = values.whole("shrink");
        if !128_u64.is_multiple_of(shrink) {
            let expected = "expected 1, 2, 4 and so on up to 128, the features of a head";
            return Err(BenchError::Unfit(format!("shrink={shrink}: {expected}")));
        }
        let [tokens, resident, cubes, pes] = values.wholes(["tokens", "resident", "cubes", "pes"]);
        let (across_tokens, width) =
            (values.choice("across") == "tokens", u64::from(core(lab).gemm.n));
        let (d, features) = (d / shrink, 128 / shrink);
        let problem =
            Self { tokens, d, heads, features, cubes, pes, across_tokens, resident, width };
        problem.check(lab)?;
        Ok(problem)
    }

    fn check(&self, lab: &Lab) -> Result<(), BenchError> {
        let mut tokens = self.tokens;
        if self.across_tokens {
            let why = "as many for each of the cubes; or set across=heads";
            multiple("tokens", tokens, self.cubes, why)?;
            tokens /= self.cubes;
        }
        // While some tokens are in use, the next tokens are loaded.
        let (held, wide) = (tokens.min(2 * self.resident), self.width.min(self.features));
        let what = format!("{held} tokens of {} features and two panels of weights", self.d);
        let bytes = 2 * (held * self.d + 2 * wide * self.d + 2 * self.width * self.width);
        fits_tcm(lab, bytes, &what, "fewer resident tokens")
    }

    /// Returns the number of weights per head.
    fn head(&self) -> u64 {
        self.d * self.features
    }

    /// Places the tokens, and the weights with a row per head.
    fn inputs(
        &self,
        lab: &Lab,
        x: &[f64],
        weights: &[Vec<f64>],
    ) -> Result<Vec<Tensor>, RuntimeError> {
        let [of_tokens, of_heads] = if self.across_tokens {
            [Split::RowWise, Split::Replicate]
        } else {
            [Split::Replicate, Split::RowWise]
        };
        let over = lab.placement(of_tokens, Split::Replicate, self.cubes, self.pes);
        let mut inputs = vec![place(lab, &[self.tokens, self.d], DType::F16, &over, x)?];
        let over = lab.placement(of_heads, Split::RowWise, self.cubes, self.pes);
        for (weights, heads) in weights.iter().zip(self.heads) {
            let shape = [heads, self.head()];
            inputs.push(place(lab, &shape, DType::F16, &over, &self.stored(weights))?);
        }
        Ok(inputs)
    }

    /// Creates Q, K and V, with a row per head; if cubes split tokens, they split the columns.
    fn outs(&self, lab: &Lab) -> Result<Vec<Tensor>, RuntimeError> {
        let cube = if self.across_tokens { Split::ColumnWise } else { Split::RowWise };
        let over = lab.placement(cube, Split::RowWise, self.cubes, self.pes);
        let columns = self.tokens * self.features;
        let out = |heads| lab.context.empty(&[heads, columns], DType::F16)?.to(&over);
        self.heads.into_iter().map(out).collect()
    }

    /// Returns the weights of each head, panel by panel.
    fn stored(&self, weights: &[f64]) -> Vec<f64> {
        if weights.is_empty() {
            return Vec::new();
        }
        let order = panel_order(self.d, self.features, self.width);
        let heads = weights.chunks_exact(size(self.head()));
        heads.flat_map(|head| ordered(head, &order)).collect()
    }

    /// Returns the product of the tokens and the weights of each head.
    fn expected(&self, x: &[f64], weights: &[f64]) -> Vec<f64> {
        let heads = weights.chunks_exact(size(self.head()));
        heads.flat_map(|head| product(x, head, self.d, self.features)).collect()
    }

    /// Returns the work: each PE reads its tokens and weights at least once, and writes its results.
    fn work(&self) -> Work {
        let columns = self.heads.iter().sum::<u64>() * self.features;
        let (tokens, weights) = (self.tokens * self.d, self.d * columns);
        // PEs without a head do nothing.
        let copies = if self.across_tokens {
            [self.pes.min(self.heads[0]), self.cubes]
        } else {
            [(self.cubes * self.pes).min(self.heads[0]), 1]
        };
        let bytes = 2 * (copies[0] * tokens + copies[1] * weights + self.tokens * columns);
        // All heads share the tokens: the columns of all heads could form one matrix.
        let (gemm, largest) =
            (Some((DType::F16, 2 * tokens * columns)), Some([self.tokens, self.d, columns]));
        Work { gemm, largest, results: 2 * self.tokens * columns, bytes, ..Work::default() }
    }
}

/// Returns the number of features of a token, and the numbers of heads of Q, K and V, for a model.
fn shape(values: &Values) -> (u64, [u64; 3]) {
    match values.choice("model") {
        "llama-8b" => (4096, [32, 8, 8]),
        "llama-70b" => (8192, [64, 8, 8]),
        _ => (12288, [96, 96, 96]),
    }
}

//! Tensor-parallel MLP: each rank has some of the hidden features, and one all-reduce sums their results.

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{RuntimeError, Tensor};

use super::inputs::{fits_tcm, multiple, numbers, place};
use super::links::links;
use super::mlp::{Layers, tolerance, weights};
use super::reference::{size, worse};
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use crate::report::Check;
use cubeyard_collectives::collective::bound::Spread;
use cubeyard_collectives::collective::{Algorithm, Operation, ReduceOp, algorithms};
use cubeyard_collectives::distributed::{DistError, Group, GroupConfig, Ranks};
use cubeyard_kernels::{Activation, linear};

pub(super) struct TpMlp;

/// Collective that combines the ranks' results.
const JOIN: Operation = Operation::AllReduce(ReduceOp::Sum);

/// Rows of weights in the TCM at once: the rows of a tile of the matrix unit.
const BLOCK: u64 = 32;

/// Parameters of a run.
struct MlpProblem<'l> {
    lab: &'l Lab,
    tokens: u64,
    features: u64,
    hidden: u64,
    activation: Activation,
    ranks: Ranks,
    algorithm: String,
    /// Number of cubes per SIP, and number of PEs per cube.
    cubes: u64,
    pes: u64,
}

/// Inputs: x with a column per token, and weights with a row per output.
struct Inputs {
    x: Vec<f64>,
    up: Vec<f64>,
    down: Vec<f64>,
}

impl Bench for TpMlp {
    fn name(&self) -> &'static str {
        "tp-mlp"
    }

    fn summary(&self) -> &'static str {
        "a tensor-parallel MLP: column-parallel linear, activation, row-parallel linear, all-reduce"
    }

    fn parameters(&self) -> Vec<Parameter> {
        let ways = &["grid", "ring", "direct", "tree", "halving-doubling"];
        vec![
            Parameter::whole("tokens", 32, (1, 1 << 12), "number of tokens"),
            Parameter::whole("features", 2048, (1, 1 << 16), "features per token"),
            Parameter::whole("hidden", 8192, (1, 1 << 18), "features between the two layers"),
            Parameter::choice("activation", &["gelu", "silu"], "activation of hidden features"),
            Parameter::choice("ranks", &["cube", "sip"], "unit with a part of the hidden features"),
            Parameter::choice("algorithm", ways, "algorithm of the all-reduce"),
        ]
    }

    fn spans_sips(&self) -> bool {
        true
    }

    fn needs(&self, values: &Values, _: &Topology, _: u64) -> Needs {
        let [tokens, features, hidden] = values.wholes(["tokens", "features", "hidden"]);
        // Each block of weights is loaded, multiplied and stored.
        Needs::elements([2, features, hidden])
            + Needs::elements([tokens, features])
            + Needs::commands([3, hidden.div_ceil(BLOCK)])
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let problem = MlpProblem::new(lab, values)?;
        let inputs = problem.inputs();
        let sips = 0..lab.sips.len();
        let layers: Vec<_> =
            sips.map(|sip| problem.place(&inputs, sip)).collect::<Result<_, _>>()?;
        let number = lab.launcher.new_group().ok_or(DistError::Exhausted)?;
        let way = problem.algorithm()?;
        let group = Group::new(&lab.context, &problem.config(), way, number)?;
        problem.launch(problem.activation, &layers, [0, 1, 2], 0)?;
        let each = if problem.ranks == Ranks::Cube { problem.of_sip() / problem.cubes } else { 0 };
        problem.launch(Activation::Identity, &layers, [3, 2, 4], each)?;
        let sums: Vec<_> = layers.iter().map(|layer| (&layer[4], &layer[4])).collect();
        group.run(&lab.launcher, JOIN, &sums)?;
        lab.settle()?;
        let check = problem.check(&inputs, &layers)?;
        Ok(Outcome { work: problem.work(&group), check, ..Outcome::default() })
    }
}

impl<'l> MlpProblem<'l> {
    fn new(lab: &'l Lab, values: &Values) -> Result<Self, BenchError> {
        let [tokens, features, hidden] = values.wholes(["tokens", "features", "hidden"]);
        let silu = values.choice("activation") == "silu";
        let activation = if silu { Activation::Silu } else { Activation::Gelu };
        let ranks = if values.choice("ranks") == "sip" { Ranks::Sip } else { Ranks::Cube };
        let (algorithm, (cubes, pes)) = (values.choice("algorithm").to_owned(), lab.counts());
        let problem =
            Self { lab, tokens, features, hidden, activation, ranks, algorithm, cubes, pes };
        multiple("hidden", hidden, problem.all_pes(), "as many for each PE of all SIPs")?;
        multiple("features", features, problem.rank_pes(), "as many for each PE of a rank")?;
        // The input, and two blocks of weights with their sums.
        let deepest = features.max(hidden / problem.rank_count());
        let bytes = 2 * deepest * (tokens + 2 * BLOCK) + 16 * BLOCK * tokens;
        let what = format!("{tokens} tokens of {deepest} features and two blocks of weights");
        fits_tcm(lab, bytes, &what, "fewer tokens or features")?;
        Ok(problem)
    }

    fn all_pes(&self) -> u64 {
        self.lab.sips.len() as u64 * self.cubes * self.pes
    }

    fn rank_count(&self) -> u64 {
        let sips = self.lab.sips.len() as u64;
        if self.ranks == Ranks::Sip { sips } else { sips * self.cubes }
    }

    fn rank_pes(&self) -> u64 {
        self.all_pes() / self.rank_count()
    }

    /// Returns the number of hidden features per SIP.
    fn of_sip(&self) -> u64 {
        self.hidden / self.lab.sips.len() as u64
    }

    fn config(&self) -> GroupConfig {
        GroupConfig { ranks: self.ranks, sips: self.lab.sips.clone(), ..GroupConfig::default() }
    }

    fn algorithm(&self) -> Result<Box<dyn Algorithm>, BenchError> {
        let found = algorithms().into_iter().find(|it| it.name() == self.algorithm);
        found.ok_or_else(|| BenchError::Unfit(format!("no algorithm {}", self.algorithm)))
    }

    fn inputs(&self) -> Inputs {
        let (lab, count) = (self.lab, self.features * self.hidden);
        Inputs {
            x: numbers(lab, self.features * self.tokens, 1),
            up: weights(lab, count, self.features, 2),
            down: weights(lab, count, self.hidden, 3),
        }
    }

    /// Places the tensors of a SIP: x, the up weights, the hidden features, the down weights, and the sums.
    fn place(&self, inputs: &Inputs, sip: usize) -> Result<[Tensor; 5], RuntimeError> {
        let (lab, of_sip) = (self.lab, self.of_sip());
        let over = |cube, pe| -> Placement {
            lab.placement_on(lab.sips[sip], cube, pe, self.cubes, self.pes)
        };
        let (rows, copies) =
            (over(Split::RowWise, Split::RowWise), over(Split::Replicate, Split::Replicate));
        let [first, last] = [sip, sip + 1].map(|sip| size(sip as u64 * of_sip));
        let up = inputs.up.get(size(self.features) * first..size(self.features) * last);
        let down = inputs.down.chunks_exact(size(self.hidden));
        let down: Vec<f64> = down.flat_map(|row| &row[first..last]).copied().collect();
        let (over_down, sums) = match self.ranks {
            Ranks::Cube => (over(Split::ColumnWise, Split::RowWise), self.cubes * self.features),
            _ => (rows.clone(), self.features),
        };
        Ok([
            place(lab, &[of_sip, self.features], DType::F16, &rows, up.unwrap_or_default())?,
            place(lab, &[self.features, self.tokens], DType::F16, &copies, &inputs.x)?,
            lab.context.empty(&[of_sip, self.tokens], DType::F16)?.to(&rows)?,
            place(lab, &[self.features, of_sip], DType::F16, &over_down, &down)?,
            lab.context.empty(&[sums, self.tokens], DType::F32)?.to(&rows)?,
        ])
    }

    /// Runs a layer on all SIPs; `which` selects weights, input and output among a SIP's tensors.
    fn launch(
        &self,
        activation: Activation,
        layers: &[[Tensor; 5]],
        which: [usize; 3],
        each: u64,
    ) -> Result<(), RuntimeError> {
        let launches = self.lab.sips.iter().zip(layers).map(|(&sip, layer)| {
            (sip, which.map(|index| &layer[index]).to_vec(), vec![BLOCK, each])
        });
        self.lab.launch_each(&linear(activation), launches.collect(), self.cubes, self.pes)
    }

    /// Checks the outputs. Hidden features are rounded to f16 when they are stored, which affects every summand
    /// of an output; sums are f32.
    fn check(&self, inputs: &Inputs, layers: &[[Tensor; 5]]) -> Result<Option<Check>, BenchError> {
        if !self.lab.has_data {
            return Ok(None);
        }
        let matrices = [&inputs.up[..], &inputs.down, &inputs.x];
        let Layers { outputs, largest } =
            Layers::new(self.activation, matrices, [self.features, self.hidden, self.tokens]);
        let tolerance = tolerance(1.25, largest, &outputs);
        let mut check = None;
        for layer in layers {
            let copies = layer[4].shape().dimensions()[0] / self.features;
            let all = || outputs.repeat(size(copies));
            check = worse(check, self.lab.check(&layer[4], tolerance, all)?);
        }
        Ok(check)
    }

    /// Returns the work: weights are read once, x once on each PE, hidden features are written once, and sums
    /// once on each rank.
    fn work(&self, group: &Group) -> Work {
        let Self { tokens, features, hidden, .. } = *self;
        let (ranks, sums) = (self.rank_count(), 4 * tokens * features);
        let bytes = 4 * features * hidden + 2 * tokens * (features * self.all_pes() + hidden);
        Work {
            gemm: Some((DType::F16, 4 * tokens * features * hidden)),
            elements: tokens * (hidden + features * (ranks - 1)),
            bytes: bytes + ranks * sums,
            // Each PE of a rank has the same number of features.
            links: links(self.lab, group.rank_map(), JOIN, sums, Spread::Even),
            ..Work::default()
        }
    }
}

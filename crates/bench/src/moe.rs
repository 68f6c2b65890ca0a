//! Mixture of experts over the PEs of several SIPs.

mod router;

use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_device::request::PeRef;
use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Split;
use cubeyard_runtime::{RingConfig, RuntimeError, Tensor};

use super::inputs::{fits_tcm, multiple, numbers, place, special};
use super::links::links_between;
use super::mlp::{Layers, tolerance, weights};
use super::reference::{size, transposed, worse};
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use crate::report::Check;
use cubeyard_collectives::distributed::KernelChannels;
use cubeyard_kernels::{Activation, Routing, moe, moe_wires};

pub(super) struct Moe;

/// Parameters of a run.
struct MoeProblem<'l> {
    lab: &'l Lab,
    features: u64,
    hidden: u64,
    cubes: u64,
    pes: u64,
    routing: Rc<Routing>,
}

/// Tokens and experts in order; an expert's matrices have a row per input.
struct Inputs {
    x: Vec<f64>,
    up: Vec<f64>,
    down: Vec<f64>,
}

impl Bench for Moe {
    fn name(&self) -> &'static str {
        "moe"
    }

    fn summary(&self) -> &'static str {
        "a mixture of experts: tokens go to the PEs of their experts, and the answers come back"
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::whole("tokens", 512, (1, 1 << 16), "tokens of all PEs"),
            Parameter::whole("features", 256, (1, 1 << 13), "features per token"),
            Parameter::whole("hidden", 1024, (1, 1 << 14), "hidden features of an expert"),
            Parameter::whole("experts", 16, (1, 1 << 10), "experts of all PEs"),
            Parameter::whole("top-k", 2, (1, 2), "experts per token"),
            Parameter::whole(
                "capacity",
                125,
                (1, 10_000),
                "capacity of an expert, in % of an even share; further tokens are dropped",
            ),
            Parameter::whole(
                "skew",
                20,
                (0, 100),
                "preference of tokens for the first experts, in %",
            ),
            Parameter::whole("cubes", 1, (1, 64), "cubes per SIP"),
            Parameter::whole("pes", 8, (1, 64), "PEs per cube"),
        ]
    }

    fn spans_sips(&self) -> bool {
        true
    }

    fn needs(&self, values: &Values, _: &Topology, _: u64) -> Needs {
        let [tokens, features, hidden, experts] =
            values.wholes(["tokens", "features", "hidden", "experts"]);
        // The sum of each token is initialised, rounded and stored, even if it is dropped.
        Needs::elements([2, tokens, features])
            + Needs::elements([2, experts, features, hidden])
            + Needs::commands([3, tokens])
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let problem = MoeProblem::new(lab, values)?;
        let inputs = problem.inputs();
        let sips = 0..lab.sips.len();
        let tensors: Vec<_> =
            sips.map(|sip| problem.place(&inputs, sip)).collect::<Result<_, _>>()?;
        let pes = problem.members(&tensors)?;
        let ring =
            RingConfig { slot_bytes: Bytes::new(2 * problem.features), ..RingConfig::default() };
        let wired = KernelChannels::new(&lab.launcher, &pes, &moe_wires(pes.len()), &ring)?;
        wired.use_on(&lab.launcher);
        let launches = lab.sips.iter().enumerate().map(|(index, &sip)| {
            let first = index as u64 * problem.of_sip();
            let numbers = vec![problem.features, problem.hidden, first];
            (sip, tensors[index].iter().collect(), numbers)
        });
        lab.launch_each(&moe(&problem.routing), launches.collect(), problem.cubes, problem.pes)?;
        let check = problem.check(&inputs, &tensors)?;
        Ok(Outcome {
            work: problem.work(&pes),
            check,
            notes: problem.notes(),
            ..Outcome::default()
        })
    }
}

impl<'l> MoeProblem<'l> {
    fn new(lab: &'l Lab, values: &Values) -> Result<Self, BenchError> {
        let [tokens, features, hidden, experts, top, capacity, cubes, pes] = values.wholes([
            "tokens", "features", "hidden", "experts", "top-k", "capacity", "cubes", "pes",
        ]);
        let ranks = lab.sips.len() as u64 * cubes * pes;
        multiple("tokens", tokens, ranks, "as many for each PE")?;
        multiple("experts", experts, ranks, "as many for each PE; or set cubes or pes")?;
        let top = top.min(experts);
        let capacity = (capacity * top * tokens).div_ceil(100 * experts).min(tokens);
        let wanted = router::wanted(tokens, experts, top, values.whole("skew"));
        let counts = [ranks, tokens / ranks, experts / ranks].map(size);
        let routing = Rc::new(Routing::new(&wanted, counts, size(capacity)));
        // An expert with its tokens, and the sums of the tokens that the PE owns.
        let of_expert = 4 * features * hidden + capacity * (8 * features + 12 * hidden);
        let what = format!("an expert of {features} × {hidden} and {capacity} tokens");
        let bytes = of_expert + 8 * features * (tokens / ranks);
        fits_tcm(lab, bytes, &what, "fewer tokens or features, or a smaller capacity")?;
        Ok(Self { lab, features, hidden, cubes, pes, routing })
    }

    /// Returns the number of PEs per SIP.
    fn of_sip(&self) -> u64 {
        self.cubes * self.pes
    }

    /// Returns the number of tokens and of experts, over all ranks.
    fn counts(&self) -> [u64; 2] {
        let Routing { ranks, tokens, experts, .. } = *self.routing;
        [tokens, experts].map(|each| (ranks * each) as u64)
    }

    fn inputs(&self) -> Inputs {
        let ([tokens, experts], Self { lab, features, hidden, .. }) = (self.counts(), self);
        let matrices = experts * features * hidden;
        Inputs {
            x: numbers(lab, tokens * features, 1),
            up: weights(lab, matrices, *features, 2),
            down: weights(lab, matrices, *hidden, 3),
        }
    }

    /// Places the tensors of a SIP: tokens, outputs, the two layers of its experts, and a buffer for their
    /// tokens.
    fn place(&self, inputs: &Inputs, sip: usize) -> Result<[Tensor; 5], RuntimeError> {
        let (lab, ranks, routing) = (self.lab, self.of_sip(), &self.routing);
        let rows =
            lab.placement_on(lab.sips[sip], Split::RowWise, Split::RowWise, self.cubes, self.pes);
        let [tokens, experts, room] =
            [routing.tokens, routing.experts, routing.experts * routing.capacity]
                .map(|count| count as u64 * self.features);
        let given = |all: &[f64], each: u64| {
            let part = size(ranks * each);
            let of_sip = all.get(sip * part..(sip + 1) * part).unwrap_or_default();
            place(lab, &[ranks, each], DType::F16, &rows, of_sip)
        };
        Ok([
            given(&inputs.x, tokens)?,
            lab.context.empty(&[ranks, tokens], DType::F16)?.to(&rows)?,
            given(&inputs.up, experts * self.hidden)?,
            given(&inputs.down, experts * self.hidden)?,
            lab.context.empty(&[ranks, room], DType::F16)?.to(&rows)?,
        ])
    }

    /// Returns the PEs in the order of ranks.
    fn members(&self, tensors: &[[Tensor; 5]]) -> Result<Vec<PeRef>, RuntimeError> {
        let mut pes = Vec::with_capacity(self.routing.ranks);
        for of_sip in tensors {
            pes.extend(of_sip[0].shards()?.iter().map(|shard| shard.at));
        }
        Ok(pes)
    }

    /// Checks the outputs. Hidden values, an expert's result and the output are each rounded to f16.
    fn check(&self, inputs: &Inputs, tensors: &[[Tensor; 5]]) -> Result<Option<Check>, BenchError> {
        if !self.lab.has_data {
            return Ok(None);
        }
        let (expected, largest) = self.expected(inputs);
        let tolerance = tolerance(3.25, largest, &expected);
        let mut check = None;
        let of_sip = expected.len() / tensors.len();
        for (tensors, expected) in tensors.iter().zip(expected.chunks_exact(of_sip)) {
            check = worse(check, self.lab.check(&tensors[1], tolerance, || expected.to_vec())?);
        }
        Ok(check)
    }

    /// Returns the expected outputs, and the largest sum of absolute values in any expert's result.
    fn expected(&self, inputs: &Inputs) -> (Vec<f64>, f64) {
        let [features, hidden] = [self.features, self.hidden].map(size);
        let mut expected = vec![0.0; inputs.x.len()];
        let mut largest = 0.0_f64;
        let matrix = |of: &[f64], expert: usize, columns: usize| {
            let each = features * hidden;
            transposed(&of[expert * each..(expert + 1) * each], columns)
        };
        let mut of_expert = BTreeMap::new();
        for choice in &self.routing.taken {
            let (up, down) = &*of_expert.entry(choice.expert).or_insert_with(|| {
                let up = matrix(&inputs.up, choice.expert, hidden);
                (up, matrix(&inputs.down, choice.expert, features))
            });
            let token = choice.token * features..(choice.token + 1) * features;
            let layers = Layers::new(
                Activation::Silu,
                [up, down, &inputs.x[token.clone()]],
                [self.features, self.hidden, 1],
            );
            largest = largest.max(layers.largest);
            let sums = expected[token].iter_mut().zip(&layers.outputs);
            sums.for_each(|(sum, answer)| *sum += choice.gate * answer);
        }
        (expected, largest)
    }

    /// Returns the work: experts with tokens are read once; tokens travel to each of their experts on other
    /// ranks and back.
    fn work(&self, pes: &[PeRef]) -> Work {
        let ([tokens, experts], Self { features, hidden, routing, .. }) = (self.counts(), self);
        let taken = routing.taken.len() as u64;
        let used = (0..size(experts)).filter(|&expert| routing.load(expert) > 0).count() as u64;
        let load = (0..size(experts)).map(|expert| routing.load(expert)).max().unwrap_or(0) as u64;
        let deepest = *features.max(hidden);
        // To the expert and back.
        let moved = |from: usize, to: usize| {
            let count = routing.between(from, to).count() + routing.between(to, from).count();
            2 * features * count as u64
        };
        Work {
            gemm: Some((DType::F16, 4 * taken * features * hidden)),
            largest: Some([load, deepest, deepest]),
            // The activation is a special operation; answers are weighted and added.
            elements: taken * (hidden * special(self.lab) + features),
            // Hidden features and answers, in f16.
            results: 2 * taken * (hidden + features),
            bytes: 4 * used * features * hidden + 2 * features * (taken + tokens),
            links: links_between(self.lab, pes, moved),
            ..Work::default()
        }
    }

    fn notes(&self) -> Vec<String> {
        let Routing { capacity, dropped, ref taken, .. } = *self.routing;
        let [tokens, experts] = self.counts();
        let loads: Vec<_> = (0..size(experts)).map(|expert| self.routing.load(expert)).collect();
        let (least, most) = (loads.iter().min(), loads.iter().max());
        let (least, most) = (least.copied().unwrap_or(0), most.copied().unwrap_or(0));
        let all = taken.len() + dropped;
        vec![format!(
            "{tokens} tokens made {all} choices; experts have {least} to {most} of at most {capacity}, and {dropped} were dropped"
        )]
    }
}

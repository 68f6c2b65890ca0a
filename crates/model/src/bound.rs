//! Data and operations that a part requires in any implementation, and the minimum times that follow.

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_sim::Span;

use super::cut::{Cut, Phase};
use super::part::StepPart;
use super::spec::Experts;
use super::timeline::per_layer;

/// Data and operations that a part requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Bytes of weights, cache and table that must be read, over all PEs.
    pub bytes: u64,
    /// Floating-point operations of matrix products.
    pub flop: u64,
}

/// Combined peak rates of all PEs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    /// Memory bandwidth, in bytes per second.
    pub(super) memory: f64,
    /// FLOP/s of the matrix units; 0 if they have no rate for the type.
    pub(super) gemm: f64,
    /// FLOP/s of the matrix units in attention, which multiplies in the type of the caches.
    attention: f64,
}

impl Rates {
    pub(super) fn new(cut: &Cut, topology: &Topology) -> Self {
        let rates = &topology.spec().pe.core.gemm.rates;
        let rate = |dtype: DType| rates.get(dtype.name()).copied().unwrap_or_default();
        let all = cut.all() as f64;
        Self {
            memory: all * topology.spec().hbm.peak_bytes_per_second(),
            gemm: all * rate(cut.work.dtype) as f64,
            attention: all * rate(cut.work.kv_type()) as f64,
        }
    }

    /// Returns the minimum times that memory and the matrix units allow for a part.
    pub(super) fn least_of(&self, part: StepPart, demand: Demand) -> [Span; 2] {
        let gemm = if part == StepPart::Attention { self.attention } else { self.gemm };
        Self { gemm, ..*self }.least(demand)
    }

    /// Returns the minimum times that memory and the matrix units allow.
    pub(super) fn least(&self, demand: Demand) -> [Span; 2] {
        let span = |amount: u64, rate: f64| match amount {
            0 => Span::ZERO,
            amount => Span::from_ns(amount as f64 / rate * 1e9).unwrap_or(Span::MAX),
        };
        [span(demand.bytes, self.memory), span(demand.flop, self.gemm)]
    }
}

impl Cut {
    /// Returns the demand of a part in a step that begins at a position. Padding does not count.
    pub fn demand(&self, part: StepPart, position: u64) -> Demand {
        demand(self, part, position)
    }

    /// Returns the parts of all kinds of layers, each with the index of its kind and its number of runs over all layers
    /// and steps. Parts outside the layers belong to the first kind.
    pub(super) fn part_runs(&self) -> Vec<(usize, StepPart, u64)> {
        let of_kind = |(kind, cut): (usize, &Self)| {
            let mut parts = StepPart::layer(cut);
            if kind == 0 {
                parts.extend(self.ends.has_embedding.then_some(StepPart::Embedding));
                parts.extend(self.ends.has_head.then_some(StepPart::Head));
            }
            parts.sort();
            parts.dedup();
            let runs = move |part| {
                let outside = if kind == 0 { cut.runs_outside(part) } else { 0 };
                (kind, part, per_layer(part, cut) * cut.layers * cut.steps() + outside)
            };
            parts.into_iter().map(runs).collect::<Vec<_>>()
        };
        self.kinds().enumerate().flat_map(of_kind).collect()
    }

    /// Returns the number of runs of a part outside the layers, over all steps.
    pub(super) fn runs_outside(&self, part: StepPart) -> u64 {
        match part {
            StepPart::Embedding => self.steps(),
            StepPart::Norm | StepPart::Head if self.ends.has_head => self.rounds(),
            _ => 0,
        }
    }

    /// Returns the demand of `count` runs of a part, equally many at each position; the head runs only at the last one.
    pub(super) fn all_demand(&self, part: StepPart, count: u64) -> Demand {
        let positions = if part == StepPart::Head { 1 } else { self.positions() };
        let demands = (0..positions).map(|at| self.demand(part, at * self.each));
        let (bytes, flop) = demands.fold((0, 0), |(bytes, flop): (u64, u64), demand| {
            (bytes.saturating_add(demand.bytes), flop.saturating_add(demand.flop))
        });
        let each = count / positions;
        Demand { bytes: bytes.saturating_mul(each), flop: flop.saturating_mul(each) }
    }

    /// Returns the minimum time of all steps: of each part its own bound, one after the other.
    pub(super) fn bound(&self, topology: &Topology) -> Span {
        let (rates, cuts) = (Rates::new(self, topology), self.kinds().collect::<Vec<_>>());
        let bound = |(kind, part, count): (usize, StepPart, u64)| {
            let [memory, gemm] = rates.least_of(part, cuts[kind].all_demand(part, count));
            memory.max(gemm)
        };
        let own: Span = self.part_runs().into_iter().map(bound).sum();
        self.rest.as_deref().map_or(own, |rest| own + rest.bound(topology))
    }

    /// Returns the number of rows of logits of a step; none without a head.
    pub(super) fn logit_rows(&self) -> u64 {
        if self.ends.has_head { self.sequences } else { 0 }
    }
}

fn demand(cut: &Cut, part: StepPart, position: u64) -> Demand {
    let (spec, element, tokens) = (&cut.spec, cut.work.dtype.size(), cut.real_tokens(position));
    let narrow = cut.work.weights.size();
    let product =
        |weights: u64, tokens: u64| Demand { bytes: weights * narrow, flop: 2 * weights * tokens };
    match part {
        StepPart::Embedding => Demand { bytes: tokens * spec.hidden * element, flop: 0 },
        StepPart::Norm
        | StepPart::Append
        | StepPart::AllReduce
        | StepPart::PostNorm
        | StepPart::Add => Demand::default(),
        StepPart::Qkv => {
            product(spec.hidden * (spec.heads + 2 * spec.kv_heads) * spec.head_dim, tokens)
        }
        StepPart::Attention => attention(cut, position),
        StepPart::Output => product(spec.heads * spec.head_dim * spec.hidden, tokens),
        StepPart::Router => {
            let weights = spec.hidden * cut.experts();
            Demand { bytes: weights * element, flop: 2 * weights * tokens }
        }
        StepPart::GateUp => experts(cut, 2 * spec.hidden * spec.ffn, tokens),
        StepPart::Down => experts(cut, spec.ffn * spec.hidden, tokens),
        StepPart::Head => {
            let weights = spec.hidden * spec.vocab;
            Demand { bytes: weights * element, flop: 2 * weights * cut.sequences }
        }
        StepPart::Layer => layer(cut, position),
    }
}

/// Returns the demand of all parts of a layer.
fn layer(cut: &Cut, position: u64) -> Demand {
    let parts = StepPart::layer(cut).into_iter().map(|part| demand(cut, part, position));
    parts.fold(Demand::default(), |sum, part| Demand {
        bytes: sum.bytes + part.bytes,
        flop: sum.flop + part.flop,
    })
}

/// Returns the demand of a product of the feed-forward part: each expert in use is read once, and each token is
/// multiplied only by its own experts and by those that all tokens share.
fn experts(cut: &Cut, weights: u64, tokens: u64) -> Demand {
    let (experts, shared) = (cut.spec.family.experts, cut.spec.family.shared_experts);
    let of = |experts: Experts| [experts.used(tokens) + shared, experts.active + shared];
    let [used, active] = experts.map_or([1; 2], of);
    let bytes = used * cut.ffn_bytes(weights);
    Demand { bytes, flop: 2 * weights * active * tokens }
}

/// Returns the demand of attention: each token uses the keys and values of its predecessors and its own, but each of
/// these is read only once.
fn attention(cut: &Cut, position: u64) -> Demand {
    let (spec, sequences) = (&cut.spec, cut.sequences);
    let (seen, pairs) = match cut.work.phase {
        Phase::Decode => (cut.seen(), cut.seen()),
        Phase::Prefill => {
            let end = (position + cut.each).min(cut.work.context);
            let new = end - position.min(end);
            let hidden: u64 = match cut.window {
                Some(_) => (position..end).map(|token| cut.first_seen(token)).sum(),
                None => 0,
            };
            (end - cut.first_seen(position).min(end), new * position + new * (new + 1) / 2 - hidden)
        }
    };
    let features = 2 * spec.kv_heads * spec.head_dim;
    Demand {
        bytes: sequences * seen * features * cut.work.kv_type().size(),
        flop: 4 * sequences * pairs * spec.heads * spec.head_dim,
    }
}

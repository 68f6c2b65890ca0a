//! Tensors of a model on a machine.

use std::rc::Rc;

use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, RuntimeError, Tensor};

use super::cut::Cut;
use super::error::ModelError;
use super::layout::Held;
use super::memory::{Memory, Use};
use super::part::StepPart;

/// Function that returns the initial contents of a tensor on a SIP, row by row; `None` for zeros. Without a
/// function, nothing is written.
pub type Contents<'a> = &'a dyn Fn(Held, u64) -> Option<Vec<f64>>;

/// Tensors of a SIP.
#[derive(Debug)]
pub struct SipTensors {
    /// SIP that holds the tensors.
    pub sip: SipId,
    /// Hidden states of the tokens, between layers.
    pub tokens: Tensor,
    pub(super) weights: Rc<Weights>,
    pub(super) keys: Tensor,
    pub(super) values: Tensor,
    pub(super) buffers: Buffers,
}

#[derive(Debug)]
pub(super) struct Weights {
    pub(super) qkv: Tensor,
    pub(super) output: Tensor,
    pub(super) gate_up: Tensor,
    pub(super) down: Tensor,
    pub(super) head: Tensor,
    pub(super) table: Tensor,
    pub(super) router: Option<Tensor>,
    pub(super) qkv_bias: Option<Tensor>,
    pub(super) head_norms: Option<Tensor>,
    pub(super) post_norms: Option<Tensor>,
    /// Scales of Q, K and V, output, gate and up, and down, if the weights are quantised.
    pub(super) scales: Option<[Tensor; 4]>,
}

/// Buffers between the parts of a layer.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) sums: Tensor,
    pub(super) angles: Tensor,
    pub(super) qkv: Tensor,
    pub(super) attended: Tensor,
    pub(super) logarithms: Tensor,
    pub(super) inner: Tensor,
    pub(super) partial: Tensor,
    /// Sums of the cubes' partial results, if they are normalised before they are added to the tokens.
    pub(super) reduced: Option<Tensor>,
    /// Weights of the experts for each token.
    pub(super) routes: Option<Tensor>,
    /// Sums of squares of `reduced`.
    pub(super) post_sums: Option<Tensor>,
    pub(super) logits: Tensor,
}

impl SipTensors {
    /// Returns the tensor to which all-reduces write.
    pub(super) fn sum(&self) -> &Tensor {
        self.buffers.reduced.as_ref().unwrap_or(&self.tokens)
    }

    /// Returns the sums of squares of the results of all-reduces, if they are normalised.
    pub(super) fn post_sums(&self) -> &Tensor {
        self.buffers.post_sums.as_ref().unwrap_or(&self.buffers.sums)
    }

    /// Returns the weights of the router; an arbitrary tensor if there are none.
    pub(super) fn router(&self) -> &Tensor {
        self.weights.router.as_ref().unwrap_or(&self.tokens)
    }

    /// Returns the expert weights of each token; an arbitrary tensor if there are none.
    pub(super) fn routes(&self) -> &Tensor {
        self.buffers.routes.as_ref().unwrap_or(&self.buffers.logarithms)
    }

    /// Returns the trailing arguments of a part's kernel, which depend on the model.
    pub(super) fn extras(&self, part: StepPart) -> Vec<&Tensor> {
        let weights = &self.weights;
        let scales = |index: usize| weights.scales.as_ref().map(|scales| &scales[index]);
        let (scales, more) = match part {
            StepPart::Qkv => (scales(0), weights.qkv_bias.as_ref()),
            StepPart::Output => (scales(1), None),
            StepPart::GateUp => (scales(2), None),
            StepPart::Down => (scales(3), None),
            StepPart::Append | StepPart::Attention => (None, weights.head_norms.as_ref()),
            _ => (None, None),
        };
        scales.into_iter().chain(more).collect()
    }
}

/// Tensors of all SIPs, and their memory use.
#[derive(Debug)]
pub struct Tensors {
    /// Tensors of each SIP.
    pub sips: Vec<SipTensors>,
    /// Tensors of each SIP for the remaining sequences, with the same weights; empty if no sequences remain.
    pub rest: Vec<SipTensors>,
    /// Memory use per PE.
    pub memory: Memory,
}

#[derive(Clone, Copy)]
struct Maker<'a> {
    context: &'a Context,
    cut: &'a Cut,
    contents: Option<Contents<'a>>,
    sip: SipId,
    number: u64,
}

impl Tensors {
    /// Allocates all tensors of a model on the given SIPs.
    pub fn new(
        context: &Context,
        cut: &Cut,
        sips: &[SipId],
        contents: Option<Contents<'_>>,
    ) -> Result<Self, ModelError> {
        let of = |cut| {
            let maker = move |(number, &sip)| Maker { context, cut, contents, sip, number };
            (0..).zip(sips).map(maker)
        };
        let first: Vec<_> = of(cut).collect();
        // Remaining sequences have separate caches and buffers.
        let rest = cut.rest.as_deref().into_iter().flat_map(of);
        let all: Vec<_> = first.iter().copied().chain(rest).collect();
        let mut meter = Meter { context, cut, used: Vec::new() };
        let weights =
            meter.metered("the weights", &first, |maker| Ok(Rc::new(maker.weights()?)))?;
        let caches = meter.metered("the caches of K and V", &all, Maker::caches)?;
        let buffers = meter.metered("the activations", &all, Maker::buffers)?;
        let weights = weights.iter().cycle().zip(sips.iter().cycle());
        let of_sip = |((weights, &sip), ((keys, values), (tokens, buffers)))| {
            let weights = Rc::clone(weights);
            SipTensors { sip, tokens, weights, keys, values, buffers }
        };
        let tensors = weights.zip(caches.into_iter().zip(buffers)).map(of_sip);
        let mut tensors: Vec<SipTensors> = tensors.collect();
        let rest = tensors.split_off(sips.len());
        Ok(Self { sips: tensors, rest, memory: meter.memory() })
    }
}

/// Records the memory use of allocations.
struct Meter<'a> {
    context: &'a Context,
    cut: &'a Cut,
    /// Bytes in use by PE, after each kind of allocation.
    used: Vec<Vec<u64>>,
}

impl Meter<'_> {
    fn metered<'m, T>(
        &mut self,
        what: &'static str,
        makers: &[Maker<'m>],
        make: impl Fn(&Maker<'m>) -> Result<T, RuntimeError>,
    ) -> Result<Vec<T>, ModelError> {
        let all: Result<Vec<_>, _> = makers.iter().map(make).collect();
        let stats = self.context.memory_stats();
        self.used.push(stats.pes.iter().map(|pe| pe.used.get()).collect());
        all.map_err(|source| match source {
            RuntimeError::Allocate(_) => {
                let (model, source) = (self.cut.spec.name.clone(), Box::new(source));
                ModelError::DoesNotFit { model, what, source }
            }
            other => other.into(),
        })
    }

    /// Returns the memory use of each kind of allocation.
    fn memory(&self) -> Memory {
        let none = vec![0; self.used.last().map_or(0, Vec::len)];
        let befores = std::iter::once(&none).chain(&self.used);
        let uses: Vec<Use> = befores
            .zip(&self.used)
            .map(|(before, after)| {
                Use::of(
                    after
                        .iter()
                        .enumerate()
                        .map(|(pe, used)| used - before.get(pe).copied().unwrap_or_default()),
                )
            })
            .collect();
        let stats = self.context.memory_stats();
        let total = Use::of(stats.pes.iter().map(|pe| pe.used.get()));
        let capacity = stats.pes.first().map_or(0, |pe| (pe.used + pe.free).get());
        Memory { weights: uses[0], cache: uses[1], activations: uses[2], total, capacity }
    }
}

impl Maker<'_> {
    /// Creates a buffer of which each PE of the SIP holds `rows` rows.
    fn sharded(&self, rows: u64, columns: u64) -> Result<Tensor, RuntimeError> {
        let all = self.cut.cubes * self.cut.pes * rows;
        self.place([all, columns], self.cut.work.dtype, [Split::RowWise; 2], None)
    }

    /// Creates a buffer with a copy in each cube, of which each PE holds `rows` rows.
    fn shared(&self, rows: u64, columns: u64, dtype: DType) -> Result<Tensor, RuntimeError> {
        let splits = [Split::Replicate, Split::RowWise];
        self.place([self.cut.pes * rows, columns], dtype, splits, None)
    }

    /// Creates a tensor of the model, with its initial contents.
    fn held(&self, held: Held) -> Result<Tensor, RuntimeError> {
        let (cut, [rows, columns]) = (self.cut, self.cut.shape(held));
        let [cubes, pes] = cut.holders(held);
        let shape = [cubes * pes * cut.layers_of(held) * rows, columns];
        self.place(shape, cut.dtype_of(held), Cut::splits(held), Some(held))
    }

    fn place(
        &self,
        shape: [u64; 2],
        dtype: DType,
        [cube, pe]: [Split; 2],
        held: Option<Held>,
    ) -> Result<Tensor, RuntimeError> {
        let over = Placement { cube, pe, sips: vec![self.sip], ..Placement::default() };
        let contents = held.zip(self.contents).map(|(held, contents)| contents(held, self.number));
        let tensor = match contents {
            Some(Some(values)) => self.context.from_slice(&shape, &values)?.to_dtype(dtype)?,
            Some(None) => self.context.zeros(&shape, dtype)?,
            None => self.context.empty(&shape, dtype)?,
        };
        tensor.to(&over)
    }

    fn weights(&self) -> Result<Weights, RuntimeError> {
        let (cut, family) = (self.cut, self.cut.spec.family);
        let optional = |has: bool, held| has.then(|| self.held(held)).transpose();
        Ok(Weights {
            qkv: self.held(Held::Qkv)?,
            output: self.held(Held::Output)?,
            gate_up: self.held(Held::GateUp)?,
            down: self.held(Held::Down)?,
            head: self.held(Held::Head)?,
            table: self.held(Held::Table)?,
            router: optional(cut.routing.is_some(), Held::Router)?,
            qkv_bias: optional(family.has_qkv_bias, Held::QkvBias)?,
            head_norms: optional(family.has_qk_norm, Held::HeadNorms)?,
            post_norms: optional(family.has_post_norms, Held::PostNorms)?,
            scales: cut.is_quantised().then(|| self.scales()).transpose()?,
        })
    }

    /// Creates the scales of quantised weights: one for each column of each layer.
    fn scales(&self) -> Result<[Tensor; 4], RuntimeError> {
        Ok([
            self.held(Held::QkvScales)?,
            self.held(Held::OutputScales)?,
            self.held(Held::GateUpScales)?,
            self.held(Held::DownScales)?,
        ])
    }

    fn caches(&self) -> Result<(Tensor, Tensor), RuntimeError> {
        Ok((self.held(Held::Keys)?, self.held(Held::Values)?))
    }

    fn buffers(&self) -> Result<(Tensor, Buffers), RuntimeError> {
        let (cut, dtype) = (self.cut, self.cut.work.dtype);
        let (tokens, group) = (cut.tokens(), cut.group_cubes);
        let shared = |rows, columns| self.shared(rows, columns, dtype);
        let wide = |rows, columns| self.shared(rows, columns, DType::F32);
        let units = group * cut.unit_rows();
        let buffers = Buffers {
            sums: wide(tokens, 1)?,
            angles: self.held(Held::Angles)?,
            qkv: shared(group * tokens, cut.qkv())?,
            attended: shared(units, cut.attended())?,
            logarithms: wide(units, cut.heads.share)?,
            inner: shared(cut.inner_rows(), cut.inner())?,
            partial: shared(tokens, cut.slice())?,
            post_sums: (cut.spec.family.has_post_norms).then(|| wide(tokens, 1)).transpose()?,
            reduced: (cut.spec.family.has_post_norms)
                .then(|| shared(tokens, cut.slice()))
                .transpose()?,
            routes: (cut.routing.is_some())
                .then(|| wide(cut.routed(), cut.experts()))
                .transpose()?,
            logits: self.sharded(cut.logit_rows(), cut.words())?,
        };
        Ok((self.held(Held::Tokens)?, buffers))
    }
}

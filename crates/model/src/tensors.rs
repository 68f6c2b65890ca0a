//! Tensors of a model on a machine.

mod meter;

use std::cell::RefCell;
use std::rc::Rc;

use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, RuntimeError, Tensor};

use super::cut::Cut;
use super::error::ModelError;
use super::layout::Held;
use super::memory::Memory;
use super::part::StepPart;
use meter::Meter;

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
    /// Exponents of gate and up, and of down, if the weights of experts are in MXFP4.
    pub(super) exponents: Option<[Tensor; 2]>,
}

/// Buffers between the parts of a layer.
#[derive(Clone, Debug)]
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
        let exponents = |index: usize| weights.exponents.as_ref().map(|all| &all[index]);
        let (scales, more) = match part {
            StepPart::Qkv => (scales(0), weights.qkv_bias.as_ref()),
            StepPart::Output => (scales(1), None),
            StepPart::GateUp => (exponents(0).or(scales(2)), None),
            StepPart::Down => (exponents(1).or(scales(3)), None),
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
    /// Tensors for the layers of other kinds, in the order of [`Cut::others`]. Tokens, table and head are those of the
    /// first kind, as are buffers of the same shape.
    pub others: Vec<KindTensors>,
    /// Memory use per PE.
    pub memory: Memory,
}

/// Tensors for the layers of one kind.
#[derive(Debug)]
pub struct KindTensors {
    /// Tensors of each SIP.
    pub sips: Vec<SipTensors>,
    /// Tensors of each SIP for the remaining sequences.
    pub rest: Vec<SipTensors>,
}

#[derive(Clone, Copy)]
struct Maker<'a> {
    context: &'a Context,
    cut: &'a Cut,
    contents: Option<Contents<'a>>,
    sip: SipId,
    number: u64,
    /// Whether the tensors are for the remaining sequences.
    is_rest: bool,
}

/// Sequences and layers to which buffers belong.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot {
    number: u64,
    is_rest: bool,
    ffn: [u64; 4],
}

impl Slot {
    /// Returns whether the buffers belong to the same sequences on the same SIP.
    fn is_beside(&self, other: &Self) -> bool {
        (self.number, self.is_rest) == (other.number, other.is_rest)
    }
}

impl Tensors {
    /// Allocates all tensors of a model on the given SIPs.
    pub fn new(
        context: &Context,
        cut: &Cut,
        sips: &[SipId],
        contents: Option<Contents<'_>>,
    ) -> Result<Self, ModelError> {
        let of = |cut, is_rest| {
            let maker =
                move |(number, &sip)| Maker { context, cut, contents, sip, number, is_rest };
            (0..).zip(sips).map(maker)
        };
        let first: Vec<_> = cut.kinds().flat_map(|cut| of(cut, false)).collect();
        // Remaining sequences have separate caches and buffers.
        let rests = cut.rest.as_deref().map(|rest| rest.kinds().collect::<Vec<_>>());
        let rest_of = |kind: usize| rests.as_ref().map(|rests| rests[kind]);
        let with_rest = |(kind, cut)| {
            of(cut, false).chain(rest_of(kind).into_iter().flat_map(|rest| of(rest, true)))
        };
        let all: Vec<_> = cut.kinds().enumerate().flat_map(with_rest).collect();
        let mut meter = Meter { context, cut, used: Vec::new() };
        let tables = RefCell::new(Vec::new());
        let weights = meter.metered("the weights", &first, |maker| maker.weights(&tables))?;
        let caches = meter.metered("the caches of K and V", &all, Maker::caches)?;
        let known = RefCell::new(Vec::new());
        let buffers =
            meter.metered("the activations", &all, |maker| maker.shared_buffers(&known))?;
        let mut made = caches.into_iter().zip(buffers);
        let mut of_sips = |weights: &[Rc<Weights>]| -> Vec<SipTensors> {
            let of_sip = |(weights, &sip)| {
                let weights = Rc::clone(weights);
                let ((keys, values), (tokens, buffers)) = made.next().expect("one for each SIP");
                SipTensors { sip, tokens, weights, keys, values, buffers }
            };
            weights.iter().zip(sips).map(of_sip).collect()
        };
        let of_kind = |weights| {
            let sips = of_sips(weights);
            let rest = if cut.rest.is_some() { of_sips(weights) } else { Vec::new() };
            KindTensors { sips, rest }
        };
        let mut others: Vec<_> = weights.chunks(sips.len().max(1)).map(of_kind).collect();
        let KindTensors { sips, rest } = others.remove(0);
        Ok(Self { sips, rest, others, memory: meter.memory() })
    }

    /// Returns the tensors of all kinds of layers: of the first sequences, or of the remaining ones.
    pub(super) fn kinds(&self, is_rest: bool) -> Vec<&[SipTensors]> {
        let sequences = |(sips, rest)| if is_rest { rest } else { sips };
        let others = self.others.iter().map(|kind| (&kind.sips[..], &kind.rest[..]));
        std::iter::once((&self.sips[..], &self.rest[..])).chain(others).map(sequences).collect()
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

    /// Creates the weights of a kind of layers. Head and table are those of the first kind on the same SIP, which
    /// `tables` collects.
    fn weights(&self, tables: &RefCell<Vec<[Tensor; 2]>>) -> Result<Rc<Weights>, RuntimeError> {
        let known = tables.borrow().get(self.index()).cloned();
        let weights = self.weights_with(known)?;
        if tables.borrow().len() == self.index() {
            tables.borrow_mut().push([weights.head.clone(), weights.table.clone()]);
        }
        Ok(Rc::new(weights))
    }

    /// Returns the number of the SIP as an index.
    fn index(&self) -> usize {
        usize::try_from(self.number).expect("few SIPs")
    }

    fn weights_with(&self, known: Option<[Tensor; 2]>) -> Result<Weights, RuntimeError> {
        let (cut, family) = (self.cut, self.cut.spec.family);
        let optional = |has: bool, held| has.then(|| self.held(held)).transpose();
        let [qkv, output, gate_up, down] = [
            self.held(Held::Qkv)?,
            self.held(Held::Output)?,
            self.held(Held::GateUp)?,
            self.held(Held::Down)?,
        ];
        let [head, table] = match known {
            Some(known) => known,
            None => [self.held(Held::Head)?, self.held(Held::Table)?],
        };
        Ok(Weights {
            qkv,
            output,
            gate_up,
            down,
            head,
            table,
            router: optional(cut.routing.is_some(), Held::Router)?,
            qkv_bias: optional(family.has_qkv_bias, Held::QkvBias)?,
            head_norms: optional(family.has_qk_norm, Held::HeadNorms)?,
            post_norms: optional(family.has_post_norms, Held::PostNorms)?,
            scales: cut.is_quantised().then(|| self.scales()).transpose()?,
            exponents: cut.is_packed().then(|| self.exponents()).transpose()?,
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

    /// Creates the exponents of blocks of weights in MXFP4.
    fn exponents(&self) -> Result<[Tensor; 2], RuntimeError> {
        Ok([self.held(Held::GateUpExponents)?, self.held(Held::DownExponents)?])
    }

    fn caches(&self) -> Result<(Tensor, Tensor), RuntimeError> {
        Ok((self.held(Held::Keys)?, self.held(Held::Values)?))
    }

    /// Creates the buffers of a kind of layers. Those of the same shape are shared with the kinds in `known`.
    fn shared_buffers(
        &self,
        known: &RefCell<Vec<(Slot, Tensor, Buffers)>>,
    ) -> Result<(Tensor, Buffers), RuntimeError> {
        let slot = Slot { number: self.number, is_rest: self.is_rest, ffn: self.ffn_shape() };
        let found = known.borrow().iter().find(|(it, ..)| it.is_beside(&slot)).cloned();
        let same = known.borrow().iter().find(|(it, ..)| *it == slot).cloned();
        let (tokens, buffers) = match (same, found) {
            (Some((_, tokens, buffers)), _) => return Ok((tokens, buffers)),
            (None, Some((_, tokens, buffers))) => {
                (tokens, Buffers { inner: self.inner()?, routes: self.routes()?, ..buffers })
            }
            (None, None) => self.buffers()?,
        };
        known.borrow_mut().push((slot, tokens.clone(), buffers.clone()));
        Ok((tokens, buffers))
    }

    /// Returns the shapes of the buffers that kinds of layers may not share: rows and columns of inner features, and of
    /// the weights of experts.
    fn ffn_shape(&self) -> [u64; 4] {
        let cut = self.cut;
        let routes = cut.routing.map_or([0; 2], |_| [cut.routed(), cut.experts()]);
        [cut.inner_rows(), cut.inner(), routes[0], routes[1]]
    }

    /// Creates the buffer of inner features.
    fn inner(&self) -> Result<Tensor, RuntimeError> {
        self.shared(self.cut.inner_rows(), self.cut.inner(), self.cut.work.dtype)
    }

    /// Creates the buffer of the experts' weights for each token, if there are experts.
    fn routes(&self) -> Result<Option<Tensor>, RuntimeError> {
        let [rows, columns] = [self.cut.routed(), self.cut.experts()];
        self.cut.routing.is_some().then(|| self.shared(rows, columns, DType::F32)).transpose()
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
            inner: self.inner()?,
            partial: shared(tokens, cut.slice())?,
            post_sums: (cut.spec.family.has_post_norms).then(|| wide(tokens, 1)).transpose()?,
            reduced: (cut.spec.family.has_post_norms)
                .then(|| shared(tokens, cut.slice()))
                .transpose()?,
            routes: self.routes()?,
            logits: self.sharded(cut.logit_rows(), cut.words())?,
        };
        Ok((self.held(Held::Tokens)?, buffers))
    }
}

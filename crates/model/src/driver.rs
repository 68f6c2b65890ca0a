//! Launches of the parts of a step, in order on each SIP.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_runtime::{
    Argument, Channels, Context, Launch, LaunchHandle, LaunchReport, Stream, Tensor,
};

use super::cut::Cut;
use super::error::ModelError;
use super::kernels;
use super::part::StepPart;
use super::tensors::{Buffers, SipTensors, Tensors};
use super::wiring::{channels, ring, signs, within_cubes};
use cubeyard_collectives::collective::{Algorithm, Operation, ReduceOp};
use cubeyard_collectives::distributed::{CclConfig, DistError, Group, GroupConfig, Pending, Ranks};
use cubeyard_memory::address::SipId;
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::Launcher;

/// Collective that adds up the cubes' partial results.
const SUM: Operation = Operation::AllReduce(ReduceOp::Sum);

/// Part that has been run, with its reports.
#[derive(Clone, Debug)]
pub struct PartRun {
    /// Part of the step.
    pub part: StepPart,
    /// Report of each launch, by SIP.
    pub launches: Vec<LaunchReport>,
}

enum Begun {
    Kernel(Vec<LaunchHandle>),
    Collective(Pending),
}

/// Launches the parts of a step.
pub struct Driver<'a> {
    launcher: &'a Launcher,
    /// Distribution and tensors of each kind of layers.
    kinds: Vec<(Rc<Cut>, &'a [SipTensors])>,
    /// Kind of the layers whose parts are launched.
    kind: usize,
    streams: Vec<Stream>,
    group: Group,
    /// Channels between the cubes that share a head and, once a layer is one launch, between the PEs of a cube. Their
    /// ports belong to the group's number.
    channels: Vec<Channels>,
    begun: Vec<(StepPart, Begun)>,
    /// Number of results added to the tokens so far: attention and feed-forward results in turn.
    added: Cell<u64>,
    /// Kernels of the parts run so far, kept so that their recordings are reused.
    kernels: RefCell<BTreeMap<(usize, StepPart), Kernel>>,
}

impl<'a> Driver<'a> {
    /// Creates a driver, and connects the cubes by channels. Parts belong to the first kind of layers, until
    /// [`use_kind`](Self::use_kind) selects another.
    pub fn new(
        launcher: &'a Launcher,
        cut: &Rc<Cut>,
        tensors: &'a Tensors,
    ) -> Result<Self, ModelError> {
        Self::over(launcher, cut, &tensors.kinds(false))
    }

    /// Creates a driver for the given tensors of each kind of layers and SIP, and connects the cubes by channels.
    pub(super) fn over(
        launcher: &'a Launcher,
        cut: &Rc<Cut>,
        tensors: &[&'a [SipTensors]],
    ) -> Result<Self, ModelError> {
        let context = launcher.context();
        let others = cut.others.iter().map(|cut| Rc::new(cut.clone()));
        let cuts = std::iter::once(Rc::clone(cut)).chain(others);
        let sips: Vec<_> = tensors[0].iter().map(|of_sip| of_sip.sip).collect();
        let streams = sips.iter().map(|_| context.stream()).collect();
        let (algorithm, config) = all_reduce(context, cut, &sips)?;
        let number = launcher.new_group().ok_or(DistError::Exhausted)?;
        let group = Group::new(context, &config, algorithm, number)?;
        let channels = context.connect(&channels(context, cut, &sips, number), &ring(cut))?;
        Ok(Self {
            launcher,
            kinds: cuts.zip(tensors.iter().copied()).collect(),
            kind: 0,
            streams,
            group,
            channels: vec![channels],
            begun: Vec::new(),
            added: Cell::default(),
            kernels: RefCell::default(),
        })
    }

    /// Returns the name of the all-reduce algorithm.
    pub fn algorithm(&self) -> &'static str {
        self.group.algorithm()
    }

    /// Selects the kind of layers to which the following parts belong, as an index of [`Cut::kinds`].
    ///
    /// # Panics
    ///
    /// Panics if there is no such kind.
    pub fn use_kind(&mut self, kind: usize) {
        assert!(kind < self.kinds.len(), "kind {kind} of {}", self.kinds.len());
        self.kind = kind;
    }

    /// Returns the distribution of the selected kind of layers.
    fn cut(&self) -> &Rc<Cut> {
        &self.kinds[self.kind].0
    }

    /// Returns the tensors of the selected kind of layers on each SIP.
    fn sips(&self) -> &'a [SipTensors] {
        self.kinds[self.kind].1
    }

    /// Launches a part on every SIP, after the earlier launches on that SIP. `layer` selects the weights, and
    /// `position` is the start of the step in its sequences.
    pub fn order(&mut self, part: StepPart, layer: u64, position: u64) -> Result<(), ModelError> {
        let begun = if part == StepPart::AllReduce {
            let tensors = self.sips().iter().map(|sip| (&sip.buffers.partial, sip.sum()));
            let tensors: Vec<_> = tensors.collect();
            let pending = self.group.begin_on(self.launcher, &self.streams, SUM, &tensors)?;
            Begun::Collective(pending)
        } else {
            if part == StepPart::Layer {
                self.connect_pes()?;
            }
            Begun::Kernel(self.launch(part, layer, position)?)
        };
        self.begun.push((part, begun));
        Ok(())
    }

    fn launch(
        &self,
        part: StepPart,
        layer: u64,
        position: u64,
    ) -> Result<Vec<LaunchHandle>, ModelError> {
        let mut kernels = self.kernels.borrow_mut();
        let kernel = kernels.entry((self.kind, part)).or_insert_with(|| self.kernel(part)).clone();
        drop(kernels);
        self.launcher.use_group(self.group.number());
        let (mut handles, parts) = (Vec::new(), self.parts(part));
        for (index, (sip, stream)) in self.sips().iter().zip(&self.streams).enumerate() {
            let mut launch = Launch::new(sip.sip);
            let mut added = self.added.get();
            for &part in &parts {
                let norm = 2 * layer + added % 2;
                launch = launch.arguments(self.arguments(part, index, [layer, position, norm]));
                added += u64::from(part == StepPart::Add);
            }
            handles.push(self.launcher.launch(stream, &kernel, &launch)?);
        }
        let adds = parts.iter().filter(|part| **part == StepPart::Add).count();
        self.added.set(self.added.get() + adds as u64);
        Ok(handles)
    }

    /// Connects the PEs of each cube by channels, unless already done.
    fn connect_pes(&mut self) -> Result<(), ModelError> {
        if self.channels.len() == 1 {
            let (context, number) = (self.launcher.context(), self.group.number());
            let all = within_cubes(context, self.group.sips(), number);
            self.channels.push(context.connect(&all, &signs())?);
        }
        Ok(())
    }

    /// Returns the parts that a launch consists of.
    fn parts(&self, part: StepPart) -> Vec<StepPart> {
        match part {
            StepPart::Layer => StepPart::layer(self.cut()),
            part => vec![part],
        }
    }

    fn kernel(&self, part: StepPart) -> Kernel {
        if part != StepPart::Layer {
            return kernels::kernel(part, self.cut());
        }
        let count = |part: StepPart| self.arguments(part, 0, [0; 3]).len();
        let counts = self.parts(part).into_iter().map(count).collect();
        let all_reduce = self.group.part(SUM, self.cut().work.dtype);
        kernels::layer(self.cut(), all_reduce, counts)
    }

    /// Returns the arguments of a part's kernel on a SIP.
    fn arguments(
        &self,
        part: StepPart,
        sip: usize,
        [layer, position, norm]: [u64; 3],
    ) -> Vec<Argument<'_>> {
        let of_sip = &self.sips()[sip];
        let (tensors, numbers) = if part == StepPart::AllReduce {
            let ranks = self.group.rank_numbers(sip).map(|number| number as u64);
            (vec![&of_sip.buffers.partial, of_sip.sum()], ranks.to_vec())
        } else {
            let adds = u64::from(sip == 0 && !self.cut().spec.family.has_post_norms);
            arguments(part, of_sip, [layer, position, adds, norm])
        };
        let numbers = numbers.into_iter().map(Argument::from);
        let extras = of_sip.extras(part).into_iter().map(Argument::Tensor);
        // The experts of a SIP depend on its number.
        let has_experts = self.cut().routing.is_some();
        let has_experts = has_experts && matches!(part, StepPart::GateUp | StepPart::Down);
        let number = has_experts.then_some(Argument::from(sip));
        let tensors = tensors.into_iter().map(Argument::Tensor);
        tensors.chain(numbers).chain(extras).chain(number).collect()
    }

    /// Waits for all launches.
    pub fn finish(&mut self) -> Result<Vec<PartRun>, ModelError> {
        let mut all = Vec::new();
        for (part, begun) in self.begun.drain(..) {
            let launches = match begun {
                Begun::Collective(pending) => pending.wait()?.launches,
                Begun::Kernel(handles) => {
                    handles.iter().map(LaunchHandle::wait).collect::<Result<_, _>>()?
                }
            };
            all.push(PartRun { part, launches });
        }
        Ok(all)
    }
}

/// Chooses the all-reduce algorithm as for every other collective: the fastest for the features of all tokens of a
/// step, of which each cube has a partial sum.
fn all_reduce(
    context: &Context,
    cut: &Cut,
    sips: &[SipId],
) -> Result<(Box<dyn Algorithm>, GroupConfig), DistError> {
    let mut ccl = CclConfig::embedded();
    ccl.each(|config| (config.ranks, config.sips) = (Ranks::Cube, sips.to_vec()));
    let dtype = cut.work.dtype;
    let bytes = cut.tokens() * cut.hidden() * dtype.size();
    let chosen = context.machine(|machine| ccl.resolve(machine.topology(), SUM, dtype, bytes))?;
    Ok((Box::new(chosen.algorithm), chosen.config))
}

/// Returns the arguments of a part's kernel on a SIP; the part is not a collective.
fn arguments(
    part: StepPart,
    sip: &SipTensors,
    [layer, position, adds, norm]: [u64; 4],
) -> (Vec<&Tensor>, Vec<u64>) {
    let SipTensors { tokens, weights, keys, values, buffers, .. } = sip;
    let columns = |weights, out| (vec![tokens, &buffers.sums, weights, out], vec![layer]);
    let rows = |left, weights| {
        let tensors = vec![left, &buffers.logarithms, weights, tokens, &buffers.partial];
        (tensors, vec![layer, adds])
    };
    let Buffers { qkv, angles, attended, logarithms, .. } = buffers;
    let attention = vec![qkv, keys, values, angles, attended, logarithms];
    match part {
        StepPart::Embedding => (vec![&weights.table, tokens], vec![]),
        StepPart::Norm => (vec![tokens, &buffers.sums], vec![]),
        StepPart::PostNorm => (vec![sip.sum(), sip.post_sums()], vec![]),
        StepPart::Add => {
            let norms = weights.post_norms.as_ref().unwrap_or(tokens);
            (vec![sip.sum(), sip.post_sums(), tokens, norms], vec![norm])
        }
        StepPart::Qkv => columns(&weights.qkv, &buffers.qkv),
        StepPart::Append | StepPart::Attention => (attention, vec![layer, position]),
        StepPart::Output => rows(&buffers.attended, &weights.output),
        StepPart::GateUp => columns(&weights.gate_up, &buffers.inner),
        StepPart::Router => columns(sip.router(), sip.routes()),
        StepPart::Down => {
            let (mut tensors, numbers) = rows(&buffers.inner, &weights.down);
            tensors[1] = sip.routes();
            (tensors, numbers)
        }
        StepPart::Head => columns(&weights.head, &buffers.logits),
        StepPart::AllReduce | StepPart::Layer => unreachable!("it is made of others"),
    }
}

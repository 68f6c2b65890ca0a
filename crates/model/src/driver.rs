//! Launches of the parts of a step, in order on each SIP.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_runtime::{Channels, Launch, LaunchHandle, LaunchReport, Stream, Tensor};

use super::cut::{Cut, Phase};
use super::error::ModelError;
use super::kernels;
use super::part::StepPart;
use super::tensors::{Buffers, SipTensors, Tensors};
use super::wiring::{channels, ring};
use cubeyard_collectives::collective::{Grid, Operation, ReduceOp};
use cubeyard_collectives::distributed::{DistError, Group, GroupConfig, Pending, Ranks};
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::Launcher;

/// A part that has run.
#[derive(Clone, Debug)]
pub struct PartRun {
    /// The part of the step.
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
    cut: Rc<Cut>,
    tensors: &'a Tensors,
    streams: Vec<Stream>,
    group: Group,
    /// Channels between the cubes that share a head, and the group number of their ports.
    _channels: Channels,
    ports: u16,
    begun: Vec<(StepPart, Begun)>,
    /// Kernels of the parts so far, kept so that their recordings are reused.
    kernels: RefCell<BTreeMap<StepPart, Kernel>>,
}

impl<'a> Driver<'a> {
    /// Wires the cubes to each other.
    pub fn new(
        launcher: &'a Launcher,
        cut: &Rc<Cut>,
        tensors: &'a Tensors,
    ) -> Result<Self, ModelError> {
        let context = launcher.context();
        let sips: Vec<_> = tensors.sips.iter().map(|of_sip| of_sip.sip).collect();
        let streams = sips.iter().map(|_| context.stream()).collect();
        let config =
            GroupConfig { ranks: Ranks::Cube, sips: sips.clone(), ..GroupConfig::default() };
        let number = || launcher.new_group().ok_or(DistError::Exhausted);
        let group = Group::new(context, &config, Box::new(Grid), number()?)?;
        let ports = number()?;
        let channels = context.connect(&channels(context, cut, &sips, ports), &ring(cut))?;
        Ok(Self {
            launcher,
            cut: Rc::clone(cut),
            tensors,
            streams,
            group,
            _channels: channels,
            ports,
            begun: Vec::new(),
            kernels: RefCell::default(),
        })
    }

    /// Launches a part on every SIP, after the earlier launches there. `layer` selects the weights, and
    /// `position` is the start of the step in its sequences.
    pub fn order(&mut self, part: StepPart, layer: u64, position: u64) -> Result<(), ModelError> {
        let begun = if part == StepPart::AllReduce {
            let tensors = self.tensors.sips.iter().map(|sip| (&sip.buffers.partial, &sip.tokens));
            let (tensors, sum): (Vec<_>, _) =
                (tensors.collect(), Operation::AllReduce(ReduceOp::Sum));
            let pending = self.group.begin_on(self.launcher, &self.streams, sum, &tensors)?;
            Begun::Collective(pending)
        } else {
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
        let kernel = kernels.entry(part).or_insert_with(|| self.kernel(part)).clone();
        drop(kernels);
        self.launcher.use_group(self.ports);
        let mut handles = Vec::new();
        for (index, (sip, stream)) in self.tensors.sips.iter().zip(&self.streams).enumerate() {
            let adds = u64::from(index == 0);
            let (tensors, numbers) = arguments(part, sip, [layer, position, adds]);
            let numbers = numbers.into_iter().map(|number| number as f64);
            let launch = Launch::new(sip.sip).arguments(tensors).arguments(numbers);
            handles.push(self.launcher.launch(stream, &kernel, &launch)?);
        }
        Ok(handles)
    }

    fn kernel(&self, part: StepPart) -> Kernel {
        let cut = &self.cut;
        match (part, cut.work.phase) {
            (StepPart::Embedding, _) => kernels::embed(cut),
            (StepPart::Norm, _) => kernels::norm(cut),
            (StepPart::Qkv, _) => kernels::qkv(cut),
            (StepPart::Append, _) => kernels::append(cut),
            (StepPart::Attention, Phase::Decode) => kernels::decode(cut),
            (StepPart::Attention, Phase::Prefill) => kernels::prefill(cut),
            (StepPart::Output, _) => kernels::output(cut),
            (StepPart::GateUp, _) => kernels::gate_up(cut),
            (StepPart::Down, _) => kernels::down(cut),
            (StepPart::Head, _) => kernels::head(cut),
            (StepPart::AllReduce, _) => unreachable!("it is a collective"),
        }
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

/// Returns the arguments of a part's kernel on a SIP.
fn arguments(
    part: StepPart,
    sip: &SipTensors,
    [layer, position, adds]: [u64; 3],
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
        StepPart::Qkv => columns(&weights.qkv, &buffers.qkv),
        StepPart::Append | StepPart::Attention => (attention, vec![layer, position]),
        StepPart::Output => rows(&buffers.attended, &weights.output),
        StepPart::GateUp => columns(&weights.gate_up, &buffers.inner),
        StepPart::Down => rows(&buffers.inner, &weights.down),
        StepPart::Head => columns(&weights.head, &buffers.logits),
        StepPart::AllReduce => unreachable!("it is a collective"),
    }
}

//! Launches of kernels, streams of them, and events between streams.
//!
//! A kernel is launched with [its programs](Stream::launch_programs), one for each PE.

mod bind;

pub use bind::{BoundArgument, BoundTensor, HeldPart, LocalPart, Site};

use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use cubeyard_device::message::RequestId;
use cubeyard_device::pe::Program;
use cubeyard_device::request::{PeGrid, Request, Submission};
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_sim::{SignalId, Span};

use crate::context::{
    Addressing, Context, DeployedShard, FlightOutcome, InFlight, Inner, LaunchReport,
};
use crate::dtype::Scalar;
use crate::error::RuntimeError;
use crate::flex::FlexOperand;
use crate::tensor::Tensor;

/// An argument of a launch.
#[derive(Clone, Debug)]
pub enum Argument<'a> {
    /// A deployed tensor; the kernel gets its base address.
    Tensor(&'a Tensor),
    /// An array in a block of a region; the kernel gets its flat address.
    Operand(FlexOperand),
    /// An address in memory that the machine [shares](Context::share) with its owner; the kernel gets a tensor of one byte
    /// there.
    Address(u64),
    /// A number, passed by value.
    Scalar(Scalar),
}

impl<'a> From<&'a Tensor> for Argument<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<FlexOperand> for Argument<'_> {
    fn from(operand: FlexOperand) -> Self {
        Self::Operand(operand)
    }
}

impl From<Scalar> for Argument<'_> {
    fn from(scalar: Scalar) -> Self {
        Self::Scalar(scalar)
    }
}

macro_rules! scalar {
    ($($name:ty),*) => {$(
        impl From<$name> for Argument<'_> {
            fn from(number: $name) -> Self {
                Self::Scalar(number.into())
            }
        }
    )*};
}

scalar!(bool, i32, i64, u32, u64, usize, f32, f64);

/// Arguments and PEs of a kernel's launch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Launch<'a> {
    /// Arguments of the kernel, in order.
    pub arguments: Vec<Argument<'a>>,
    /// SIP that the kernel runs on.
    pub sip: SipId,
    /// Cubes of the SIP that take part; empty for all.
    pub cubes: Vec<CubeId>,
    /// PEs of each cube that take part; empty for all.
    pub pes: Vec<PeId>,
}

impl<'a> Launch<'a> {
    /// Creates a launch without arguments on all PEs of a SIP.
    pub fn new(sip: SipId) -> Self {
        Self { arguments: Vec::new(), sip, cubes: Vec::new(), pes: Vec::new() }
    }

    /// Appends arguments of the kernel.
    #[must_use]
    pub fn arguments(mut self, all: impl IntoIterator<Item: Into<Argument<'a>>>) -> Self {
        self.arguments.extend(all.into_iter().map(Into::into));
        self
    }

    /// Restricts the launch to these cubes; an empty list selects all.
    #[must_use]
    pub fn cubes(self, cubes: Vec<CubeId>) -> Self {
        Self { cubes, ..self }
    }

    /// Restricts the launch to these PEs of each cube; an empty list selects all.
    #[must_use]
    pub fn pes(self, pes: Vec<PeId>) -> Self {
        Self { pes, ..self }
    }
}

/// Function that creates the program of each PE of a launch.
pub type Programs<'a> =
    &'a mut dyn FnMut(&Site, &[BoundArgument]) -> Result<Box<dyn Program>, RuntimeError>;

/// Handle of a launch that is in flight or done.
#[derive(Clone, Debug)]
pub struct LaunchHandle {
    context: Rc<Inner>,
    request: RequestId,
    outcome: FlightOutcome,
}

/// Sequence of launches, each of which begins when the previous one is done. Launches of different streams may overlap.
#[derive(Clone, Debug)]
pub struct Stream {
    context: Rc<Inner>,
    /// Launches that the next one waits for.
    after: Rc<RefCell<Vec<RequestId>>>,
}

/// A point in a stream that another stream can wait for.
#[derive(Clone, Debug)]
pub struct Event {
    after: Vec<RequestId>,
}

impl Context {
    /// Creates a stream of launches.
    pub fn stream(&self) -> Stream {
        Stream { context: Rc::clone(&self.inner), after: Rc::default() }
    }
}

impl Stream {
    /// Launches a kernel after all earlier launches of this stream and all events waited for. Returns at once.
    ///
    /// `programs` is called for each PE with its site and its arguments; `name` is the kernel's name in reports.
    pub fn launch_programs(
        &self,
        name: &str,
        launch: &Launch<'_>,
        programs: Programs<'_>,
    ) -> Result<LaunchHandle, RuntimeError> {
        let context = &self.context;
        context.check_open()?;
        let uses = context.uses(launch)?;
        let on = context.grid(launch);
        let mut made = Vec::new();
        for site in context.sites(&on, context.live_for(launch)?) {
            let bind = |argument: &Argument<'_>| argument.bind(site.pe, context.addressing);
            let bound: Vec<_> = launch.arguments.iter().map(bind).collect();
            made.push((site.pe, programs(&site, &bound)?));
        }
        let handle = context.submit_launch(name, on, &self.after.borrow(), uses)?;
        let mut machine = context.machine_mut()?;
        machine.give(handle.request, context.given(launch));
        made.into_iter().for_each(|(pe, program)| machine.load(handle.request, pe, program));
        self.after.replace(vec![handle.request]);
        Ok(handle)
    }

    /// Returns the point after everything launched here so far.
    pub fn record(&self) -> Event {
        Event { after: self.after.borrow().clone() }
    }

    /// Makes later launches of this stream wait for a point in another stream.
    pub fn wait(&self, event: &Event) {
        self.after.borrow_mut().extend(&event.after);
    }
}

impl LaunchHandle {
    /// Returns the id of the launch on the machine.
    pub fn request(&self) -> RequestId {
        self.request
    }

    /// Runs the machine until the launch is done.
    pub fn wait(&self) -> Result<LaunchReport, RuntimeError> {
        self.wait_by(Inner::run_and_settle)
    }

    /// Runs the machine until the launch is done, or for at most `limit` of simulated time. Then its programs are
    /// stopped, and the error states what each PE waited for.
    pub fn wait_within(&self, limit: Span) -> Result<LaunchReport, RuntimeError> {
        self.wait_by(|context| context.run_for(limit, self.request))
    }

    fn wait_by(
        &self,
        run: impl FnOnce(&Inner) -> Result<(), RuntimeError>,
    ) -> Result<LaunchReport, RuntimeError> {
        let ran = if self.outcome.get().is_none() { run(&self.context) } else { Ok(()) };
        self.context.machine.borrow().races(|races| races.waited(self.request));
        ran?;
        self.outcome.get().expect("the machine has run to its end").clone()
    }
}

impl Inner {
    /// Returns the memory that a launch keeps until it is done.
    fn uses(self: &Rc<Self>, launch: &Launch<'_>) -> Result<Vec<Rc<dyn Any>>, RuntimeError> {
        let mut uses: Vec<Rc<dyn Any>> = Vec::new();
        for argument in &launch.arguments {
            match argument {
                Argument::Tensor(tensor) => uses.push(tensor.storage_of(self)?),
                Argument::Operand(operand) => uses.push(operand.uses(self, launch.sip)?),
                // Its owner keeps the memory.
                Argument::Address(_) | Argument::Scalar(_) => {}
            }
        }
        Ok(uses)
    }

    /// Returns the addresses that programs of a launch may access, in order.
    fn live_for(&self, launch: &Launch<'_>) -> Result<Vec<Range<u64>>, RuntimeError> {
        let mut live = self.live_ranges();
        let tensors = live.len();
        live.extend(launch.arguments.iter().filter_map(|argument| match argument {
            Argument::Operand(operand) => Some(operand.range()),
            Argument::Tensor(_) | Argument::Address(_) | Argument::Scalar(_) => None,
        }));
        live.extend(self.shared_blocks()?);
        if live.len() > tensors {
            live.sort_by_key(|range| range.start);
        }
        Ok(live)
    }

    /// Returns the physical addresses that programs of a launch may access: its blocks, and with physical addressing
    /// its tensors.
    fn given(&self, launch: &Launch<'_>) -> Vec<Range<u64>> {
        let mut given = Vec::new();
        for argument in &launch.arguments {
            match argument {
                Argument::Tensor(tensor) if self.addressing == Addressing::Physical => {
                    let shards = tensor.storage.as_ref().map_or(&[][..], |storage| &storage.shards);
                    given.extend(shards.iter().map(DeployedShard::addresses));
                }
                Argument::Operand(operand) => given.push(operand.range()),
                Argument::Tensor(_) | Argument::Address(_) | Argument::Scalar(_) => {}
            }
        }
        given
    }

    /// Submits a launch that begins after others and keeps its resources until it is done.
    fn submit_launch(
        self: &Rc<Self>,
        kernel: &str,
        on: PeGrid,
        after: &[RequestId],
        uses: Vec<Rc<dyn Any>>,
    ) -> Result<LaunchHandle, RuntimeError> {
        self.step()?;
        let mut machine = self.machine_mut()?;
        let pes = on.all().collect();
        let body = Request::KernelLaunch { kernel: kernel.to_owned(), on, work: Span::ZERO };
        // Finished launches are not waited for, and their records may have been dropped.
        let open = self.in_flight.borrow();
        let under_way = |id: &&RequestId| open.contains_key(id);
        let signals: Vec<SignalId> =
            after.iter().filter(under_way).map(|&id| machine.view().done_signal(id)).collect();
        drop(open);
        let request = machine.submit_with(Submission { after: Some(signals), ..body.into() })?;
        machine.races(|races| races.launched(request, after));
        let outcome = FlightOutcome::default();
        let flight = InFlight { pes, outcome: Rc::clone(&outcome), stopped: None, _uses: uses };
        self.in_flight.borrow_mut().insert(request, flight);
        Ok(LaunchHandle { context: Rc::clone(self), request, outcome })
    }

    /// Returns the PEs of a launch.
    pub(crate) fn grid(&self, launch: &Launch<'_>) -> PeGrid {
        let mut on = self.machine.borrow().topology().grid(launch.sip);
        if !launch.cubes.is_empty() {
            on.cubes.clone_from(&launch.cubes);
        }
        if !launch.pes.is_empty() {
            on.pes.clone_from(&launch.pes);
        }
        on
    }

    fn sites(&self, on: &PeGrid, live: Vec<Range<u64>>) -> Vec<Site> {
        let (core, hbm) = {
            let machine = self.machine.borrow();
            let spec = machine.topology().spec();
            (Rc::new(spec.pe.core.clone()), spec.hbm)
        };
        let live = Rc::new(live);
        let count = [on.pes.len(), on.cubes.len()];
        let site = |(index, pe)| Site {
            pe,
            index: [index % count[0], index / count[0]],
            count,
            has_data: self.data,
            group: 0,
            core: Rc::clone(&core),
            hbm,
            live: Rc::clone(&live),
        };
        on.all().enumerate().map(site).collect()
    }
}

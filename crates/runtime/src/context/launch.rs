//! Kernels, launches, streams and events.
//!
//! A kernel is launched with [its programs](Stream::launch_programs), one for each PE.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use cubeyard_device::message::RequestId;
use cubeyard_device::pe::{CoreReport, Program};
use cubeyard_device::request::{Outcome, PeRef, Request};
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_sim::{SignalId, Span, Time};

use super::bind::{BoundArgument, Site};
use super::{Addressing, Context, Inner};
use crate::error::RuntimeError;
use crate::flex::FlexOperand;
use crate::storage::DeployedShard;
use crate::tensor::Tensor;

/// An argument of a launch.
#[derive(Clone, Debug)]
pub enum Argument<'a> {
    /// A tensor on the device; the kernel is given its base address.
    Tensor(&'a Tensor),
    /// A block of a region; the kernel is given its flat address.
    Operand(FlexOperand),
    /// A number.
    Scalar(f64),
}

/// A launch of a kernel: with what, and where.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The kernel's arguments.
    pub arguments: Vec<Argument<'a>>,
    /// The SIP.
    pub sip: SipId,
    /// Its cubes that take part; all if none are named.
    pub cubes: Vec<CubeId>,
    /// The PEs of each cube that take part; all if none are named.
    pub pes: Vec<PeId>,
}

/// What came of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchReport {
    /// Its number on the machine.
    pub request: RequestId,
    /// When the host made it.
    pub made: Time,
    /// When all PEs started.
    pub started: Time,
    /// When the host had the completion.
    pub done: Time,
    /// How long each PE worked.
    pub pes: Vec<(PeRef, Span)>,
    /// What each PE did, if it ran a program.
    pub cores: Vec<(PeRef, CoreReport)>,
}

impl LaunchReport {
    /// The longest that a PE worked.
    pub fn max(&self) -> Span {
        self.pes.iter().map(|&(_, span)| span).max().unwrap_or_default()
    }

    /// How long PEs worked on average.
    pub fn mean(&self) -> Span {
        Span::mean(self.pes.iter().map(|&(_, span)| span))
    }
}

/// Makes the program of each PE of a launch.
pub type Programs<'a> =
    &'a mut dyn FnMut(&Site, &[BoundArgument]) -> Result<Box<dyn Program>, RuntimeError>;

/// Where the outcome of a launch is put: what came of it, or what went wrong.
type Report = Rc<RefCell<Option<Result<LaunchReport, Ended>>>>;

/// How a launch ended that did not run to its end.
#[derive(Clone, Debug)]
enum Ended {
    /// Something went wrong in a part of the machine.
    Failed { origin: String, what: String },
    /// It could not go on, as these waited for each other, and was stopped.
    Stalled(String),
}

impl From<Ended> for RuntimeError {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Failed { origin, what } => Self::Machine { origin, what },
            Ended::Stalled(waiting) => Self::Stalled(waiting),
        }
    }
}

/// The PEs of a launch; all cubes, or all PEs, if none are named.
#[derive(Clone, Copy)]
struct Targets<'a> {
    sip: SipId,
    cubes: &'a [CubeId],
    pes: &'a [PeId],
}

/// A launch under way, or done.
#[derive(Clone, Debug)]
pub struct LaunchHandle {
    context: Rc<Inner>,
    request: RequestId,
    report: Report,
}

/// Launches that come one after the other. Those of different streams may overlap.
#[derive(Clone, Debug)]
pub struct Stream {
    context: Rc<Inner>,
    /// What the next launch waits for.
    after: Rc<RefCell<Vec<RequestId>>>,
}

/// A point in a stream that another can wait for.
#[derive(Clone, Debug)]
pub struct Event {
    after: Vec<RequestId>,
}

/// A launch whose completion has not been looked at, and the memory it uses, which stays until then.
#[derive(Debug)]
pub(crate) struct InFlight {
    pes: Vec<PeRef>,
    report: Report,
    /// Who waited for what, if it was stopped because it could not go on.
    pub(super) stalled: Option<String>,
    _uses: Vec<Rc<dyn Any>>,
}

impl Context {
    /// A stream of launches.
    pub fn stream(&self) -> Stream {
        Stream { context: Rc::clone(&self.inner), after: Rc::default() }
    }
}

impl Stream {
    /// Launches a kernel after what was launched here before, and after the events waited for. Returns at once.
    ///
    /// Each PE is given a program, which is made with its place and with the arguments as it sees them; `name` is
    /// what reports call the kernel.
    pub fn launch_programs(
        &self,
        name: &str,
        launch: &Launch<'_>,
        programs: Programs<'_>,
    ) -> Result<LaunchHandle, RuntimeError> {
        let handle = self.context.launch_programs(name, launch, programs, &self.after.borrow())?;
        self.after.replace(vec![handle.request]);
        Ok(handle)
    }

    /// The point after all that was launched here so far.
    pub fn record(&self) -> Event {
        Event { after: self.after.borrow().clone() }
    }

    /// Lets what is launched here from now on wait for a point in another stream.
    pub fn wait(&self, event: &Event) {
        self.after.borrow_mut().extend(&event.after);
    }
}

impl LaunchHandle {
    /// The number of the launch on the machine.
    pub fn request(&self) -> RequestId {
        self.request
    }

    /// Waits for the launch to be done.
    pub fn wait(&self) -> Result<LaunchReport, RuntimeError> {
        let open = self.report.borrow().is_none();
        self.seen(if open { self.context.run_and_settle() } else { Ok(()) })
    }

    /// Waits for the launch to be done, but no longer than this in simulated time: then its programs are
    /// stopped, and the error says who waited for what.
    pub fn wait_within(&self, limit: Span) -> Result<LaunchReport, RuntimeError> {
        let open = self.report.borrow().is_none();
        let run =
            || self.context.run_for(limit, self.request).and_then(|()| self.context.settle_all());
        self.seen(if open { run() } else { Ok(()) })
    }

    /// The outcome, now that the host has seen it.
    fn seen(&self, ran: Result<(), RuntimeError>) -> Result<LaunchReport, RuntimeError> {
        self.context.machine.borrow().order(|races| races.waited(self.request));
        ran.and_then(|()| self.outcome())
    }

    fn outcome(&self) -> Result<LaunchReport, RuntimeError> {
        let report = self.report.borrow();
        match report.as_ref().expect("the machine has run to its end") {
            Ok(report) => Ok(report.clone()),
            Err(ended) => Err(ended.clone().into()),
        }
    }
}

impl Inner {
    fn launch_programs(
        self: &Rc<Self>,
        name: &str,
        launch: &Launch<'_>,
        programs: Programs<'_>,
        after: &[RequestId],
    ) -> Result<LaunchHandle, RuntimeError> {
        self.check_open()?;
        let uses = self.uses(launch)?;
        let Launch { sip, cubes, pes, .. } = launch;
        let sites = self.sites(Targets { sip: *sip, cubes, pes }, self.live_for(launch));
        let mut made = Vec::with_capacity(sites.len());
        for site in sites {
            let bind = |argument: &Argument<'_>| argument.bind(site.pe, self.addressing);
            let bound: Vec<_> = launch.arguments.iter().map(bind).collect();
            made.push((site.pe, programs(&site, &bound)?));
        }
        let targets = Targets { sip: *sip, cubes, pes };
        let handle = self.submit_launch(name, targets, after, uses)?;
        let mut machine = self.machine_mut()?;
        machine.give(handle.request, self.given(launch));
        made.into_iter().for_each(|(pe, program)| machine.load(handle.request, pe, program));
        Ok(handle)
    }

    /// The memory that a launch keeps until it is done.
    fn uses(self: &Rc<Self>, launch: &Launch<'_>) -> Result<Vec<Rc<dyn Any>>, RuntimeError> {
        let mut uses: Vec<Rc<dyn Any>> = Vec::new();
        for argument in &launch.arguments {
            match argument {
                Argument::Tensor(tensor) => uses.push(tensor.storage_of(self)?),
                Argument::Operand(operand) => uses.push(operand.uses(self, launch.sip)?),
                Argument::Scalar(_) => {}
            }
        }
        Ok(uses)
    }

    /// The addresses that programs of a launch may access, in order.
    fn live_for(&self, launch: &Launch<'_>) -> Vec<Range<u64>> {
        let mut live = self.live_ranges();
        let tensors = live.len();
        live.extend(launch.arguments.iter().filter_map(|argument| match argument {
            Argument::Operand(operand) => Some(operand.range()),
            Argument::Tensor(_) | Argument::Scalar(_) => None,
        }));
        if live.len() > tensors {
            live.sort_by_key(|range| range.start);
        }
        live
    }

    /// The physical memory that the programs of a launch may access by addresses that are not mapped: that of its
    /// blocks, and of its tensors where these have no other addresses.
    fn given(&self, launch: &Launch<'_>) -> Vec<Range<u64>> {
        let range = |shard: &DeployedShard| {
            let from = shard.address.to_bits();
            from..from + shard.nbytes
        };
        let mut given = Vec::new();
        for argument in &launch.arguments {
            match argument {
                Argument::Tensor(tensor) if self.addressing == Addressing::Physical => {
                    let shards = tensor.storage().map_or(&[][..], |storage| &storage.shards);
                    given.extend(shards.iter().map(range));
                }
                Argument::Operand(operand) => given.push(operand.range()),
                Argument::Tensor(_) | Argument::Scalar(_) => {}
            }
        }
        given
    }

    /// Launches a kernel after other launches, and keeps what it uses until it is done.
    fn submit_launch(
        self: &Rc<Self>,
        kernel: &str,
        targets: Targets<'_>,
        after: &[RequestId],
        uses: Vec<Rc<dyn Any>>,
    ) -> Result<LaunchHandle, RuntimeError> {
        self.step()?;
        let sip = targets.sip;
        let (cubes, pes) = self.named(targets);
        let mut machine = self.machine_mut()?;
        let at = |cube| pes.iter().map(move |&pe| PeRef { sip, cube, pe });
        let targets: Vec<_> = cubes.iter().flat_map(|&cube| at(cube)).collect();
        let (kernel, pes) = (kernel.to_owned(), pes.clone());
        let body = Request::KernelLaunch { kernel, sip, cubes, pes, work: Span::ZERO };
        // What is done already is not waited for, and may have been forgotten.
        let open = self.in_flight.borrow();
        let under_way = |id: &&RequestId| open.contains_key(id);
        let signals: Vec<SignalId> =
            after.iter().filter(under_way).map(|&id| machine.done_signal(id)).collect();
        drop(open);
        let request = machine.submit_after(signals, 0, body)?;
        machine.order(|races| races.launched(request, after));
        let report = Report::default();
        let (stalled, to) = (None, Rc::clone(&report));
        let flight = InFlight { pes: targets, report: to, stalled, _uses: uses };
        self.in_flight.borrow_mut().insert(request, flight);
        Ok(LaunchHandle { context: Rc::clone(self), request, report })
    }

    /// The cubes and PEs of a launch, by name.
    fn named(&self, targets: Targets<'_>) -> (Vec<CubeId>, Vec<PeId>) {
        let machine = self.machine.borrow();
        let all_cubes = || machine.topology().cubes().collect();
        let all_pes = || machine.topology().pes().collect();
        let Targets { cubes, pes, .. } = targets;
        (
            if cubes.is_empty() { all_cubes() } else { cubes.to_vec() },
            if pes.is_empty() { all_pes() } else { pes.to_vec() },
        )
    }

    /// The places of a launch's PEs.
    fn sites(&self, targets: Targets<'_>, live: Vec<Range<u64>>) -> Vec<Site> {
        let (cubes, pes) = self.named(targets);
        let machine = self.machine.borrow();
        let spec = machine.topology().spec();
        let core = Rc::new(spec.pe.core.clone());
        let live = Rc::new(live);
        let site = |(cube_index, &cube): (usize, &CubeId)| {
            let (core, live) = (&core, &live);
            let counts = (pes.len(), cubes.len());
            pes.iter().enumerate().map(move |(pe_index, &pe)| Site {
                pe: PeRef { sip: targets.sip, cube, pe },
                index: [pe_index, cube_index],
                count: [counts.0, counts.1],
                has_data: self.data,
                group: 0,
                core: Rc::clone(core),
                live: Rc::clone(live),
            })
        };
        cubes.iter().enumerate().flat_map(site).collect()
    }

    /// As [`settle`](Self::settle), and forgets what was kept for launches if none is left.
    fn settle_all(&self) -> Result<(), RuntimeError> {
        let settled = self.settle();
        self.tidy()?;
        settled
    }

    /// Takes in the completions of launches that are done, and lets their memory go.
    pub(crate) fn settle(&self) -> Result<(), RuntimeError> {
        let machine = self.machine.borrow();
        let is_done = |request: RequestId| machine.completion(request).is_some();
        let (done, open): (BTreeMap<_, _>, BTreeMap<_, _>) =
            self.in_flight.take().into_iter().partition(|(request, _)| is_done(*request));
        self.in_flight.replace(open);
        drop(machine);
        let mut first = Ok(());
        for (request, flight) in done {
            let mut machine = self.machine.borrow_mut();
            let completion = machine.completion(request).expect("it is done");
            let report_of = |&pe: &PeRef| Some((pe, machine.core_report(request, pe)?));
            let cores: Vec<_> = flight.pes.iter().filter_map(report_of).collect();
            machine.retire(request);
            drop(machine);
            let report = match &completion.outcome {
                Outcome::Ran { started, .. } => Ok(LaunchReport {
                    request,
                    made: completion.made,
                    started: *started,
                    done: completion.done,
                    pes: cores.iter().map(|&(pe, core)| (pe, core.ended - core.started)).collect(),
                    cores,
                }),
                Outcome::Failed { origin, what } => Err(match &flight.stalled {
                    Some(waiting) => Ended::Stalled(waiting.clone()),
                    None => Ended::Failed { origin: origin.clone(), what: what.clone() },
                }),
                other => unreachable!("a launch runs or fails: {other:?}"),
            };
            first = first.and(report.as_ref().map(|_| ()).map_err(|ended| ended.clone().into()));
            flight.report.replace(Some(report));
        }
        first
    }
}

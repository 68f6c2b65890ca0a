//! Kernels, launches, streams and events.
//!
//! A kernel that is registered here is a name, the kinds of its arguments, and how long it keeps a PE busy.
//! One that computes is launched with [its programs](Stream::launch_programs), one for each PE.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_device::message::RequestId;
use cubeyard_device::pe::{CoreReport, Program};
use cubeyard_device::request::{Outcome, PeRef, Request};
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_sim::{SignalId, Span, Time};

use super::bind::{BoundArgument, Site};
use super::{Context, Inner, check};
use crate::error::RuntimeError;
use crate::storage::Storage;
use crate::tensor::Tensor;

/// What a kernel takes at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A tensor on the device.
    Tensor,
    /// A number.
    Scalar,
}

impl Parameter {
    const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "a tensor",
            Self::Scalar => "a number",
        }
    }
}

/// A kernel that can be launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSpec {
    /// What it takes.
    pub parameters: Vec<Parameter>,
    /// How long it keeps a PE busy.
    pub work: Span,
}

/// An argument of a launch.
#[derive(Clone, Debug)]
pub enum Argument<'a> {
    /// A tensor on the device; the kernel is given its base address.
    Tensor(&'a Tensor),
    /// A number.
    Scalar(f64),
}

impl Argument<'_> {
    const fn kind(&self) -> Parameter {
        match self {
            Self::Tensor(_) => Parameter::Tensor,
            Self::Scalar(_) => Parameter::Scalar,
        }
    }
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

/// Where the outcome of a launch is put: what came of it, or what went wrong and where.
type Report = Rc<RefCell<Option<Result<LaunchReport, (String, String)>>>>;

/// The PEs of a launch; all cubes, or all PEs, if none are named.
#[derive(Clone, Copy)]
pub(crate) struct Targets<'a> {
    pub(crate) sip: SipId,
    pub(crate) cubes: &'a [CubeId],
    pub(crate) pes: &'a [PeId],
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
    work: Span,
    report: Report,
    _uses: Vec<Rc<dyn Any>>,
}

impl Context {
    /// Makes a kernel known. One of the same name is replaced.
    pub fn register(&self, name: &str, kernel: KernelSpec) {
        self.inner.kernels.borrow_mut().insert(name.to_owned(), kernel);
    }

    /// A stream of launches.
    pub fn stream(&self) -> Stream {
        Stream { context: Rc::clone(&self.inner), after: Rc::default() }
    }

    /// Launches a kernel of a name at once, on a stream of its own.
    pub fn launch(&self, kernel: &str, launch: &Launch<'_>) -> Result<LaunchHandle, RuntimeError> {
        self.stream().launch(kernel, launch)
    }
}

impl Stream {
    /// Launches a kernel of a name after what was launched here before, and after the events waited for. Returns
    /// at once.
    pub fn launch(&self, kernel: &str, launch: &Launch<'_>) -> Result<LaunchHandle, RuntimeError> {
        let handle = self.context.launch(kernel, launch, &self.after.borrow())?;
        self.after.replace(vec![handle.request]);
        Ok(handle)
    }

    /// As [`launch`](Self::launch), of a kernel that runs: each PE is given a program, which is made with
    /// its place and with the arguments as it sees them. The kernel need not be registered; `name` is what
    /// reports call it.
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
        let run = || self.context.run_for(limit, self.request).and_then(|()| self.context.settle());
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
            Err((origin, what)) => {
                Err(RuntimeError::Machine { origin: origin.clone(), what: what.clone() })
            }
        }
    }
}

/// How long each PE of a launch worked.
fn worked(flight: &InFlight, cores: &[(PeRef, CoreReport)]) -> Vec<(PeRef, Span)> {
    if cores.is_empty() {
        return flight.pes.iter().map(|&pe| (pe, flight.work)).collect();
    }
    cores.iter().map(|&(pe, report)| (pe, report.ended - report.started)).collect()
}

impl Inner {
    fn launch(
        self: &Rc<Self>,
        name: &str,
        launch: &Launch<'_>,
        after: &[RequestId],
    ) -> Result<LaunchHandle, RuntimeError> {
        self.check_open()?;
        let kernel = self.kernel(name)?;
        let uses = self.arguments(name, launch, &kernel)?;
        let uses = uses.into_iter().map(|storage| storage as Rc<dyn Any>).collect();
        let Launch { sip, cubes, pes, .. } = launch;
        let targets = Targets { sip: *sip, cubes, pes };
        self.submit_launch(name, kernel.work, targets, after, uses)
    }

    fn launch_programs(
        self: &Rc<Self>,
        name: &str,
        launch: &Launch<'_>,
        programs: Programs<'_>,
        after: &[RequestId],
    ) -> Result<LaunchHandle, RuntimeError> {
        self.check_open()?;
        let mut uses = Vec::new();
        for argument in &launch.arguments {
            if let Argument::Tensor(tensor) = argument {
                uses.push(tensor.storage_of(self)?);
            }
        }
        let Launch { sip, cubes, pes, .. } = launch;
        let sites = self.sites(Targets { sip: *sip, cubes, pes });
        let mut made = Vec::with_capacity(sites.len());
        for site in sites {
            let bind = |argument: &Argument<'_>| argument.bind(site.pe, self.addressing);
            let bound: Vec<_> = launch.arguments.iter().map(bind).collect();
            made.push((site.pe, programs(&site, &bound)?));
        }
        let uses = uses.into_iter().map(|storage| storage as Rc<dyn Any>).collect();
        let targets = Targets { sip: *sip, cubes, pes };
        let handle = self.submit_launch(name, Span::ZERO, targets, after, uses)?;
        let mut machine = self.machine.borrow_mut();
        made.into_iter().for_each(|(pe, program)| machine.load(handle.request, pe, program));
        Ok(handle)
    }

    /// Launches a kernel after other launches, and keeps what it uses until it is done.
    pub(crate) fn submit_launch(
        self: &Rc<Self>,
        kernel: &str,
        work: Span,
        targets: Targets<'_>,
        after: &[RequestId],
        uses: Vec<Rc<dyn Any>>,
    ) -> Result<LaunchHandle, RuntimeError> {
        self.step()?;
        let sip = targets.sip;
        let (cubes, pes) = self.named(targets);
        let mut machine = self.machine.borrow_mut();
        let at = |cube| pes.iter().map(move |&pe| PeRef { sip, cube, pe });
        let targets: Vec<_> = cubes.iter().flat_map(|&cube| at(cube)).collect();
        let (kernel, pes) = (kernel.to_owned(), pes.clone());
        let body = Request::KernelLaunch { kernel, sip, cubes, pes, work };
        // What is done already is not waited for, and may have been forgotten.
        let open = self.in_flight.borrow();
        let under_way = |id: &&RequestId| open.contains_key(id);
        let signals: Vec<SignalId> =
            after.iter().filter(under_way).map(|&id| machine.done_signal(id)).collect();
        drop(open);
        let request = machine.submit_after(signals, 0, body)?;
        machine.order(|races| races.launched(request, after));
        let report = Report::default();
        let flight = InFlight { pes: targets, work, report: Rc::clone(&report), _uses: uses };
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
    fn sites(&self, targets: Targets<'_>) -> Vec<Site> {
        let (cubes, pes) = self.named(targets);
        let machine = self.machine.borrow();
        let spec = machine.topology().spec();
        let core = Rc::new(spec.pe.core.clone());
        let live = Rc::new(self.live_ranges());
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

    pub(crate) fn kernel(&self, name: &str) -> Result<KernelSpec, RuntimeError> {
        let kernels = self.kernels.borrow();
        kernels.get(name).cloned().ok_or_else(|| {
            let nearest = cubeyard_device::input::nearest(name, kernels.keys().map(String::as_str));
            RuntimeError::NoSuchKernel {
                name: name.to_owned(),
                nearest: nearest.map(str::to_owned),
            }
        })
    }

    /// Checks the arguments: the memory that they keep.
    fn arguments(
        self: &Rc<Self>,
        name: &str,
        launch: &Launch<'_>,
        kernel: &KernelSpec,
    ) -> Result<Vec<Rc<Storage>>, RuntimeError> {
        let wrong = |position, expected, found| {
            let kernel = name.to_owned();
            RuntimeError::Argument { kernel, position, expected, found }
        };
        let (given, taken) = (launch.arguments.len(), kernel.parameters.len());
        if given != taken {
            let (expected, found) = match kernel.parameters.get(given) {
                Some(missing) => (missing.name(), "nothing"),
                None => ("nothing", launch.arguments[taken].kind().name()),
            };
            return Err(wrong(given.min(taken), expected, found));
        }
        let mut uses = Vec::new();
        for (position, (argument, &parameter)) in
            launch.arguments.iter().zip(&kernel.parameters).enumerate()
        {
            if argument.kind() != parameter {
                return Err(wrong(position, parameter.name(), argument.kind().name()));
            }
            if let Argument::Tensor(tensor) = argument {
                uses.push(tensor.storage_of(self)?);
            }
        }
        Ok(uses)
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
            let checked = check(&completion);
            let report = match (&completion.outcome, &checked) {
                (Outcome::Ran { started, .. }, Ok(())) => Ok(LaunchReport {
                    request,
                    made: completion.made,
                    started: *started,
                    done: completion.done,
                    pes: worked(&flight, &cores),
                    cores,
                }),
                (Outcome::Failed { origin, what }, _) => Err((origin.clone(), what.clone())),
                (other, _) => unreachable!("a launch runs or fails: {other:?}"),
            };
            flight.report.replace(Some(report));
            first = first.and(checked);
        }
        first
    }
}

//! Kernels, launches, streams and events.
//!
//! What runs on the PEs comes with the kernels; here a kernel is a name, the kinds of its arguments, and
//! how long it keeps a PE busy.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_device::message::RequestId;
use cubeyard_device::request::{Outcome, PeRef, Request};
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_sim::{SignalId, Span, Time};

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

/// A launch: which kernel, with what, and where.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The kernel's name.
    pub kernel: &'a str,
    /// Its arguments.
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
    /// When the host made it.
    pub made: Time,
    /// When all PEs started.
    pub started: Time,
    /// When the host had the completion.
    pub done: Time,
    /// How long each PE worked.
    pub pes: Vec<(PeRef, Span)>,
}

impl LaunchReport {
    /// The longest that a PE worked.
    pub fn max(&self) -> Span {
        self.pes.iter().map(|&(_, span)| span).max().unwrap_or_default()
    }

    /// How long PEs worked on average.
    pub fn mean(&self) -> Span {
        let all: Span = self.pes.iter().map(|&(_, span)| span).sum();
        Span::from_ps(all.ps() / (self.pes.len() as u64).max(1))
    }
}

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

    /// Launches a kernel at once, on a stream of its own.
    pub fn launch(&self, launch: &Launch<'_>) -> Result<LaunchHandle, RuntimeError> {
        self.stream().launch(launch)
    }
}

impl Stream {
    /// Launches a kernel after what was launched here before, and after the events waited for. Returns at
    /// once.
    pub fn launch(&self, launch: &Launch<'_>) -> Result<LaunchHandle, RuntimeError> {
        let handle = self.context.launch(launch, &self.after.borrow())?;
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
    /// Waits for the launch to be done.
    pub fn wait(&self) -> Result<LaunchReport, RuntimeError> {
        if self.report.borrow().is_none() {
            self.context.run()?;
            self.context.settle()?;
        }
        let report = self.report.borrow();
        match report.as_ref().expect("the machine has run to its end") {
            Ok(report) => Ok(report.clone()),
            Err((origin, what)) => {
                Err(RuntimeError::Machine { origin: origin.clone(), what: what.clone() })
            }
        }
    }
}

impl Inner {
    fn launch(
        self: &Rc<Self>,
        launch: &Launch<'_>,
        after: &[RequestId],
    ) -> Result<LaunchHandle, RuntimeError> {
        self.check_open()?;
        let kernel = self.kernel(launch.kernel)?;
        let uses = self.arguments(launch, &kernel)?;
        let uses = uses.into_iter().map(|storage| storage as Rc<dyn Any>).collect();
        let Launch { sip, cubes, pes, .. } = launch;
        let targets = Targets { sip: *sip, cubes, pes };
        self.submit_launch(launch.kernel, kernel.work, targets, after, uses)
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
        let Targets { sip, cubes, pes } = targets;
        let mut machine = self.machine.borrow_mut();
        let all_cubes = || machine.topology().cubes().collect();
        let cubes: Vec<CubeId> = if cubes.is_empty() { all_cubes() } else { cubes.to_vec() };
        let all_pes = || machine.topology().pes().collect();
        let pes: Vec<PeId> = if pes.is_empty() { all_pes() } else { pes.to_vec() };
        let at = |cube| pes.iter().map(move |&pe| PeRef { sip, cube, pe });
        let targets: Vec<_> = cubes.iter().flat_map(|&cube| at(cube)).collect();
        let (kernel, pes) = (kernel.to_owned(), pes.clone());
        let body = Request::KernelLaunch { kernel, sip, cubes, pes, work };
        // What is done already is not waited for, and may have been forgotten.
        let open = self.in_flight.borrow();
        let under_way = |id: &&RequestId| open.contains_key(id);
        let after: Vec<SignalId> =
            after.iter().filter(under_way).map(|&id| machine.done_signal(id)).collect();
        drop(open);
        let request = machine.submit_after(after, 0, body)?;
        let report = Report::default();
        let flight = InFlight { pes: targets, work, report: Rc::clone(&report), _uses: uses };
        self.in_flight.borrow_mut().insert(request, flight);
        Ok(LaunchHandle { context: Rc::clone(self), request, report })
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
        launch: &Launch<'_>,
        kernel: &KernelSpec,
    ) -> Result<Vec<Rc<Storage>>, RuntimeError> {
        let wrong = |position, expected, found| {
            let kernel = launch.kernel.to_owned();
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
            machine.retire(request);
            drop(machine);
            let checked = check(&completion);
            let report = match (&completion.outcome, &checked) {
                (Outcome::Ran { started, .. }, Ok(())) => Ok(LaunchReport {
                    made: completion.made,
                    started: *started,
                    done: completion.done,
                    pes: flight.pes.iter().map(|&pe| (pe, flight.work)).collect(),
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

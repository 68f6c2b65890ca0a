//! Launches of kernels on a context.

mod recordings;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_device::message::RequestId;
use cubeyard_device::request::PeRef;
use cubeyard_runtime::{
    BoundArgument, Context, Launch, LaunchHandle, LaunchReport, RuntimeError, Site, Stream,
};

use crate::kernel::Kernel;
use crate::program::{Finding, Findings, KernelProgram, Recording, live};
use crate::race::{RaceText, notice_finding};
use recordings::Recordings;

/// Calls of `tl` that a kernel may make on a PE, if nothing is said.
const MOST_CALLS: usize = 1 << 22;

/// How kernels run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Written down for each PE, then run; what is written down is kept for launches that are alike.
    #[default]
    Recorded,
    /// As they go: they may look at what they have loaded.
    Live,
}

/// Launches kernels on a context.
///
/// ```
/// use cubeyard_kernels::kernel::Kernel;
/// use cubeyard_kernels::launch::Launcher;
/// use cubeyard_memory::address::SipId;
/// use cubeyard_runtime::placement::{Placement, Split};
/// use cubeyard_runtime::{Argument, Context, ContextConfig, Launch};
///
/// let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
/// let rows = Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() };
/// let x = context.from_slice(&[256, 64], &vec![1.5_f32; 256 * 64])?.to(&rows)?;
/// let y = context.empty(&[256, 64], x.dtype())?.to(&rows)?;
///
/// let double = Kernel::new("double", |tl, args| {
///     Box::pin(async move {
///         let tile = tl.load(&args.tensor(0).local());
///         tl.store(&args.tensor(1).local(), &(&tile + &tile));
///     })
/// });
/// let launcher = Launcher::new(&context);
/// let arguments = vec![Argument::Tensor(&x), Argument::Tensor(&y)];
/// let launch = Launch { arguments, sip: SipId::new(0)?, cubes: vec![], pes: vec![] };
/// let report = launcher.run(&double, &launch)?;
/// assert_eq!(report.pes.len(), 128);
/// assert_eq!(y.read::<f32>()?, vec![3.0; 256 * 64]);
/// assert!(launcher.findings().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Launcher<'c> {
    context: &'c Context,
    mode: Mode,
    findings: Findings,
    group: Cell<u16>,
    recordings: RefCell<Recordings>,
    limit: usize,
    /// What ran where, while operations are kept or it may turn out to race with another.
    ran: RefCell<Ran>,
    /// How many groups have been numbered.
    groups: Cell<u16>,
    /// Every launch by the name of its kernel, if they are kept.
    launched: Option<RefCell<Vec<(String, LaunchHandle)>>>,
}

/// What PEs were given to run, by launch and PE.
pub type Ran = BTreeMap<(RequestId, PeRef), Recording>;

impl<'c> Launcher<'c> {
    /// One that records kernels.
    pub fn new(context: &'c Context) -> Self {
        Self::with_mode(context, Mode::Recorded)
    }

    /// One that runs kernels in this way.
    pub fn with_mode(context: &'c Context, mode: Mode) -> Self {
        let (recordings, ran) = (RefCell::default(), RefCell::default());
        Self {
            context,
            mode,
            findings: Rc::default(),
            group: Cell::new(0),
            recordings,
            limit: MOST_CALLS,
            ran,
            groups: Cell::new(0),
            launched: None,
        }
    }

    /// Lets a kernel call `tl` so often on a PE, 2²² times if nothing is said; with more calls it is taken for one
    /// that never ends.
    #[must_use]
    pub fn limit(self, calls: usize) -> Self {
        Self { limit: calls, ..self }
    }

    /// Keeps no more than so many steps of recorded kernels, 2²² if nothing is said: when there are more, the
    /// recordings that were not used for longest are forgotten, and made again when they are needed.
    #[must_use]
    pub fn keep_steps(self, steps: usize) -> Self {
        let recordings = self.recordings.take().limit(steps);
        Self { recordings: RefCell::new(recordings), ..self }
    }

    /// Keeps a handle of every launch, whoever makes it, until [`take_launched`](Self::take_launched).
    #[must_use]
    pub fn keep_launched(self) -> Self {
        Self { launched: Some(RefCell::default()), ..self }
    }

    /// The launches since this was asked last, each with its kernel's name, if they are kept.
    pub fn take_launched(&self) -> Vec<(String, LaunchHandle)> {
        self.launched.as_ref().map(RefCell::take).unwrap_or_default()
    }

    /// A number for one more group of PEs that are wired to each other: all that share this launcher have
    /// different ones, from 1 on. None when they are used up.
    pub fn new_group(&self) -> Option<u16> {
        let number = self.groups.get().checked_add(1)?;
        self.groups.set(number);
        Some(number)
    }

    /// Lets kernels use the ports of a group, from now on.
    pub fn use_group(&self, group: u16) {
        self.group.set(group);
    }

    /// Launches a kernel and waits for it.
    pub fn run(&self, kernel: &Kernel, launch: &Launch<'_>) -> Result<LaunchReport, RuntimeError> {
        self.launch(&self.context.stream(), kernel, launch)?.wait()
    }

    /// Launches a kernel on a stream. Returns at once.
    pub fn launch(
        &self,
        stream: &Stream,
        kernel: &Kernel,
        launch: &Launch<'_>,
    ) -> Result<LaunchHandle, RuntimeError> {
        self.take_found();
        let mut given = Vec::new();
        let handle = stream.launch_programs(kernel.name(), launch, &mut |site, arguments| {
            let site = Site { group: self.group.get(), ..site.clone() };
            let program = self.program(kernel, &site, arguments).map_err(RuntimeError::Kernel)?;
            given.push((site.pe, program.recording()));
            Ok(Box::new(program))
        });
        self.recordings.borrow_mut().trim();
        let handle = handle?;
        let of_launch =
            given.into_iter().map(|(pe, recording)| ((handle.request(), pe), recording));
        self.ran.borrow_mut().extend(of_launch);
        if let Some(launched) = &self.launched {
            launched.borrow_mut().push((kernel.name().to_owned(), handle.clone()));
        }
        Ok(handle)
    }

    /// What ran on a PE in a launch, if operations were kept then.
    pub fn ran(&self, launch: RequestId, pe: PeRef) -> Option<Recording> {
        self.ran.borrow().get(&(launch, pe)).cloned()
    }

    /// What ran where, in all launches since operations are kept.
    pub fn take_ran(&self) -> Ran {
        self.ran.take()
    }

    /// What was wrong with kernels that ran to their ends: memory that was read before anybody wrote it, races,
    /// accesses to memory that a launch was not given, and messages that nobody received.
    pub fn findings(&self) -> Vec<Finding> {
        self.take_found();
        self.findings.borrow().clone()
    }

    /// Takes over what the machine has found: races, and what it noticed of programs.
    fn take_found(&self) {
        let mut ran = self.ran.borrow_mut();
        let is_ours = |launch| ran.keys().any(|&(of, _)| of == launch);
        let (found, keeps) = self.context.machine(|machine| {
            let races = machine.take_races().into_iter();
            let races = races.map(|race| RaceText::new(race, machine).finding(&ran));
            let notices = machine.take_notices(is_ours).into_iter();
            let notices = notices.map(|notice| notice_finding(&notice, machine, &ran));
            let found: Vec<_> = races.chain(notices).flatten().collect();
            let quiet = machine.order(|races| races.is_quiet());
            (found, quiet == Some(false) || machine.ops().is_kept())
        });
        for finding in found {
            if !self.findings.borrow().iter().any(|known| known.is_like(&finding)) {
                self.findings.borrow_mut().push(finding);
            }
        }
        if !keeps && self.context.under_way() == 0 {
            ran.clear();
        }
    }

    /// Recordings that are kept, in the order in which they were made: what a kernel orders on one PE.
    ///
    /// A recording is used again by launches of the same kernel, or a clone of it, with the same arguments at
    /// the same place of a launch. It is kept as long as the kernel is there and [`keep_steps`](Self::keep_steps)
    /// allows it.
    pub fn recordings(&self) -> Vec<Recording> {
        self.recordings.borrow().all()
    }

    fn program(
        &self,
        kernel: &Kernel,
        site: &Site,
        arguments: &[BoundArgument],
    ) -> Result<KernelProgram, String> {
        if self.mode == Mode::Live {
            return Ok(live(kernel, site, arguments, &self.findings, self.limit));
        }
        let make = || Recording::new(kernel, site, arguments, self.limit);
        let recording = self.recordings.borrow_mut().find(kernel, site, arguments, make)?;
        Ok(recording.program(&self.findings))
    }
}

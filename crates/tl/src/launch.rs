//! Launches of kernels on a context.

mod recordings;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cubeyard_device::message::RequestId;
use cubeyard_device::race::Races;
use cubeyard_device::request::PeRef;
use cubeyard_runtime::{
    BoundArgument, Context, Launch, LaunchHandle, LaunchReport, RuntimeError, Site, Stream,
};

use crate::kernel::Kernel;
use crate::program::{Finding, Findings, KernelProgram, Ran, Recording, live};
use crate::race::{RaceText, notice_finding};
use recordings::Recordings;

/// Default maximum number of `tl` calls by a kernel on a PE.
const MOST_CALLS: usize = 1 << 22;

/// Execution mode of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Recorded for each PE, then run. Launches with the same kernel and arguments reuse recordings.
    #[default]
    Recorded,
    /// Step by step together with the PE, so that the kernel may read loaded values.
    Live,
}

/// Launches kernels on a context.
///
/// ```
/// use cubeyard_tl::kernel::Kernel;
/// use cubeyard_tl::launch::Launcher;
/// use cubeyard_memory::address::SipId;
/// use cubeyard_runtime::placement::{Placement, Split};
/// use cubeyard_runtime::{Context, ContextConfig, Launch};
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
/// let launch = Launch::new(SipId::new(0)?).arguments([&x, &y]);
/// let report = launcher.run(&double, &launch)?;
/// assert_eq!(report.pes.len(), 128);
/// assert_eq!(y.read::<f32>()?, vec![3.0; 256 * 64]);
/// assert!(launcher.findings().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Launcher {
    context: Context,
    mode: Mode,
    findings: Findings,
    group: Cell<u16>,
    recordings: RefCell<Recordings>,
    limit: usize,
    /// Programs by launch and PE, kept while operations are recorded or races may still be found.
    ran: RefCell<Ran>,
    /// Number of groups created so far.
    groups: Cell<u16>,
    /// Every launch with its kernel's name, if launches are kept.
    launched: Option<RefCell<Vec<(String, LaunchHandle)>>>,
}

impl Launcher {
    /// Creates a launcher that records kernels.
    pub fn new(context: &Context) -> Self {
        Self::with_mode(context, Mode::Recorded)
    }

    /// Creates a launcher that runs kernels in a given mode.
    pub fn with_mode(context: &Context, mode: Mode) -> Self {
        let (recordings, ran) = (RefCell::default(), RefCell::default());
        Self {
            context: context.clone(),
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

    /// Returns the context of the launcher.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Sets the maximum number of `tl` calls by a kernel on a PE (default 2²²); more calls are considered an endless
    /// loop.
    #[must_use]
    pub fn limit(self, calls: usize) -> Self {
        Self { limit: calls, ..self }
    }

    /// Sets the maximum number of steps in all kept recordings (default 2²²). Above it, the least recently used ones
    /// are dropped, and recorded again when needed.
    #[must_use]
    pub fn keep_steps(self, steps: usize) -> Self {
        let recordings = self.recordings.take().limit(steps);
        Self { recordings: RefCell::new(recordings), ..self }
    }

    /// Keeps a handle of every launch until [`take_launched`](Self::take_launched).
    #[must_use]
    pub fn keep_launched(self) -> Self {
        Self { launched: Some(RefCell::default()), ..self }
    }

    /// Takes the launches since the last call, each with its kernel's name; empty unless launches are kept.
    pub fn take_launched(&self) -> Vec<(String, LaunchHandle)> {
        self.launched.as_ref().map(RefCell::take).unwrap_or_default()
    }

    /// Returns a number for a new group of connected PEs, unique in this launcher, starting at 1; `None` when all 65535
    /// are used.
    pub fn new_group(&self) -> Option<u16> {
        let number = self.groups.get().checked_add(1)?;
        self.groups.set(number);
        Some(number)
    }

    /// Selects the group whose ports later launches use.
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

    /// Returns the recording of a PE in a launch, if operations were being recorded then.
    pub fn ran(&self, launch: RequestId, pe: PeRef) -> Option<Recording> {
        self.ran.borrow().get(&(launch, pe)).cloned()
    }

    /// Takes the recordings of all launches since the recording of operations began.
    pub fn take_ran(&self) -> Ran {
        self.ran.take()
    }

    /// Returns the defects of kernels that ran to completion: reads of memory that was never written, races, accesses
    /// to memory outside the launch's arguments, and messages that were not received.
    pub fn findings(&self) -> Vec<Finding> {
        self.take_found();
        self.findings.borrow().clone()
    }

    /// Fetches races and notices from the machine.
    fn take_found(&self) {
        let mut ran = self.ran.borrow_mut();
        let is_ours = |launch| ran.keys().any(|&(of, _)| of == launch);
        let (found, keeps) = self.context.machine(|machine| {
            let races = machine.races(Races::take).unwrap_or_default().into_iter();
            let races = races.map(|race| RaceText::new(race, machine).finding(&ran));
            let notices = machine.take_notices(is_ours).into_iter();
            let notices = notices.map(|notice| notice_finding(&notice, machine, &ran));
            let found: Vec<_> = races.chain(notices).flatten().collect();
            let quiet = machine.races(|races| races.is_quiet());
            (found, quiet == Some(false) || machine.view().ops().is_kept())
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

    /// Returns the kept recordings in the order in which they were made; each holds the commands of a kernel on
    /// one PE.
    ///
    /// Launches of the same kernel or a clone, with the same arguments and at the same position of the launch, reuse a
    /// recording. It is kept as long as the kernel exists and [`keep_steps`](Self::keep_steps) allows.
    pub fn recordings(&self) -> Vec<Recording> {
        self.recordings.borrow().all()
    }

    fn program(
        &self,
        kernel: &Kernel,
        site: &Site,
        arguments: &[BoundArgument],
    ) -> Result<KernelProgram, String> {
        if self.mode == Mode::Live || kernel.is_live() {
            return Ok(live(kernel, site, arguments, &self.findings, self.limit));
        }
        let make = || Recording::new(kernel, site, arguments, self.limit);
        let recording = self.recordings.borrow_mut().find(kernel, site, arguments, make)?;
        Ok(recording.program(&self.findings))
    }
}

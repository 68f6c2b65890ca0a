//! Kernels as PEs run them: recorded or live, with data or without.

mod effects;
mod findings;
mod operation;
mod values;

pub use findings::{Finding, Findings};
pub use operation::OpDescription;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use cubeyard_device::message::RequestId;
use cubeyard_device::pe::{CommandId, FormatId, Instruction, Instructions, Program};
use cubeyard_device::request::PeRef;
use cubeyard_runtime::{BoundArgument, Site};

use crate::kernel::{Args, Kernel, KernelFuture, panicked};
use crate::numeric::NumericError;
use crate::{KernelState, PlanRun, Tape, Tl, format_name};
use values::Values;

/// A kernel recorded for one PE. It can be run any number of times.
#[derive(Clone, Debug)]
pub struct Recording {
    pub(crate) state: Rc<KernelState>,
}

impl Recording {
    /// Records all commands that a kernel issues on a PE; the error states why it cannot be recorded.
    ///
    /// A kernel with more than `limit` calls of `tl` is considered an endless loop.
    pub fn new(
        kernel: &Kernel,
        site: &Site,
        arguments: &[BoundArgument],
        limit: usize,
    ) -> Result<Self, String> {
        let tl = Tl::new(kernel.shared_name(), site.clone(), true, limit);
        let state = Rc::clone(&tl.state);
        let mut future = kernel.start(tl.clone(), Args::new(tl, arguments.into()));
        match poll(&state, &mut future)? {
            Poll::Ready(()) => {
                state.check_slots()?;
                state.tape.borrow_mut().end();
                Ok(Self { state })
            }
            Poll::Pending => Err(format!(
                "{} awaits a future that is not of tl: it cannot be recorded",
                kernel.name()
            )),
        }
    }

    /// Returns the recorded commands.
    pub fn tape(&self) -> std::cell::Ref<'_, Tape> {
        self.state.tape.borrow()
    }

    /// Checks that all accesses are within these sorted address ranges; the error names the first access that is not.
    pub(crate) fn check_live(&self, live: &[Range<u64>]) -> Result<(), String> {
        self.state.check_live(live)
    }

    /// Returns a program that runs the recording.
    pub fn program(&self, findings: &Findings) -> KernelProgram {
        KernelProgram::new(Rc::clone(&self.state), None, findings)
    }
}

/// Recordings by launch and PE.
pub type Ran = BTreeMap<(RequestId, PeRef), Recording>;

/// Starts a kernel that runs step by step with its PE and may read loaded values. It fails after `limit` calls of `tl`.
pub fn live(
    kernel: &Kernel,
    site: &Site,
    arguments: &[BoundArgument],
    findings: &Findings,
    limit: usize,
) -> KernelProgram {
    let tl = Tl::new(kernel.shared_name(), site.clone(), false, limit);
    let state = Rc::clone(&tl.state);
    let future = kernel.start(tl.clone(), Args::new(tl, arguments.into()));
    KernelProgram::new(state, Some(future), findings)
}

/// Resumes a kernel; returns whether it has ended, or its error.
fn poll(state: &KernelState, future: &mut KernelFuture) -> Result<Poll<()>, String> {
    let mut context = Context::from_waker(Waker::noop());
    let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
    match (state.error.take(), polled) {
        (Some(error), _) => Err(error),
        (None, Ok(polled)) => Ok(polled),
        (None, Err(payload)) => Err(panicked(&state.kernel, &*payload)),
    }
}

/// A kernel as a PE's core runs it.
pub struct KernelProgram {
    pub(crate) state: Rc<KernelState>,
    /// The rest of the kernel, if it is live and has not ended.
    future: Option<KernelFuture>,
    tape: Rc<RefCell<Tape>>,
    has_data: bool,
    /// Indices of the next step and of the next command.
    next: (usize, CommandId),
    values: Values,
    composites: BTreeMap<CommandId, PlanRun>,
    /// Parts of tiles that need several loads, which may complete in any order.
    partial: BTreeMap<CommandId, BTreeMap<u32, Vec<u8>>>,
    findings: Findings,
}

impl fmt::Debug for KernelProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelProgram").field("kernel", &self.state.kernel).finish_non_exhaustive()
    }
}

impl KernelProgram {
    fn new(state: Rc<KernelState>, future: Option<KernelFuture>, findings: &Findings) -> Self {
        Self {
            tape: Rc::clone(&state.tape),
            has_data: state.site.has_data,
            state,
            future,
            next: (0, 0),
            values: Values::default(),
            composites: BTreeMap::new(),
            partial: BTreeMap::new(),
            findings: Rc::clone(findings),
        }
    }

    /// Returns the commands issued so far.
    pub fn recording(&self) -> Recording {
        Recording { state: Rc::clone(&self.state) }
    }

    /// Advances to the next step, if there is one.
    fn step(&mut self) -> Option<Instruction> {
        let tape = self.tape.borrow();
        let (step, command) = &mut self.next;
        let now = tape.step(*step)?;
        *step += 1;
        if now.command().is_some() {
            if self.has_data {
                self.values.fill(tape.order(*command));
            }
            *command += 1;
        }
        Some(now)
    }

    /// Passes the awaited value to the kernel.
    fn answer(&mut self) {
        if let Some(value) = self.state.wanted.take() {
            self.state.known.borrow_mut().push((value, self.values.get(value)));
            self.values.used(value, &self.tape.borrow());
        }
    }

    fn find(&self, command: CommandId, what: String) {
        let tape = self.tape.borrow();
        let place = tape.place(command).to_string();
        let (kernel, pe) = (self.state.kernel.to_string(), self.state.site.pe);
        let finding = Finding { kernel, pe, place, what };
        let mut findings = self.findings.borrow_mut();
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }

    fn wrong(&self, command: CommandId, error: &NumericError) -> String {
        let tape = self.tape.borrow();
        let at = tape.place(command);
        format!("{} on {}, {at}: {error}", self.state.kernel, self.state.site.pe)
    }
}

impl Program for KernelProgram {
    fn next(&mut self) -> Result<Option<Instruction>, String> {
        loop {
            if let Some(next) = self.step() {
                return Ok(Some(next));
            }
            self.answer();
            let Some(future) = &mut self.future else { return Ok(None) };
            match poll(&self.state, future) {
                Ok(Poll::Ready(())) => {
                    self.future = None;
                    self.state.check_slots()?;
                }
                Ok(Poll::Pending) if self.state.wanted.get().is_some() => {}
                Ok(Poll::Pending) => {
                    let what = "awaits a future that is not of tl";
                    return Err(format!("{} {what}", self.state.kernel));
                }
                Err(what) => return Err(what),
            }
        }
    }

    fn instructions(&self) -> Option<Rc<Instructions>> {
        if self.has_data { None } else { self.tape.borrow().complete() }
    }

    fn has_data(&self) -> bool {
        self.has_data
    }

    fn parts(&self) -> Vec<CommandId> {
        self.tape.borrow().parts.clone()
    }

    fn loaded(
        &mut self,
        command: CommandId,
        load: u32,
        bytes: Vec<u8>,
        unwritten: Option<u64>,
    ) -> Result<(), String> {
        if let Some(address) = unwritten {
            let effect = self.tape.borrow().order(command).effect.to_string();
            self.find(command, format!("{effect} reads memory that nobody wrote, at {address:#x}"));
        }
        self.load(command, load, bytes).map_err(|error| self.wrong(command, &error))
    }

    fn chosen(&mut self, command: CommandId, place: usize) -> Result<(), String> {
        if !self.state.site.has_data {
            return Ok(());
        }
        self.choose(command, place).map_err(|error| self.wrong(command, &error))
    }

    fn computed(&mut self, command: CommandId, part: u32) -> Result<(), String> {
        self.compute(command, part).map_err(|error| self.wrong(command, &error))
    }

    fn payload(&mut self, command: CommandId, store: u32) -> Result<Vec<u8>, String> {
        Ok(self.stored(command, store))
    }

    fn describe(&self, command: CommandId) -> String {
        let tape = self.tape.borrow();
        format!("{} of {}", tape.describe(command), self.state.kernel)
    }

    fn format_name(&self, format: FormatId) -> String {
        format_name(format)
    }
}

//! Kernels as PEs run them: recorded or live, with numbers or without.

mod operation;

pub use operation::Operation;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use cubeyard_device::message::Direction;
use cubeyard_device::pe::{CommandId, Next, Program, Work};
use cubeyard_device::request::PeRef;
use cubeyard_runtime::{BoundArgument, Site};

use crate::kernel::{Args, Kernel, KernelFuture, panicked};
use crate::numeric::{self, Array, NumericError, TileType};
use crate::tl::{
    Effect, Input, Mask, Operand, Order, PlanRun, State, Step, Tape, Tl, ValueId, place,
};

/// Something that is wrong with a kernel although it ran to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kernel.
    pub kernel: String,
    /// Where it ran.
    pub pe: PeRef,
    /// The file and line.
    pub place: String,
    /// What.
    pub what: String,
}

impl Finding {
    /// Whether another is of the same line of the same kernel and begins alike: many PEs do the same.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let begin = |what: &str| what.split(" bytes ").next().map(str::to_owned);
        (&self.kernel, &self.place) == (&other.kernel, &other.place)
            && begin(&self.what) == begin(&other.what)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}, {}: {}", self.kernel, self.pe, self.place, self.what)
    }
}

/// Where findings are put.
pub type Findings = Rc<RefCell<Vec<Finding>>>;

/// A kernel that was written down for one PE. It can be run any number of times.
#[derive(Clone, Debug)]
pub struct Recording {
    pub(crate) state: Rc<State>,
}

impl Recording {
    /// Writes a kernel down: everything that it would order on a PE, or why it cannot be.
    ///
    /// It may order so many commands; with more it is taken for one that never ends.
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
            Poll::Ready(()) => Ok(Self { state }),
            Poll::Pending => Err(format!(
                "{} waits for something that is none of tl's: it cannot be recorded",
                kernel.name()
            )),
        }
    }

    /// What it orders.
    pub fn tape(&self) -> std::cell::Ref<'_, Tape> {
        self.state.tape.borrow()
    }

    /// A program that runs it.
    pub fn program(&self, findings: &Findings) -> KernelProgram {
        KernelProgram::new(Rc::clone(&self.state), None, findings)
    }
}

/// A kernel that runs as it goes, and may look at what it has loaded. It may order so many commands.
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

/// Lets a kernel go on: whether it has ended, or what went wrong.
fn poll(state: &State, future: &mut KernelFuture) -> Result<Poll<()>, String> {
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
    pub(crate) state: Rc<State>,
    /// The rest of the kernel, if it is live and has not ended.
    future: Option<KernelFuture>,
    next: usize,
    values: Values,
    composites: BTreeMap<CommandId, PlanRun>,
    /// What has been loaded of tiles that take several accesses, which may end in any order.
    partial: BTreeMap<CommandId, BTreeMap<u32, Vec<u8>>>,
    findings: Findings,
}

impl fmt::Debug for KernelProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelProgram").field("kernel", &self.state.kernel).finish_non_exhaustive()
    }
}

/// What tiles hold.
#[derive(Debug, Default)]
struct Values {
    arrays: Vec<Option<Rc<Array>>>,
    used: Vec<u32>,
}

impl Values {
    fn set(&mut self, value: ValueId, array: Array) {
        let place = value as usize;
        if self.arrays.len() <= place {
            self.arrays.resize(place + 1, None);
            self.used.resize(place + 1, 0);
        }
        self.arrays[place] = Some(Rc::new(array));
    }

    /// The value of a load that a mask leaves nothing of: no access will bring it.
    fn fill(&mut self, order: &Order) {
        if let Effect::Load { value, ty, mask: Some((mask, other)) } = &order.effect
            && mask.count() == 0
        {
            let array = Array::full(ty.clone(), *other).expect("checked when it was ordered");
            self.set(*value, array);
        }
    }

    fn get(&self, value: ValueId) -> Rc<Array> {
        let array = self.arrays.get(value as usize).and_then(Option::as_ref);
        Rc::clone(array.expect("a value is made before it is used"))
    }

    /// A value was used; it is forgotten if nobody uses it any more.
    fn used(&mut self, value: ValueId, tape: &Tape) {
        let place = value as usize;
        self.used[place] += 1;
        if tape.is_last_use(value, self.used[place]) {
            self.arrays[place] = None;
        }
    }
}

impl KernelProgram {
    fn new(state: Rc<State>, future: Option<KernelFuture>, findings: &Findings) -> Self {
        Self {
            state,
            future,
            next: 0,
            values: Values::default(),
            composites: BTreeMap::new(),
            partial: BTreeMap::new(),
            findings: Rc::clone(findings),
        }
    }

    /// What it orders, as far as it has got.
    pub fn recording(&self) -> Recording {
        Recording { state: Rc::clone(&self.state) }
    }

    /// The step after the last that was given, as far as there is one.
    fn step(&mut self) -> Option<Next> {
        let tape = self.state.tape.borrow();
        let step = tape.steps().get(self.next)?;
        self.next += 1;
        Some(match step {
            Step::Command(order) => {
                if self.state.site.has_data {
                    self.values.fill(order);
                }
                Next::Command(order.command.clone())
            }
            Step::Wait(command) => Next::Wait(*command),
            Step::Call => Next::Dispatch(1),
        })
    }

    /// Gives the kernel the value that it waits for.
    fn answer(&mut self) {
        if let Some(value) = self.state.wanted.take() {
            self.state.known.borrow_mut().push((value, self.values.get(value)));
            self.values.used(value, &self.state.tape.borrow());
        }
    }

    fn find(&self, command: CommandId, what: String) {
        let tape = self.state.tape.borrow();
        let place = place(tape.order(command).place);
        let (kernel, pe) = (self.state.kernel.to_string(), self.state.site.pe);
        let finding = Finding { kernel, pe, place, what };
        let mut findings = self.findings.borrow_mut();
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }

    /// A tile as an operation sees it.
    fn array(&self, input: &Input) -> Rc<Array> {
        let array = self.values.get(input.value);
        if *array.ty() == input.ty {
            return array;
        }
        numeric::reshape(&array, &input.ty.shape).expect("checked when it was ordered").into()
    }

    fn wrong(&self, command: CommandId, error: &NumericError) -> String {
        let tape = self.state.tape.borrow();
        let at = place(tape.order(command).place);
        format!("{} on {}, {at}: {error}", self.state.kernel, self.state.site.pe)
    }

    fn load(&mut self, command: CommandId, load: u32, bytes: Vec<u8>) -> Result<(), NumericError> {
        let tape = Rc::clone(&self.state.tape);
        let tape = tape.borrow();
        let order = tape.order(command);
        match &order.effect {
            Effect::Load { value, ty, mask } => {
                let parts = self.partial.entry(command).or_default();
                parts.insert(load, bytes);
                if parts.len() < accesses(order)[0] {
                    return Ok(());
                }
                let parts = self.partial.remove(&command).unwrap_or_default();
                let all: Vec<u8> = parts.into_values().flatten().collect();
                self.values.set(*value, spread(ty, mask.as_ref(), &all)?);
            }
            Effect::Composite(plan) => {
                self.composites.entry(command).or_default().loaded(plan, load, &bytes)?;
            }
            Effect::Receive { value, ty, .. } => {
                self.values.set(*value, Array::from_bytes(ty, &bytes)?);
            }
            other => unreachable!("{other} loads nothing"),
        }
        Ok(())
    }

    fn compute(&mut self, command: CommandId, part: u32) -> Result<(), NumericError> {
        let tape = Rc::clone(&self.state.tape);
        let tape = tape.borrow();
        match &tape.order(command).effect {
            Effect::Compute { op, inputs, output, .. } => {
                let arrays: Vec<Rc<Array>> = inputs
                    .iter()
                    .map(|operand| match operand {
                        Operand::Tile(input) => Ok(self.array(input)),
                        Operand::Number(number, ty) => {
                            Array::full(ty.clone(), *number).map(Rc::new)
                        }
                    })
                    .collect::<Result<_, _>>()?;
                let arrays: Vec<_> = arrays.iter().map(|array| &**array).collect();
                self.values.set(*output, op.compute(&arrays)?);
                self.used(&tape, command);
            }
            Effect::Composite(plan) => {
                let mut run = self.composites.remove(&command).unwrap_or_default();
                run.computed(plan, part, &mut |input| self.array(input))?;
                let last = part + 1 == cubeyard_device::pe::Pipeline::parts(&**plan)[1];
                match plan.value.filter(|_| last) {
                    Some(value) => {
                        let output = run.output().expect("it stays in the TCM");
                        self.values.set(value, output);
                    }
                    None => {
                        self.composites.insert(command, run);
                    }
                }
                if last {
                    self.used(&tape, command);
                }
            }
            other => unreachable!("{other} computes nothing"),
        }
        Ok(())
    }

    /// Notes that all inputs of a command were used.
    fn used(&mut self, tape: &Tape, command: CommandId) {
        for input in tape.order(command).effect.inputs() {
            self.values.used(input.value, tape);
        }
    }
}

impl Program for KernelProgram {
    fn next(&mut self) -> Next {
        loop {
            if let Some(next) = self.step() {
                return next;
            }
            self.answer();
            let Some(future) = &mut self.future else { return Next::End };
            match poll(&self.state, future) {
                Ok(Poll::Ready(())) => self.future = None,
                Ok(Poll::Pending) if self.state.wanted.get().is_some() => {}
                Ok(Poll::Pending) => {
                    let what = "waits for something that is none of tl's";
                    return Next::Failed(format!("{} {what}", self.state.kernel));
                }
                Err(what) => return Next::Failed(what),
            }
        }
    }

    fn has_data(&self) -> bool {
        self.state.site.has_data
    }

    fn loaded(
        &mut self,
        command: CommandId,
        load: u32,
        bytes: Vec<u8>,
        unwritten: Option<u64>,
    ) -> Result<(), String> {
        if let Some(address) = unwritten {
            let effect = self.state.tape.borrow().order(command).effect.to_string();
            self.find(command, format!("{effect} reads memory that nobody wrote, at {address:#x}"));
        }
        self.load(command, load, bytes).map_err(|error| self.wrong(command, &error))
    }

    fn computed(&mut self, command: CommandId, part: u32) -> Result<(), String> {
        self.compute(command, part).map_err(|error| self.wrong(command, &error))
    }

    fn payload(&mut self, command: CommandId, store: u32) -> Result<Vec<u8>, String> {
        let tape = Rc::clone(&self.state.tape);
        let tape = tape.borrow();
        match &tape.order(command).effect {
            Effect::Store { input, mask } => {
                let bytes = self.array(input).to_bytes();
                let bytes = gather(&bytes, input.ty.dtype.width(), mask.as_deref());
                let part = part_of(&tape, command, store, bytes);
                if is_last_store(&tape, command, store) {
                    self.used(&tape, command);
                }
                Ok(part)
            }
            Effect::Send { input, .. } => {
                let bytes = self.array(input).to_bytes();
                self.used(&tape, command);
                Ok(bytes)
            }
            Effect::Composite(_) => {
                let run = self.composites.get_mut(&command).expect("it was computed before");
                Ok(run.payload(store))
            }
            other => unreachable!("{other} stores nothing"),
        }
    }

    fn describe(&self, command: CommandId) -> String {
        let tape = self.state.tape.borrow();
        format!("{} of {}", tape.order(command), self.state.kernel)
    }
}

/// The elements of a tile from those that were loaded.
fn spread(
    ty: &TileType,
    mask: Option<&(Rc<Mask>, f64)>,
    bytes: &[u8],
) -> Result<Array, NumericError> {
    let Some((mask, other)) = mask else { return Array::from_bytes(ty, bytes) };
    let mut all = Array::full(ty.clone(), *other)?.to_bytes();
    let width = ty.dtype.width();
    let places = all.chunks_exact_mut(width).zip(mask.touched());
    let touched = places.filter(|(_, touched)| **touched).map(|(place, _)| place);
    touched.zip(bytes.chunks_exact(width)).for_each(|(place, bytes)| place.copy_from_slice(bytes));
    Array::from_bytes(ty, &all)
}

/// The bytes of the elements that are stored.
fn gather(bytes: &[u8], width: usize, mask: Option<&Mask>) -> Vec<u8> {
    let Some(mask) = mask else { return bytes.to_vec() };
    let elements = bytes.chunks_exact(width).zip(mask.touched());
    elements.filter(|(_, touched)| **touched).flat_map(|(bytes, _)| bytes).copied().collect()
}

/// How many loads and stores a command is.
fn accesses(order: &Order) -> [usize; 2] {
    match &order.command.work {
        Work::Dma(dma) if dma.direction == Direction::Read => [1, 0],
        Work::Dma(_) => [0, 1],
        Work::Pipeline(pipeline) => {
            let [loads, _, stores] = pipeline.parts();
            [loads as usize, stores as usize]
        }
        Work::Compute(_) | Work::Send(_) | Work::Receive(_) => [0, 0],
    }
}

/// The accesses of a store, in order.
fn stores(tape: &Tape, command: CommandId) -> Vec<u64> {
    match &tape.order(command).command.work {
        Work::Dma(dma) => vec![dma.bytes],
        Work::Pipeline(pipeline) => {
            (0..pipeline.parts()[2]).map(|index| pipeline.store(index).bytes).collect()
        }
        Work::Compute(_) | Work::Send(_) | Work::Receive(_) => Vec::new(),
    }
}

/// What one of the accesses of a store moves.
fn part_of(tape: &Tape, command: CommandId, store: u32, bytes: Vec<u8>) -> Vec<u8> {
    let sizes = stores(tape, command);
    if sizes.len() == 1 {
        return bytes;
    }
    let from: u64 = sizes[..store as usize].iter().sum();
    let from = usize::try_from(from).expect("it fits memory");
    let size = usize::try_from(sizes[store as usize]).expect("it fits memory");
    bytes[from..from + size].to_vec()
}

fn is_last_store(tape: &Tape, command: CommandId, store: u32) -> bool {
    store as usize + 1 == stores(tape, command).len()
}

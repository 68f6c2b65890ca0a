//! The language that kernels are written in, after Triton's `tl`.
//!
//! A kernel is an `async` function of a [`Tl`] and its [arguments](crate::kernel::Args). It runs once for
//! each PE of a launch, and what it calls becomes commands for the PE's engines: [`Tl::load`] and [`Tl::store`]
//! move tiles between memory and the TCM, [`Tl::dot`] and the functions of [`math`] compute, and
//! [`Tl::gemm`] and its like are tiled operations that load, compute and store at once. Nothing waits unless
//! it must: a command begins when what it uses is there.
//!
//! Only [`Tl::wait`] and [`Tl::value`] are waited for. A kernel without `value` never looks at what it
//! loads, so it can be recorded once and run any number of times; one with it runs live, and needs data.
//!
//! What is wrong ends the kernel there, with the line: shapes that do not fit, a tile that the TCM has no
//! room for, an access outside every tensor. The functions here do not return errors, so that a kernel reads
//! like one; they unwind it, silently, to whoever runs it.
//!
//! ```
//! use cubeyard_kernels::kernel::{Args, Kernel};
//! use cubeyard_kernels::tl::Tl;
//!
//! async fn double(tl: Tl, args: Args) {
//!     let (x, y) = (args.tensor(0).local(), args.tensor(1).local());
//!     let tile = tl.load(&x);
//!     tl.store(&y, &(&tile + &tile));
//! }
//!
//! let kernel = Kernel::new("double", |tl, args| Box::pin(double(tl, args)));
//! assert_eq!(kernel.name(), "double");
//! ```

mod composite;
mod layout;
mod mask;
pub mod math;
mod message;
mod op;
mod reference;
mod scratch;
mod tape;
mod tile;
mod traffic;

pub(crate) use composite::PlanRun;
pub use composite::{Composite, Epilogue, Handle, Plan, Source, TileGrid};
pub use layout::pack;
pub use mask::Mask;
pub use message::Port;
pub use op::Op;
pub use reference::Ref;
pub use tape::{Effect, Input, Operand, Order, Place, Step, Tape, ValueId, place};
pub use tile::Tile;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use cubeyard_device::message::Direction;
use cubeyard_device::pe::{Command, CommandId, Dma, Pipeline, Strips, Work};
use cubeyard_runtime::Site;
use cubeyard_runtime::dtype::DType;

use crate::numeric::{Array, NumericError, TileType};
use scratch::Scratch;
use traffic::Traffic;

/// A kernel's view of the PE that it runs on. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tl {
    pub(crate) state: Rc<State>,
}

/// What a kernel and its tiles share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) kernel: Rc<str>,
    pub(crate) site: Site,
    pub(crate) tape: Rc<RefCell<Tape>>,
    scratch: RefCell<Scratch>,
    /// Whether the kernel is only written down.
    recording: bool,
    /// Values that were asked for, once they are known.
    pub(crate) known: RefCell<Vec<(ValueId, Rc<Array>)>>,
    /// The value that the kernel waits for.
    pub(crate) wanted: Cell<Option<ValueId>>,
    pub(crate) error: RefCell<Option<String>>,
    /// How many commands it may order before it is taken for one that never ends.
    limit: usize,
    /// The accesses of the last commands.
    traffic: RefCell<Traffic>,
}

/// What unwinds a kernel that has gone wrong.
pub(crate) struct Abort;

impl Tl {
    pub(crate) fn new(kernel: Rc<str>, site: Site, recording: bool, limit: usize) -> Self {
        let scratch = Scratch::new(site.core.scratch, site.core.window);
        let state = State {
            kernel,
            site,
            tape: Rc::default(),
            scratch: RefCell::new(scratch),
            recording,
            known: RefCell::default(),
            wanted: Cell::new(None),
            error: RefCell::default(),
            limit,
            traffic: RefCell::default(),
        };
        Self { state: Rc::new(state) }
    }

    /// Which of the launch's PEs of its cube this is (axis 0), or which of its cubes (axis 1).
    #[track_caller]
    pub fn program_id(&self, axis: usize) -> u64 {
        self.axis(&self.state.site.index, axis)
    }

    /// How many PEs of each cube the launch has (axis 0), or how many cubes (axis 1).
    #[track_caller]
    pub fn num_programs(&self, axis: usize) -> u64 {
        self.axis(&self.state.site.count, axis)
    }

    #[track_caller]
    fn axis(&self, of: &[usize; 2], axis: usize) -> u64 {
        match of.get(axis) {
            Some(&value) => value as u64,
            None => self.fail(format!("axis {axis}: there are 0, PEs of a cube, and 1, cubes")),
        }
    }

    /// Quotient, rounded up; how many tiles of `b` cover `a`.
    #[track_caller]
    pub fn cdiv(&self, a: u64, b: u64) -> u64 {
        if b == 0 { self.fail("cdiv by 0") } else { a.div_ceil(b) }
    }

    /// M, K and N of a tile of the matrix engine.
    pub fn gemm_tile(&self) -> [u64; 3] {
        let gemm = &self.state.site.core.gemm;
        [gemm.m, gemm.k, gemm.n].map(u64::from)
    }

    /// A reference to memory: elements from an address on that follow each other. Nothing is moved.
    pub fn ref_(&self, address: u64, shape: &[u64], dtype: DType) -> Ref {
        Ref::new(address, shape, dtype)
    }

    /// Loads a tile into the TCM.
    #[track_caller]
    pub fn load(&self, from: &Ref) -> Tile {
        self.load_with(from, None)
    }

    /// Loads what a mask chooses of a tile; the other elements are `other`.
    #[track_caller]
    pub fn load_masked(&self, from: &Ref, mask: &Mask, other: f64) -> Tile {
        self.check(mask.check(from.ty()));
        self.load_with(from, Some((Rc::new(mask.clone()), other)))
    }

    #[track_caller]
    fn load_with(&self, from: &Ref, mask: Option<(Rc<Mask>, f64)>) -> Tile {
        let ty = self.checked(TileType::new(from.ty().dtype, &from.ty().shape));
        if let Some((_, other)) = &mask {
            self.checked(crate::numeric::infer::full(&ty, *other));
        }
        let accesses = from.accesses(Direction::Read, mask.as_ref().map(|(mask, _)| &**mask));
        self.check_live(&accesses);
        let tile = self.tile(ty.clone());
        let effect = Effect::Load { value: tile.value(), ty, mask };
        let after = self.meet(&accesses);
        self.order(dma_work(accesses), effect, &[], Some(&tile), after);
        tile
    }

    /// Stores a tile from the TCM.
    #[track_caller]
    pub fn store(&self, to: &Ref, tile: &Tile) {
        self.store_with(to, tile, None);
    }

    /// Stores what a mask chooses of a tile.
    #[track_caller]
    pub fn store_masked(&self, to: &Ref, tile: &Tile, mask: &Mask) {
        self.check(mask.check(tile.ty()));
        self.store_with(to, tile, Some(Rc::new(mask.clone())));
    }

    #[track_caller]
    fn store_with(&self, to: &Ref, tile: &Tile, mask: Option<Rc<Mask>>) {
        if to.ty() != tile.ty() {
            self.fail(format!("store of {} to {}: they must be the same", tile.ty(), to.ty()));
        }
        let accesses = to.accesses(Direction::Write, mask.as_deref());
        self.check_live(&accesses);
        let effect = Effect::Store { input: tile.input(), mask };
        let after = self.meet(&accesses);
        self.order(dma_work(accesses), effect, &[tile], None, after);
    }

    /// Waits until a tiled operation is done.
    #[track_caller]
    pub fn wait(&self, handle: &Handle) -> impl Future<Output = ()> + use<> {
        self.state.tape.borrow_mut().steps.push(Step::Wait(handle.command()));
        std::future::ready(())
    }

    /// Waits for a tile and looks at its elements. A kernel that does so cannot be recorded, and needs
    /// data.
    #[track_caller]
    pub fn value(&self, tile: &Tile) -> impl Future<Output = Vec<f64>> + use<> {
        if self.state.recording {
            let what = "the kernel looks at what it loaded, so it cannot be recorded: run it live";
            self.fail(what);
        }
        if !self.state.site.has_data {
            self.fail("the kernel looks at what it loaded, so it needs data mode");
        }
        self.state.tape.borrow_mut().steps.push(Step::Wait(tile.producer()));
        self.state.use_value(tile.value());
        Value { state: Rc::clone(&self.state), tile: tile.clone() }
    }

    /// How much of the TCM the kernel's tiles take now.
    pub fn scratch_used(&self) -> u64 {
        self.state.scratch.borrow().used()
    }

    /// A new tile in the TCM, without an order that fills it.
    #[track_caller]
    pub(crate) fn tile(&self, ty: TileType) -> Tile {
        let place = self.state.scratch.borrow_mut().allocate(ty.nbytes());
        let place = self.checked(place);
        Tile::new(self, ty, place)
    }

    /// The commands that the next comes after because they access the same memory, and one of the two
    /// writes it: a kernel sees memory as if each of its commands ended before the next began.
    #[track_caller]
    pub(crate) fn meet(&self, accesses: &[Dma]) -> Vec<CommandId> {
        let id = self.next_command();
        let window = self.state.site.core.window;
        self.state.traffic.borrow_mut().meet(id, window, accesses)
    }

    /// Orders a command that reads some tiles and writes one, after some others.
    #[track_caller]
    pub(crate) fn order(
        &self,
        work: Work,
        effect: Effect,
        reads: &[&Tile],
        writes: Option<&Tile>,
        mut after: Vec<CommandId>,
    ) {
        let id = self.next_command();
        let mut scratch = self.state.scratch.borrow_mut();
        after.extend(reads.iter().map(|tile| tile.producer()));
        if let Some(tile) = writes {
            after.extend(scratch.users(id, tile.place()));
            scratch.touch(id, tile.place());
        }
        reads.iter().for_each(|tile| scratch.touch(id, tile.place()));
        drop(scratch);
        self.push(work, effect, after, Vec::new());
        if let Some(tile) = writes {
            tile.made_by(id);
        }
    }

    #[track_caller]
    fn push(
        &self,
        work: Work,
        effect: Effect,
        mut after: Vec<CommandId>,
        mut loads_after: Vec<CommandId>,
    ) -> CommandId {
        let id = self.next_command();
        for list in [&mut after, &mut loads_after] {
            list.retain(|&before| before + self.state.site.core.window > id);
            list.sort_unstable();
            list.dedup();
        }
        for input in effect.inputs() {
            self.state.use_value(input.value);
        }
        let command = Command {
            work,
            after: after.as_slice().into(),
            loads_after: loads_after.as_slice().into(),
        };
        let order = Order { command, effect, place: Location::caller() };
        let mut tape = self.state.tape.borrow_mut();
        let step = u32::try_from(tape.steps.len()).expect("fewer than 2³² steps");
        tape.commands.push(step);
        tape.steps.push(Step::Command(order));
        tape.peak = self.state.scratch.borrow().peak();
        id
    }

    /// The number of the next command.
    #[track_caller]
    fn next_command(&self) -> CommandId {
        let count = self.state.tape.borrow().commands.len();
        let limit = self.state.limit;
        if count >= limit {
            self.fail(format!("more than {limit} commands: it seems never to end"));
        }
        u32::try_from(count).expect("below the limit")
    }

    /// Ends the kernel: what is wrong, and at which line.
    #[track_caller]
    pub(crate) fn fail(&self, what: impl Display) -> ! {
        let (kernel, pe) = (&self.state.kernel, self.state.site.pe);
        let text = format!("{kernel} on {pe}, {}: {what}", place(Location::caller()));
        self.state.error.borrow_mut().get_or_insert(text);
        std::panic::resume_unwind(Box::new(Abort) as Box<dyn Any + Send>)
    }

    #[track_caller]
    pub(crate) fn check(&self, result: Result<(), String>) {
        self.checked(result);
    }

    #[track_caller]
    pub(crate) fn checked<T>(&self, result: Result<T, impl Into<Problem>>) -> T {
        match result {
            Ok(value) => value,
            Err(problem) => self.fail(problem.into().0),
        }
    }

    /// Ends the kernel if an access is not within a tensor.
    #[track_caller]
    pub(crate) fn check_live(&self, accesses: &[Dma]) {
        for dma in accesses {
            if let Some(address) = self.outside(dma) {
                let (verb, bytes) = (dma.direction, dma.bytes);
                let from = dma.address;
                self.fail(format!(
                    "{verb} of {bytes} bytes from {from:#x} on: {address:#x} is outside every tensor"
                ));
            }
        }
    }

    /// The first address of an access that is in no tensor.
    fn outside(&self, dma: &Dma) -> Option<u64> {
        let extent = dma.rows.map_or(dma.bytes, |rows| rows.extent(dma.bytes));
        self.first_outside(dma.address, extent)?;
        let rows =
            dma.rows.unwrap_or(cubeyard_device::message::Rows { bytes: dma.bytes, pitch: 0 });
        rows.segments(0, dma.bytes)
            .find_map(|(offset, bytes)| self.first_outside(dma.address + offset, bytes))
    }

    fn first_outside(&self, address: u64, bytes: u64) -> Option<u64> {
        let live = &self.state.site.live;
        let mut at = address;
        while at < address.saturating_add(bytes) {
            let place = live.partition_point(|range| range.start <= at);
            match live[..place].last().filter(|range| range.end > at) {
                Some(range) => at = range.end,
                None => return Some(at),
            }
        }
        None
    }
}

/// What is wrong, in words.
pub(crate) struct Problem(String);

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<NumericError> for Problem {
    fn from(error: NumericError) -> Self {
        Self(error.to_string())
    }
}

impl State {
    /// A number for one more value.
    fn new_value(&self) -> ValueId {
        let mut tape = self.tape.borrow_mut();
        tape.uses.push(0);
        tape.held.push(true);
        u32::try_from(tape.uses.len() - 1).expect("fewer than 2³² values")
    }

    fn use_value(&self, value: ValueId) {
        self.tape.borrow_mut().uses[value as usize] += 1;
    }
}

/// A value that is waited for.
struct Value {
    state: Rc<State>,
    tile: Tile,
}

impl Future for Value {
    type Output = Vec<f64>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Vec<f64>> {
        let wanted = self.tile.value();
        let mut known = self.state.known.borrow_mut();
        let Some(place) = known.iter().position(|(value, _)| *value == wanted) else {
            self.state.wanted.set(Some(wanted));
            return Poll::Pending;
        };
        let (_, array) = known.swap_remove(place);
        Poll::Ready(array.values())
    }
}

/// The work of some accesses: one, or several that follow each other.
fn dma_work(mut accesses: Vec<Dma>) -> Work {
    match accesses.len() {
        1 => Work::Dma(accesses.remove(0)),
        _ => Work::Pipeline(Rc::new(Accesses(accesses))),
    }
}

/// Accesses of one direction that follow each other.
#[derive(Debug)]
struct Accesses(Vec<Dma>);

impl Accesses {
    fn count(&self, direction: Direction) -> u32 {
        let is = self.0.first().is_some_and(|dma| dma.direction == direction);
        if is { u32::try_from(self.0.len()).expect("fewer than 2³² accesses") } else { 0 }
    }
}

impl Pipeline for Accesses {
    fn parts(&self) -> [u32; 3] {
        [self.count(Direction::Read), 0, self.count(Direction::Write)]
    }

    fn load(&self, index: u32) -> Dma {
        self.0[index as usize]
    }

    fn load_after(&self, _: u32) -> u32 {
        0
    }

    fn compute(&self, _: u32) -> Strips {
        unreachable!("it computes nothing")
    }

    fn compute_after(&self, _: u32) -> [u32; 2] {
        [0; 2]
    }

    fn store(&self, index: u32) -> Dma {
        self.0[index as usize]
    }

    fn store_after(&self, _: u32) -> u32 {
        0
    }
}

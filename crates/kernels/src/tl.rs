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
mod fail;
mod layout;
mod live;
mod mask;
pub mod math;
mod memory;
mod message;
mod op;
mod order;
mod reference;
mod scratch;
mod tape;
mod tile;
mod traffic;
mod value;

pub(crate) use composite::PlanRun;
pub use composite::{Composite, Epilogue, Handle, Plan, Source, TileGrid};
pub use cubeyard_device::pe::Step;
pub use layout::pack;
pub use mask::Mask;
pub use message::Port;
pub(crate) use message::format_name;
pub use op::Op;
pub use reference::Ref;
pub use tape::{Computation, Effect, Input, Operand, Order, Place, Tape, ValueId, place};
pub use tile::Tile;

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use cubeyard_runtime::Site;
use cubeyard_runtime::dtype::DType;

use crate::numeric::Array;
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
    /// How many calls it may make before it is taken for one that never ends, and how many it has made.
    limit: usize,
    calls: Cell<usize>,
    /// The accesses of the last commands.
    traffic: RefCell<Traffic>,
    /// What a recording accesses: ranges of addresses in order, worked out when they are first asked for.
    reach: OnceCell<Vec<Range<u64>>>,
}

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
            calls: Cell::new(0),
            traffic: RefCell::default(),
            reach: OnceCell::new(),
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
        self.count();
        match of.get(axis) {
            Some(&value) => value as u64,
            None => self.fail(format!("axis {axis}: there are 0, PEs of a cube, and 1, cubes")),
        }
    }

    /// Quotient, rounded up; how many tiles of `b` cover `a`.
    #[track_caller]
    pub fn cdiv(&self, a: u64, b: u64) -> u64 {
        self.count();
        if b == 0 { self.fail("cdiv by 0") } else { a.div_ceil(b) }
    }

    /// M, K and N of a tile of the matrix engine.
    #[track_caller]
    pub fn gemm_tile(&self) -> [u64; 3] {
        self.count();
        let gemm = &self.state.site.core.gemm;
        [gemm.m, gemm.k, gemm.n].map(u64::from)
    }

    /// A reference to memory: elements from an address on that follow each other. Nothing is moved.
    #[track_caller]
    pub fn ref_(&self, address: u64, shape: &[u64], dtype: DType) -> Ref {
        self.count();
        Ref::new(address, shape, dtype)
    }

    /// How much of the TCM the kernel's tiles may take together.
    #[track_caller]
    pub fn scratch_bytes(&self) -> u64 {
        self.count();
        self.state.site.core.scratch.get()
    }

    /// How much of the TCM the kernel's tiles take now.
    #[track_caller]
    pub fn scratch_used(&self) -> u64 {
        self.count();
        self.state.scratch.borrow().used()
    }
}

impl Tl {
    /// Counts a call of the kernel, and ends it if there were too many: commands or not, a kernel that never ends
    /// would take all memory or time.
    #[track_caller]
    pub(crate) fn count(&self) {
        let calls = self.state.calls.get() + 1;
        self.state.calls.set(calls);
        let limit = self.state.limit;
        if calls > limit {
            self.fail(format!("more than {limit} calls of tl: it seems never to end"));
        }
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

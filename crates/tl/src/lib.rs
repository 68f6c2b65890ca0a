//! The language in which kernels are written, modelled on Triton's `tl`.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! A kernel is an `async` function of a [`Tl`] and its [arguments](crate::kernel::Args). It runs once for each
//! PE of a launch, and its calls become commands for the PE's engines: [`Tl::load`] and [`Tl::store`] move
//! tiles between memory and the TCM, [`Tl::dot`] and the functions of [`math`] compute, and [`Tl::gemm`],
//! [`Tl::map`] and [`Tl::reduce_rows`] are tiled operations that overlap loads, computations and stores.
//! Commands are asynchronous: each begins as soon as its operands are available.
//!
//! Only [`Tl::wait`], [`Tl::wait_for`] and [`Tl::value`] are awaited. A kernel without `value` never reads loaded
//! elements, so it can be recorded once and run any number of times; a kernel with `value` runs live and needs
//! data mode.
//!
//! An error (mismatched shapes, a tile that does not fit in the TCM, an access outside every tensor) ends the kernel,
//! and the message names the line. The functions here therefore return no `Result`: they unwind the kernel silently to
//! its caller, which reports the error.
//!
//! ```
//! use cubeyard_tl::kernel::{Args, Kernel};
//! use cubeyard_tl::Tl;
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

mod along;
mod composite;
mod dot;
mod fail;
mod functions;
pub mod fuse;
mod input;
pub mod kernel;
pub mod launch;
mod layout;
mod live;
mod mask;
pub mod math;
mod memory;
mod message;
pub mod needs;
pub mod numeric;
mod op;
mod order;
mod place;
mod port;
pub mod program;
mod race;
mod reference;
mod scratch;
mod tape;
mod tile;
mod traffic;
mod value;

pub(crate) use composite::PlanRun;
pub use composite::{Composite, Epilogue, Handle, Plan, Source, TileGrid};
pub use cubeyard_device::pe::{Instruction, MemoryOrder};
pub use dot::Dot;
pub use fuse::Lazy;
pub use input::{Input, ValueId};
pub use layout::pack;
pub use mask::Mask;
pub(crate) use message::format_name;
pub use needs::{Needs, TooLarge};
pub use op::{DotForm, Op};
pub use place::{LineId, Place, ScriptLine};
pub use port::Port;
pub use reference::Ref;
pub use tape::{Computation, Effect, Operand, Order, Tape};
pub use tile::Tile;

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use cubeyard_device::pe::CommandId;
use cubeyard_device::request::PeRef;
use cubeyard_runtime::Site;
use cubeyard_runtime::dtype::DType;

use crate::numeric::Array;
use scratch::Scratch;
use traffic::Traffic;

/// A kernel's view of the PE that it runs on. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tl {
    pub(crate) state: Rc<KernelState>,
}

/// State shared by a kernel and its tiles.
#[derive(Debug)]
pub(crate) struct KernelState {
    pub(crate) kernel: Rc<str>,
    pub(crate) site: Site,
    pub(crate) tape: Rc<RefCell<Tape>>,
    scratch: RefCell<Scratch>,
    /// Whether the kernel is being recorded rather than run.
    recording: bool,
    /// Values that the kernel requested and that have been computed since.
    pub(crate) known: RefCell<Vec<(ValueId, Rc<Array>)>>,
    /// The value for which the kernel waits.
    pub(crate) wanted: Cell<Option<ValueId>>,
    pub(crate) error: RefCell<Option<String>>,
    /// The line of the following commands, if the kernel is not written in Rust.
    pub(crate) line: Cell<Option<LineId>>,
    /// Maximum number of `tl` calls (more are considered an endless loop), and calls made so far.
    limit: usize,
    calls: Cell<usize>,
    /// Receives whose slots the kernel has not released.
    slots: RefCell<Vec<CommandId>>,
    /// Memory accesses of the recent commands.
    traffic: RefCell<Traffic>,
    /// Address ranges that a recording accesses, sorted; computed on first use.
    reach: OnceCell<Vec<Range<u64>>>,
}

impl Tl {
    pub(crate) fn new(kernel: Rc<str>, site: Site, recording: bool, limit: usize) -> Self {
        let scratch = Scratch::new(site.core.scratch, site.core.window);
        let state = KernelState {
            kernel,
            site,
            tape: Rc::default(),
            scratch: RefCell::new(scratch),
            recording,
            known: RefCell::default(),
            wanted: Cell::new(None),
            error: RefCell::default(),
            line: Cell::new(None),
            limit,
            calls: Cell::new(0),
            slots: RefCell::default(),
            traffic: RefCell::default(),
            reach: OnceCell::new(),
        };
        Self { state: Rc::new(state) }
    }

    /// Returns the index of this PE within its cube of the launch (axis 0), or the index of the cube (axis 1).
    #[track_caller]
    pub fn program_id(&self, axis: usize) -> u64 {
        self.axis(&self.state.site.index, axis)
    }

    /// Returns the number of PEs per cube of the launch (axis 0), or the number of cubes (axis 1).
    #[track_caller]
    pub fn num_programs(&self, axis: usize) -> u64 {
        self.axis(&self.state.site.count, axis)
    }

    #[track_caller]
    fn axis(&self, of: &[usize; 2], axis: usize) -> u64 {
        self.count();
        match of.get(axis) {
            Some(&value) => value as u64,
            None => self.fail(format!("axis {axis}: expected 0 (PEs of a cube) or 1 (cubes)")),
        }
    }

    /// Returns the quotient rounded up: the number of tiles of length `b` that cover `a`.
    #[track_caller]
    pub fn cdiv(&self, a: u64, b: u64) -> u64 {
        self.count();
        if b == 0 { self.fail("cdiv by 0") } else { a.div_ceil(b) }
    }

    /// Returns M, K and N of a tile of the matrix unit.
    #[track_caller]
    pub fn gemm_tile(&self) -> [u64; 3] {
        self.count();
        let gemm = &self.state.site.core.gemm;
        [gemm.m, gemm.k, gemm.n].map(u64::from)
    }

    /// Returns the number of elements that the vector unit processes at once. A reduction of rows up to this length
    /// stays in the unit; see [`fuse`].
    #[track_caller]
    pub fn strip_elements(&self) -> u64 {
        self.count();
        self.state.site.core.math.strip.into()
    }

    /// Returns whether the matrix unit has a rate for factors of an element type.
    #[track_caller]
    pub fn has_gemm(&self, dtype: DType) -> bool {
        self.state.site.core.gemm.rates.contains_key(dtype.name())
    }

    /// Returns the setting `pe.core.atomics` of the topology, by name.
    #[track_caller]
    pub fn atomics(&self) -> &'static str {
        self.state.site.core.atomics.name()
    }

    /// Returns a reference to contiguous elements in memory, starting at `address`. Moves no data.
    #[track_caller]
    pub fn ref_(&self, address: u64, shape: &[u64], dtype: DType) -> Ref {
        self.count();
        Ref::new(address, shape, dtype)
    }

    /// Returns whether the kernel is recorded, so that it cannot read loaded values.
    pub fn is_recorded(&self) -> bool {
        self.state.recording
    }

    /// Returns the PE that runs the kernel.
    pub fn pe(&self) -> PeRef {
        self.state.site.pe
    }

    /// Returns the bytes of the TCM available to the kernel's tiles.
    #[track_caller]
    pub fn scratch_bytes(&self) -> u64 {
        self.count();
        self.state.site.core.scratch.get()
    }
}

impl Tl {
    /// Counts a call and ends the kernel if it has made too many: an endless kernel would use up memory or time, even
    /// if it issues no commands.
    #[track_caller]
    pub(crate) fn count(&self) {
        let calls = self.state.calls.get() + 1;
        self.state.calls.set(calls);
        let limit = self.state.limit;
        if calls > limit {
            self.fail(format!("more than {limit} calls of tl: the kernel seems not to end"));
        }
    }
}

impl KernelState {
    /// Registers one more value and returns its id.
    fn new_value(&self) -> ValueId {
        let mut tape = self.tape.borrow_mut();
        tape.uses.push(0);
        tape.held.push(true);
        u32::try_from(tape.uses.len() - 1).expect("fewer than 2³² values")
    }

    /// Fails if the kernel, which has ended, still holds the slot of a message.
    pub(crate) fn check_slots(&self) -> Result<(), String> {
        let Some(&held) = self.slots.borrow().first() else { return Ok(()) };
        let tape = self.tape.borrow();
        let what =
            format!("the slot of `{}` is never released: call release", tape.order(held).effect);
        Err(self.problem(tape.place(held), &what))
    }

    fn use_value(&self, value: ValueId) {
        self.tape.borrow_mut().uses[value as usize] += 1;
    }
}

//! The process group: `torch.distributed` with the backend `ahbm`.
//!
//! [`Distributed`] belongs to a context and has no backend until
//! [`init_process_group`](Distributed::init_process_group) is called. Each rank is then written as a worker, which
//! reads like a PyTorch script. A collective runs once every rank has called it.
//!
//! ```
//! use cubeyard_collectives::collective::ReduceOp;
//! use cubeyard_collectives::distributed::Distributed;
//! use cubeyard_runtime::{Context, ContextConfig};
//!
//! let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
//! let dist = Distributed::new(&context);
//! dist.init_process_group("ahbm")?;
//! dist.spawn(|worker| async move {
//!     let mine = vec![worker.rank() as f32 + 1.0; 1000];
//!     let gradient = worker.context().from_slice(&[1000], &mine)?.to(&worker.placement())?;
//!     worker.all_reduce(&gradient, ReduceOp::Sum).await?;
//!     assert_eq!(gradient.read::<f32>()?, vec![3.0; 1000]); // 1 + 2, on both SIPs
//!     worker.barrier().await
//! })?;
//! # Ok::<(), cubeyard_collectives::distributed::DistError>(())
//! ```

mod algorithms;
mod alone;
mod beside;
pub mod ccl;
mod config;
mod error;
mod group;
mod kernel_channels;
mod point;
mod process_group;
mod rank_map;
mod shape;
mod worker;

pub use alone::Alone;
pub(crate) use alone::by_rows;
pub use beside::Beside;
pub use ccl::CclConfig;
pub use config::{GroupConfig, Ranks};
pub use error::DistError;
pub use group::{CollectiveReport, Group, Pending};
pub use kernel_channels::KernelChannels;
pub use process_group::ProcessGroup;
pub use rank_map::RankMap;
pub use shape::PeElements;
pub use worker::{Spawned, WorkHandle, Worker};

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_runtime::{Context, Tensor};

use crate::collective::Operation;
use algorithms::Algorithms;
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::Launcher;
use worker::CallMatcher;

/// Name of the only backend.
const BACKEND: &str = "ahbm";

/// The counterpart of the module `torch.distributed`. Cheap to clone: clones share the process groups.
#[derive(Clone, Debug)]
pub struct Distributed {
    state: Rc<State>,
}

/// State that an instance and its workers share.
#[derive(Debug)]
struct State {
    launcher: Rc<Launcher>,
    backend: RefCell<Option<Backend>>,
    matcher: CallMatcher,
    /// The rank whose worker is running.
    current: Cell<Option<usize>>,
    /// Number of process groups created so far.
    made: Cell<u32>,
    /// The kernel of both ends of a point-to-point transfer.
    point: Kernel,
}

/// The installed process groups.
#[derive(Debug)]
struct Backend {
    ccl: CclConfig,
    world: ProcessGroup,
    /// The wired algorithms of each group, by its id.
    groups: BTreeMap<u32, Rc<Algorithms>>,
}

impl Distributed {
    /// Makes an instance for a context, without a backend.
    pub fn new(context: &Context) -> Self {
        Self::with_launcher(Rc::new(Launcher::new(context)))
    }

    /// Makes an instance as [`new`](Self::new) does, with collectives launched by a shared launcher.
    pub fn with_launcher(launcher: Rc<Launcher>) -> Self {
        let (backend, matcher) = (RefCell::default(), CallMatcher::default());
        let (current, made, point) = (Cell::new(None), Cell::new(0), point::kernel());
        let state = State { launcher, backend, matcher, current, made, point };
        Self { state: Rc::new(state) }
    }

    /// Creates the group of all SIPs, one rank each, and installs its channels through the fabric. On an error
    /// nothing stays installed.
    pub fn init_process_group(&self, backend: &str) -> Result<(), DistError> {
        self.init_with(backend, &CclConfig::embedded())
    }

    /// Creates the group as [`init_process_group`](Self::init_process_group) does, with the algorithms and rings of a
    /// `ccl.yaml`.
    ///
    /// The number of ranks is the `world_size` of the forced algorithm, else of the defaults, else the number of SIPs.
    /// Every algorithm that may be chosen for some operation and size is wired.
    pub fn init_with(&self, backend: &str, ccl: &CclConfig) -> Result<(), DistError> {
        if backend != BACKEND {
            return Err(DistError::Backend(backend.to_owned()));
        }
        if self.is_initialized() {
            return Err(DistError::Twice);
        }
        let map = self.rank_map(ccl)?;
        let members: Vec<_> = (0..map.sips.len()).collect();
        let (world, algorithms) = self.wire(ccl, &members, map.sips)?;
        let groups = BTreeMap::from([(world.id(), algorithms)]);
        self.state.backend.replace(Some(Backend { ccl: ccl.clone(), world, groups }));
        Ok(())
    }

    /// Returns the ranks of the group that [`init_with`](Self::init_with) would create.
    pub fn rank_map(&self, ccl: &CclConfig) -> Result<RankMap, DistError> {
        let config = match &ccl.forced {
            Some(name) => &ccl.named(name)?.config,
            None => &ccl.defaults,
        };
        if config.ranks != Ranks::Sip {
            return Err(DistError::NotSips(config.ranks.kind()));
        }
        let context = self.state.launcher.context();
        context.machine(|machine| RankMap::new(machine.topology(), config))
    }

    /// Removes all groups, through the fabric.
    pub fn destroy_process_group(&self) -> Result<(), DistError> {
        self.state.backend.take().map(drop).ok_or(DistError::NotInitialized)
    }

    /// Returns whether there is a group.
    pub fn is_initialized(&self) -> bool {
        self.state.backend.borrow().is_some()
    }

    /// Returns the number of ranks.
    pub fn get_world_size(&self) -> Result<usize, DistError> {
        self.with(|backend| Ok(backend.world.size()))
    }

    /// Returns the rank of the calling worker; 0 outside of workers.
    pub fn get_rank(&self) -> Result<usize, DistError> {
        self.with(|_| Ok(self.state.current.get().unwrap_or(0)))
    }

    /// Returns the name of the backend, `ahbm`.
    pub fn get_backend(&self) -> Result<&'static str, DistError> {
        self.with(|_| Ok(BACKEND))
    }

    /// Performs an operation of all ranks, given an input and an output for each.
    pub fn run(
        &self,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<CollectiveReport, DistError> {
        self.begin(operation, tensors)?.wait()
    }

    /// Begins an operation of all ranks, to be completed by [`Pending::wait`].
    pub fn begin(
        &self,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<Pending, DistError> {
        self.begin_in(&self.world()?, operation, tensors)
    }

    /// Waits until every rank's device has received a message from every other.
    pub fn barrier(&self) -> Result<CollectiveReport, DistError> {
        self.begin_barrier(&self.world()?)?.wait()
    }

    /// Checks that no worker is running: a worker may not make a call for all ranks.
    fn check_outside(&self, call: &impl ToString) -> Result<(), DistError> {
        match self.state.current.get() {
            Some(rank) => Err(DistError::Inside { rank, call: call.to_string() }),
            None => Ok(()),
        }
    }

    /// Returns the defects found in collective kernels that ran to their ends.
    pub fn findings(&self) -> Vec<cubeyard_tl::program::Finding> {
        self.state.launcher.findings()
    }

    fn with<T>(&self, act: impl FnOnce(&Backend) -> Result<T, DistError>) -> Result<T, DistError> {
        act(self.state.backend.borrow().as_ref().ok_or(DistError::NotInitialized)?)
    }
}

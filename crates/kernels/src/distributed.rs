//! The process group: `torch.distributed` with the backend `ahbm`.
//!
//! [`Distributed`] belongs to a context and has no backend until
//! [`init_process_group`](Distributed::init_process_group) is called. Ranks are then written as workers, which
//! read like a script for PyTorch: each runs on its own, and a collective is done when every rank has called
//! it.
//!
//! ```
//! use cubeyard_kernels::collective::ReduceOp;
//! use cubeyard_kernels::distributed::Distributed;
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
//! # Ok::<(), cubeyard_kernels::distributed::DistError>(())
//! ```

pub mod ccl;
mod error;
mod group;
mod places;
mod point;
pub mod sweep;
mod worker;

pub use ccl::CclConfig;
pub use error::DistError;
pub use group::{CollectiveReport, Group, GroupConfig, Pending, Ranks};
pub use places::Places;
pub use worker::{WorkHandle, Worker};

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{Context, Tensor};

use crate::collective::{Direct, Operation, ReduceOp, Ring};
use crate::launch::Launcher;
use worker::Hub;

/// The only backend.
const BACKEND: &str = "ahbm";

/// Messages of at most so many bytes a PE go directly; longer ones around a ring.
const SHORT: u64 = 4096;

/// What `torch.distributed` is to a script.
#[derive(Debug)]
pub struct Distributed<'c> {
    context: &'c Context,
    launcher: Rc<Launcher<'c>>,
    backend: RefCell<Option<Backend>>,
    hub: Hub,
    /// The rank whose worker is at work.
    current: Cell<Option<usize>>,
}

/// A group that is installed.
#[derive(Debug)]
struct Backend {
    direct: Group,
    ring: Group,
    /// A number on each rank, for barriers.
    tokens: Vec<Tensor>,
    sips: Vec<SipId>,
}

impl<'c> Distributed<'c> {
    /// For a context, without a backend.
    pub fn new(context: &'c Context) -> Self {
        Self::with_launcher(context, Rc::new(Launcher::new(context)))
    }

    /// As [`new`](Self::new), with collectives launched by a launcher that others use, too.
    pub fn with_launcher(context: &'c Context, launcher: Rc<Launcher<'c>>) -> Self {
        let (backend, hub) = (RefCell::default(), Hub::default());
        Self { context, launcher, backend, hub, current: Cell::new(None) }
    }

    /// Makes the group of all SIPs, a rank each, and wires it through the fabric. If anything goes wrong,
    /// there is no group and nothing stays installed.
    pub fn init_process_group(&self, backend: &str) -> Result<(), DistError> {
        self.init_with(backend, &GroupConfig::default())
    }

    /// As [`init_process_group`](Self::init_process_group), of the SIPs and rings that the configuration says.
    pub fn init_with(&self, backend: &str, config: &GroupConfig) -> Result<(), DistError> {
        if backend != BACKEND {
            return Err(DistError::Backend(backend.to_owned()));
        }
        if self.is_initialized() {
            return Err(DistError::Twice);
        }
        let made = self.install(config)?;
        self.hub.reset(made.direct.world().ranks);
        self.backend.replace(Some(made));
        Ok(())
    }

    fn install(&self, config: &GroupConfig) -> Result<Backend, DistError> {
        let config = GroupConfig { ranks: Ranks::Sip, ..config.clone() };
        let direct =
            Group::new(self.context, &config, Box::new(Direct), self.launcher.new_group())?;
        let ring = Group::new(self.context, &config, Box::new(Ring), self.launcher.new_group())?;
        let sips = direct.sips().to_vec();
        let token = |&sip: &SipId| -> Result<Tensor, DistError> {
            Ok(self.context.zeros(&[1], DType::I32)?.to(&Placement::one(sip))?)
        };
        let tokens = sips.iter().map(token).collect::<Result<_, _>>()?;
        Ok(Backend { direct, ring, tokens, sips })
    }

    /// Takes the group out again, through the fabric.
    pub fn destroy_process_group(&self) -> Result<(), DistError> {
        self.backend.take().map(drop).ok_or(DistError::NotInitialized)
    }

    /// Whether there is a group.
    pub fn is_initialized(&self) -> bool {
        self.backend.borrow().is_some()
    }

    /// How many ranks there are.
    pub fn get_world_size(&self) -> Result<usize, DistError> {
        self.with(|backend| Ok(backend.sips.len()))
    }

    /// The rank of the worker that asks; 0 outside of workers.
    pub fn get_rank(&self) -> Result<usize, DistError> {
        self.with(|_| Ok(self.current.get().unwrap_or(0)))
    }

    /// `ahbm`.
    pub fn get_backend(&self) -> Result<&'static str, DistError> {
        self.with(|_| Ok(BACKEND))
    }

    /// Does an operation of all ranks from one place: an input and an output for each.
    pub fn run(
        &self,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<CollectiveReport, DistError> {
        self.begin(operation, tensors)?.wait()
    }

    /// Begins an operation of all ranks; it is done when what is returned has been waited for.
    pub fn begin(
        &self,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<Pending, DistError> {
        self.with(|backend| {
            let group = backend.group_for(operation, tensors);
            group.begin(&self.launcher, self.context, operation, tensors)
        })
    }

    /// Waits until every rank's device has heard of every other.
    pub fn barrier(&self) -> Result<CollectiveReport, DistError> {
        self.with(|backend| {
            let tokens: Vec<_> = backend.tokens.iter().map(|token| (token, token)).collect();
            let operation = Operation::AllReduce(ReduceOp::Max);
            backend.direct.run(&self.launcher, self.context, operation, &tokens)
        })
    }

    /// What was wrong with the kernels of collectives although they ran to their ends.
    pub fn findings(&self) -> Vec<crate::program::Finding> {
        self.launcher.findings()
    }

    fn with<T>(&self, act: impl FnOnce(&Backend) -> Result<T, DistError>) -> Result<T, DistError> {
        act(self.backend.borrow().as_ref().ok_or(DistError::NotInitialized)?)
    }
}

impl Backend {
    /// Which way an operation goes: what a ring does not do, and what is short, directly.
    fn group_for(&self, operation: Operation, tensors: &[(&Tensor, &Tensor)]) -> &Group {
        let is_short = tensors.first().is_some_and(|(input, _)| {
            let parts = input.shards().map_or(1, |shards| shards.len().max(1));
            input.nbytes() / parts as u64 <= SHORT
        });
        if is_short || self.ring.refuses(operation) { &self.direct } else { &self.ring }
    }
}

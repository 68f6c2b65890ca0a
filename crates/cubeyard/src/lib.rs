//! Cubeyard for programs in Rust: a simulated AI accelerator of chiplets and HBM, and the allocator of its memory.
//!
//! This crate is the public interface. The crates behind it (`cubeyard-memory`, `cubeyard-device` and so on) are internal:
//! their items change without notice.
//!
//! # A tour
//!
//! A [`Topology`](machine::Topology) describes a machine. A [`Context`](tensors::Context) owns one, and places tensors over
//! its processing elements (PEs). A [`Kernel`](kernels::Kernel) runs on the PEs that hold a part of its arguments:
//!
//! ```
//! # #[cfg(feature = "simulator")] {
//! use cubeyard::kernels::{Kernel, Launch, Launcher};
//! use cubeyard::machine::{SipId, Topology};
//! use cubeyard::tensors::{Context, ContextConfig, Placement, Split};
//!
//! // One SIP of 2 × 1 cubes; everything else is as in the default machine.
//! let topology = Topology::read("small.yaml", "sips: {count: 1}\ncubes: {w: 2, h: 1}\n")?;
//! let context = Context::new(ContextConfig { topology, data: true, ..ContextConfig::default() });
//!
//! // A row for each of the 16 PEs.
//! let rows = Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() };
//! let x = context.from_slice(&[16, 64], &vec![1.5_f32; 16 * 64])?.to(&rows)?;
//! let y = context.empty(&[16, 64], x.dtype())?.to(&rows)?;
//!
//! let double = Kernel::new("double", |tl, args| {
//!     Box::pin(async move {
//!         let tile = tl.load(&args.tensor(0).local());
//!         tl.store(&args.tensor(1).local(), &(&tile + &tile));
//!     })
//! });
//! let launch = Launch::new(SipId::new(0)?).arguments([&x, &y]);
//! let report = Launcher::new(&context).run(&double, &launch)?;
//! assert_eq!(y.read::<f32>()?, vec![3.0; 16 * 64]);
//! assert_eq!(report.pes.len(), 16);
//! assert!(report.max().ns() > 0.0); // the simulated time of the slowest PE
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Ranks on the same machine run collectives:
//!
//! ```
//! # #[cfg(feature = "simulator")] {
//! use cubeyard::collectives::{Distributed, ReduceOp};
//! use cubeyard::tensors::{Context, ContextConfig};
//!
//! let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
//! let dist = Distributed::new(&context);
//! dist.init_process_group("ahbm")?;
//! dist.spawn(|worker| async move {
//!     worker.set_device(worker.rank())?;
//!     let mine = [worker.rank() as f32 + 1.0; 8];
//!     let tensor = worker.context().from_slice(&[8], &mine)?.to(&worker.placement())?;
//!     worker.all_reduce(&tensor, ReduceOp::Sum).await?;
//!     assert_eq!(tensor.read::<f32>()?, [3.0; 8]); // two SIPs: 1 + 2
//!     Ok(())
//! })?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The allocator serves any device, simulated or not. With `default-features = false` it is all that is compiled:
//!
//! ```
//! use std::sync::Arc;
//! use cubeyard::memory::{Bytes, Card, CardSpec, FlexAllocator};
//!
//! let allocator = FlexAllocator::new(Arc::new(Card::new(CardSpec::physical(Bytes::gib(16)))));
//! let weights = allocator.allocate(Bytes::mib(300))?;
//! assert_eq!(weights.size(), Bytes::mib(300));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//!
//! | module | contents | page |
//! |---|---|---|
//! | [`memory`] | the Flex allocator, its configuration, and the trait of a device | `docs/memory.md`, `docs/memory-rules.md` |
//! | [`machine`] | topologies, machines, requests, times | `docs/machine.md`, `docs/topology.md` |
//! | [`tensors`] | tensors, element types, placements | `docs/runtime.md`, `docs/placement.md` |
//! | [`kernels`] | the kernel language, launches, ready-made kernels | `docs/kernels.md` |
//! | [`collectives`] | ranks and their collectives | `docs/collectives.md` |
//! | [`model`] | the time of a step of a language model | `docs/model.md` |
//! | [`serve`] | a service of a language model: requests, batches, latencies | `docs/serving.md` |
//! | [`bench`](mod@bench) | benches, with bounds and reports | `docs/own-bench.md` |
//! | [`replay`] | recorded allocations under allocator policies | `docs/replay.md` |
//! | [`command`] | the command `cubeyard`, with benches of your own | `docs/own-bench.md` |

/// The Flex allocator: carves the memory of a device into blocks.
pub mod memory {
    #[cfg(unix)]
    pub use cubeyard_memory::device::HostMemory;
    pub use cubeyard_memory::device::{
        AddressMode, Card, CardSpec, DeviceMemory, ExportHandle, MemoryInfo, RegionHandle,
        RegionId, TableInfo,
    };
    pub use cubeyard_memory::flex::{
        Acquire, Action, AllocateError, Allocation, Budget, BudgetExceeded, Compaction,
        ConfigError, Event, EventId, Export, ExportError, FlexAllocator, FlexConfig, Growth,
        Obstacle, OutOfMemory, PauseError, Pool, PoolId, PoolReport, PoolSpec, Pooling,
        PressureCallback, Program, Refusal, Release, Remedy, RemedyBasis, RemedyStep, ResizeError,
        ResumeError, RmmLog, Shortage, Sizes, StreamEvents, Subscription, TagError, TagId,
        TagReport, VirtualAddress,
    };
    pub use cubeyard_memory::policy::Request;
    pub use cubeyard_memory::{Bytes, PhysAddr};
}

/// Machines: topologies, requests and simulated time.
#[cfg(feature = "simulator")]
pub mod machine {
    pub use cubeyard_device::explain::{Cause, explain};
    pub use cubeyard_device::machine::{Machine, MachineBuilder};
    pub use cubeyard_device::message::Direction;
    pub use cubeyard_device::request::{Outcome, PeRef, Request, RequestError};
    pub use cubeyard_device::topology::{OverrideError, Topology};
    pub use cubeyard_diagrams::{View, machine as diagram};
    pub use cubeyard_memory::address::{CubeId, PeId, SipId};
    pub use cubeyard_sim::{Bandwidth, Span, Stop, Time};
    pub use cubeyard_yaml::{InputError, PlainValue};
}

/// Tensors: placed over the PEs of a machine.
#[cfg(feature = "simulator")]
pub mod tensors {
    pub use cubeyard_diagrams::placement as diagram;
    pub use cubeyard_runtime::dtype::{DType, Element};
    pub use cubeyard_runtime::placement::{Layout, Placement, PlacementError, Shard, Split};
    pub use cubeyard_runtime::shape::Shape;
    pub use cubeyard_runtime::{Context, ContextConfig, RuntimeError, Tensor};
}

/// Kernels: the language, launches, and ready-made kernels.
#[cfg(feature = "simulator")]
pub mod kernels {
    pub use cubeyard_kernels as library;
    pub use cubeyard_runtime::{Argument, Channel, ChannelEnd, Launch, LaunchReport, RingConfig};
    pub use cubeyard_tl::kernel::{Args, Kernel};
    pub use cubeyard_tl::launch::{Launcher, Mode};
    pub use cubeyard_tl::numeric::{Binary, Unary};
    pub use cubeyard_tl::{Epilogue, Lazy, Port, Ref, Tile, Tl};
}

/// Collectives: ranks that exchange tensors through the fabric.
#[cfg(feature = "simulator")]
pub mod collectives {
    pub use cubeyard_collectives::collective::{Operation, ReduceOp};
    pub use cubeyard_collectives::distributed::{
        CclConfig, CollectiveReport, DistError, Distributed, Ranks, Worker,
    };
}

/// Services of language models: requests, batches, blocks of the KV cache, latencies.
#[cfg(feature = "simulator")]
pub mod serve {
    pub use cubeyard_serve::report::Latency;
    pub use cubeyard_serve::run::Arrivals;
    pub use cubeyard_serve::{
        Lengths, Limits, Load, LoadSource, Policy, Rates, Request, RunConfig, SchedulerConfig,
        ServeError, ServedModel, ServiceReport, ServiceRun, run, trace,
    };
}

/// Language models: the time of a step, part by part.
#[cfg(feature = "simulator")]
pub mod model {
    pub use cubeyard_model::cut::ExpertPlacement;
    pub use cubeyard_model::{
        HfModel, MeasureConfig, ModelError, ModelReport, ModelSpec, Phase, StepPart, Workload,
        measure, plan, training,
    };
}

/// Benches: kernels with inputs, a check, bounds and a report.
#[cfg(feature = "simulator")]
pub mod bench {
    pub use cubeyard_bench::report::{Check, RunReport};
    pub use cubeyard_bench::{
        Bench, BenchError, Lab, Needs, Outcome, Parameter, Run, RunConfig, Values, Work, catalogue,
        find, run,
    };
}

/// Replay of recorded allocations under allocator policies.
#[cfg(feature = "simulator")]
pub mod replay {
    pub use cubeyard_replay::trace::{Lag, Trace, read};
    pub use cubeyard_replay::{POLICIES, ReplayPolicy, Report, advice, policy};
}

/// The command `cubeyard` as a function, to which a program can add benches.
#[cfg(feature = "simulator")]
pub mod command {
    pub use cubeyard_cli::{Code, Limited, run, run_with};
}

/// The examples of the pages, as tests.
#[cfg(all(doctest, feature = "simulator"))]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/collectives.md")]
#[doc = include_str!("../../../docs/kernels.md")]
#[doc = include_str!("../../../docs/machine.md")]
#[doc = include_str!("../../../docs/memory.md")]
#[doc = include_str!("../../../docs/memory-rules.md")]
#[doc = include_str!("../../../docs/replay.md")]
struct Pages;

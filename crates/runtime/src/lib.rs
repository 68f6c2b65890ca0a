//! Is what a host program talks to.

pub mod dtype;
pub mod placement;
pub mod shape;

mod context;
mod error;
mod flex;
mod init;
mod storage;
mod tensor;

pub use context::{
    Addressing, Argument, Context, ContextConfig, Event, KernelSpec, Launch, LaunchHandle,
    LaunchReport, LeakReport, MemoryStats, Parameter, PeUsage, Stream,
};
pub use error::RuntimeError;
pub use flex::{FlexDevice, FlexLaunch, SipMemory};
pub use storage::DeployedShard;
pub use tensor::Tensor;

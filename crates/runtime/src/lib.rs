//! Host runtime of the simulated machine: contexts, tensors distributed over PEs, channels and kernel launches.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! A [`Context`] owns a machine. Tensors are created on the host; [`Tensor::to`] deploys one by a
//! [`Placement`](placement::Placement): it allocates memory in every PE that holds a part and one contiguous range of
//! virtual addresses, installs the mappings in the PEs' MMUs through the fabric, and writes the initial values. Here a
//! matrix of 256 rows is split over the 128 PEs of a SIP:
//!
//! ```
//! use cubeyard_runtime::dtype::DType;
//! use cubeyard_runtime::placement::{Placement, Split};
//! use cubeyard_runtime::{Context, ContextConfig};
//!
//! let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
//! let over_a_sip = Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() };
//! let values: Vec<f32> = (0..1024).map(|value| value as f32).collect();
//! let tensor = context.from_slice(&[256, 4], &values)?.to(&over_a_sip)?;
//!
//! // Each PE holds two rows; the addresses are contiguous.
//! assert_eq!(tensor.shards()?.len(), 128);
//! assert_eq!(tensor.shards()?[1].at.to_string(), "sip0.cube0.pe1");
//! assert_eq!(tensor.va_base()?.unwrap().to_bits(), 1 << 51);
//!
//! // The host reads the values over the fabric; a view shares the memory.
//! assert_eq!(tensor.read::<f32>()?, values);
//! let two_rows = tensor.rows(2..4)?;
//! assert_eq!(two_rows.read::<f32>()?, values[8..16]);
//!
//! // A PE reads rows that another one holds, through its own MMU.
//! let pe = context.machine(|machine| machine.view().pe("sip0.cube5.pe3"))?;
//! let read = tensor.read_from(pe, 32..64)?;
//! assert_eq!(read.bytes.unwrap(), two_rows.read_bytes()?.known()?);
//! assert!(read.latency.ns() > 0.0);
//!
//! // PEs run programs, which `cubeyard_tl` makes of kernels. This one is busy for 1,000 dispatches.
//! use cubeyard_device::pe::{Instruction, Program};
//! use cubeyard_memory::address::SipId;
//! use cubeyard_runtime::Launch;
//!
//! #[derive(Debug)]
//! struct Busy(Option<u32>);
//!
//! impl Program for Busy {
//!     fn next(&mut self) -> Result<Option<Instruction>, String> {
//!         Ok(self.0.take().map(Instruction::Dispatch))
//!     }
//! }
//!
//! let launch = Launch::new(SipId::new(0)?).arguments([&tensor]);
//! let mut programs = |_: &_, _: &[_]| Ok(Box::new(Busy(Some(1000))) as Box<dyn Program>);
//! let report = context.stream().launch_programs("busy", &launch, &mut programs)?.wait()?;
//! assert_eq!((report.pes.len(), report.max().ns()), (128, 1000.0));
//!
//! // Dropping the last view frees the memory.
//! drop(tensor);
//! assert_eq!(context.memory_stats().tensors, 1);
//! drop(two_rows);
//! assert!(context.is_pristine());
//! assert!(context.close().is_clean());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An operation that fails returns a [`RuntimeError`], after everything that it had allocated was freed. A
//! [`ContextThread`] lets any thread drive a context.
//!
//! | module | contents |
//! |---|---|
//! | [`placement`] | distribution of tensors over SIPs, cubes and PEs, as plain data |
//! | [`dtype`] | element types, and conversion of numbers to bytes and back |
//! | [`shape`] | dimensions of tensors |

pub mod dtype;
pub mod placement;
pub mod shape;

#[doc(hidden)]
pub use context::Faults;

mod channels;
mod context;
mod error;
mod flex;
mod holders;
mod init;
mod launch;
mod shared;
mod sip_memory;
mod tensor;
mod thread;

pub use channels::{Channel, ChannelEnd, Channels, RingConfig, SlotKind};
pub use context::{
    Addressing, Context, ContextConfig, DeployedShard, LaunchReport, LeakReport, MemoryStats,
    PeSnapshot, PeUsage, RegionsUsage, ShardSnapshot, TensorId,
};
pub use dtype::Scalar;
pub use error::{AllocateError, RuntimeError};
pub use flex::{FlexArray, FlexDevice, FlexOperand, FlexOperands};
pub use init::{random_bits, uniform};
pub use launch::{
    Argument, BoundArgument, BoundTensor, Event, HeldPart, Launch, LaunchHandle, LocalPart,
    Programs, Site, Stream,
};
pub use sip_memory::{SipFunction, SipMemory};
pub use tensor::{DmaRead, Tensor, Values};
pub use thread::{ContextThread, ContextThreadError};

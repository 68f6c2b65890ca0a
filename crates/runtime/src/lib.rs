//! What a host program talks to: tensors that live over many PEs behind one contiguous address, and memory
//! that always comes back.
//!
//! A [`Context`] has a machine of its own. Tensors are made on the host; [`Tensor::to`] puts one onto the
//! machine as a [`Placement`](placement::Placement) says: memory is taken in every PE that holds a part,
//! one range of virtual addresses is taken for all of it, the PEs' MMUs are told through the fabric, and what
//! the tensor is to hold is written. Here a matrix of 256 rows goes over the 128 PEs of a SIP, with data:
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
//! // Two rows in each PE, and addresses without a gap.
//! assert_eq!(tensor.shards()?.len(), 128);
//! assert_eq!(tensor.shards()?[1].at.to_string(), "sip0.cube0.pe1");
//! assert_eq!(tensor.va_base()?.unwrap().to_bits(), 1 << 51);
//!
//! // The host reads over the fabric what it has written; a view has the same memory.
//! assert_eq!(tensor.read::<f32>()?, values);
//! let two_rows = tensor.rows(2..4)?;
//! assert_eq!(two_rows.read::<f32>()?, values[8..16]);
//!
//! // A PE reads what another one holds, through its own MMU.
//! let pe = context.machine(|machine| machine.view().pe("sip0.cube5.pe3"))?;
//! let read = tensor.read_from(pe, 32..64)?;
//! assert_eq!(read.bytes.unwrap(), two_rows.read_bytes()?.known()?);
//! assert!(read.latency.ns() > 0.0);
//!
//! // PEs run programs, which `cubeyard_kernels` makes of kernels. This one computes for 1,000 dispatches.
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
//! // The last that uses the memory gives it back, and then all is as it was in the beginning.
//! drop(tensor);
//! assert_eq!(context.memory_stats().tensors, 1);
//! drop(two_rows);
//! assert!(context.is_pristine());
//! assert!(context.close().is_clean());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Whatever goes wrong on the way is a [`RuntimeError`], and what was taken until then has been given back.
//!
//! | module | what is there |
//! |---|---|
//! | [`placement`] | which PE holds which part, as plain data |
//! | [`dtype`] | what elements are, and numbers to bytes and back |
//! | [`shape`] | dimensions, and the matrix that they are seen as |

pub mod dtype;
pub mod placement;
pub mod shape;

#[doc(hidden)]
pub use context::Faults;

mod channels;
mod context;
mod error;
mod flex;
mod init;
mod launch;
mod sip_memory;
mod tensor;
mod thread;

pub use channels::{Channel, Channels, End, RingConfig, SlotKind};
pub use context::{
    Addressing, Context, ContextConfig, DeployedShard, LaunchReport, LeakReport, MemoryStats,
    PeSnapshot, PeUsage, RegionsUsage, ShardSnapshot, TensorId,
};
pub use error::{AllocateError, RuntimeError};
pub use flex::{FlexArray, FlexDevice, FlexOperand, FlexOperands};
pub use init::{random_bits, uniform};
pub use launch::{
    Argument, BoundArgument, BoundTensor, Event, Launch, LaunchHandle, LocalPart, Programs, Site,
    Stream,
};
pub use sip_memory::{SipFunction, SipMemory};
pub use tensor::{DmaRead, Tensor, Values};
pub use thread::{ContextThread, ContextThreadError};

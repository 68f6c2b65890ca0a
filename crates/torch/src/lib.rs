//! Devices as PyTorch sees them: one per SIP of a machine, with memory that the host can access.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! | module | contents |
//! |---|---|
//! | [`space`] | addresses of device memory, and the host's view of them |
//! | [`memory`] | the memory of a device, as its allocator sees it |
//! | [`streams`] | simulated time: the host's clock and the streams of a device |
//! | [`settings`] | settings of devices, from the environment |
//! | [`mod@devices`] | the devices of this process |
//! | `abi` | functions for the shim in C++, with the contract in `include/cubeyard_torch.h` |
//!
//! There is one set of devices per process. It is created on first use, from the environment, and is never dropped.
//! Devices exist on Linux only, since they need memory files that can be mapped twice.

#![cfg(target_os = "linux")]
#![allow(
    unsafe_code,
    reason = "mapping memory is a call to the operating system, and C hands in pointers; each use says why it is sound"
)]

mod abi;
pub mod devices;
pub mod memory;
pub mod settings;
pub mod space;
pub mod streams;

pub use abi::{HEADER, record_sites, set_site};
pub use devices::{Device, device, devices};

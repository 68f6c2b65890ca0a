//! Devices as PyTorch sees them: one per SIP of a machine, with memory that the host can access.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! | module | contents |
//! |---|---|
//! | [`space`] | addresses of device memory, and the host's view of them |
//! | [`memory`] | the memory of a device, as its allocator sees it |
//! | [`streams`] | simulated time: the host's clock and the streams of a device |
//! | [`pes`] | times at which the PEs and links of the machine are free |
//! | [`operators`] | time of PyTorch's operators, and their counts |
//! | [`copies`] | time of copies over the PCIe links |
//! | [`timeline`] | allocated bytes over simulated time |
//! | [`trial`] | simulated time that is forgotten afterwards |
//! | [`settings`] | settings of devices, from the environment |
//! | [`mod@devices`] | the devices of this process |
//! | `sharing`, `placements` | the memory of a device as the HBM of a SIP |
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
pub mod copies;
pub mod devices;
pub mod memory;
pub mod operators;
pub mod pes;
mod placements;
pub mod settings;
mod sharing;
pub mod space;
pub mod streams;
pub mod timeline;
pub mod trial;

pub use abi::{HEADER, record_sites, set_labels, set_site};
pub use devices::{Device, device, devices};

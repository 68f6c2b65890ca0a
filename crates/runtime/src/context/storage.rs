//! Device memory of a tensor, which is freed on drop.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use cubeyard_device::machine::CommandStages;
use cubeyard_device::message::Mapping;
use cubeyard_device::request::{PeGrid, PeRef};
use cubeyard_memory::Bytes;
use cubeyard_memory::address::PhysAddr;
use cubeyard_memory::virtual_space::DeviceVa;
use cubeyard_sim::Span;

use super::Inner;
use crate::placement::Layout;

/// A shard in device memory: `(sip, cube, pe, pa, nbytes, offset_bytes)` of ADR-0008.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeployedShard {
    /// PE whose HBM slice holds the shard.
    pub at: PeRef,
    /// First physical address.
    pub address: PhysAddr,
    /// Size without the padding to whole bursts.
    pub nbytes: Bytes,
    /// Offset in the tensor's contiguous addresses.
    pub offset_bytes: Bytes,
}

impl DeployedShard {
    /// Returns the physical addresses of the shard.
    pub(crate) fn addresses(&self) -> Range<u64> {
        let from = self.address.to_bits();
        from..from + self.nbytes.get()
    }
}

/// Id of a deployed tensor in its context, never reused. Clones and views have the id of their tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TensorId(pub u64);

/// Mappings in the MMUs of some PEs.
#[derive(Clone, Debug)]
pub(crate) struct Installed {
    pub(crate) on: PeGrid,
    pub(crate) mappings: Arc<[Mapping]>,
}

/// Addresses and mappings of a tensor, in addition to its memory.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) virtual_range: Option<(DeviceVa, Bytes)>,
    pub(crate) installed: Vec<Installed>,
    /// Whether all of `installed` were acknowledged.
    pub(crate) is_installed: bool,
    /// Duration of the installation, with the stages of the mapping that was acknowledged last.
    pub(crate) mapping: Span,
    pub(crate) stages: Option<CommandStages>,
}

/// Device memory that a tensor, its clones and its views share; dropping it frees the memory.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) id: TensorId,
    pub(crate) context: Rc<Inner>,
    pub(crate) layout: Layout,
    pub(crate) shards: Vec<DeployedShard>,
    pub(crate) va_base: Option<DeviceVa>,
    pub(crate) mapping: Span,
    pub(crate) stages: Option<CommandStages>,
    /// Addresses and mappings; `None` once the memory has been freed.
    pub(crate) taken: RefCell<Option<Taken>>,
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.context.storages.borrow_mut().remove(&self.id);
        if let Some(taken) = self.taken.take() {
            self.context.give_back(taken, std::mem::take(&mut self.shards));
        }
    }
}

//! The device memory of a tensor: what it holds, and how it is given back.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cubeyard_device::machine::Stages;
use cubeyard_device::message::Mapping;
use cubeyard_device::request::PeRef;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, PeId, PhysAddr, SipId};
use cubeyard_memory::virtual_space::DeviceVa;
use cubeyard_sim::Span;

use super::Inner;
use crate::placement::Layout;

/// A shard where it is: `(sip, cube, pe, pa, nbytes, offset_bytes)` of ADR-0008.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeployedShard {
    /// Whose memory it is in.
    pub at: PeRef,
    /// Where.
    pub address: PhysAddr,
    /// How long it is.
    pub nbytes: u64,
    /// Where it begins in the tensor's addresses.
    pub offset_bytes: u64,
}

/// Mappings that were installed: which, and where.
#[derive(Clone, Debug)]
pub(crate) struct Installed {
    pub(crate) sip: SipId,
    pub(crate) cubes: Vec<CubeId>,
    pub(crate) pes: Vec<PeId>,
    pub(crate) mappings: Arc<[Mapping]>,
}

/// What a tensor has taken of a machine, besides memory.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) virtual_range: Option<(DeviceVa, Bytes)>,
    pub(crate) installed: Vec<Installed>,
    /// Whether all of those are.
    pub(crate) is_installed: bool,
    /// How long the mappings took to install, and where the time of the last of them went.
    pub(crate) mapping: Span,
    pub(crate) stages: Option<Stages>,
}

/// The memory of one or more tensors that share it. Dropping the last gives it back.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) number: u64,
    pub(crate) context: Rc<Inner>,
    pub(crate) layout: Layout,
    pub(crate) shards: Vec<DeployedShard>,
    pub(crate) va_base: Option<u64>,
    pub(crate) mapping: Span,
    pub(crate) stages: Option<Stages>,
    /// Nothing, once it has been given back.
    pub(crate) taken: RefCell<Option<Taken>>,
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.context.forget(self.number);
        if let Some(taken) = self.taken.take() {
            self.context.give_back(taken, std::mem::take(&mut self.shards));
        }
    }
}

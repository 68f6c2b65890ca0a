//! Memory of a SIP that its owner and the machine share.

use std::ops::Range;
use std::sync::Arc;

use cubeyard_device::shared_memory::SharedMemory;
use cubeyard_memory::address::SipId;

use crate::context::{Context, Inner};
use crate::error::RuntimeError;

impl Context {
    /// Makes memory of another owner the HBM of a SIP; see [`cubeyard_device::shared_memory`]. Launches use its addresses
    /// as [`Argument::Address`](crate::Argument::Address). No part of the SIP's memory may be allocated. A second call for
    /// the same SIP has no effect.
    pub fn share(&self, sip: SipId, memory: Arc<dyn SharedMemory>) -> Result<(), RuntimeError> {
        self.inner.check_open()?;
        if self.inner.shared.borrow().contains(&sip) {
            return Ok(());
        }
        if !self.machine(|machine| machine.topology().sips().any(|other| other == sip)) {
            return Err(RuntimeError::NoSuchSip(sip));
        }
        self.inner.check_slices(sip)?;
        let stats = self.memory_stats();
        if stats.pes.iter().any(|pe| pe.pe.sip == sip && !pe.used.is_zero()) {
            return Err(RuntimeError::TakenBySlices(sip));
        }
        self.inner.machine_mut()?.share(sip, memory);
        self.inner.shared.borrow_mut().insert(sip);
        Ok(())
    }
}

impl Inner {
    /// Refuses a SIP whose memory is shared with its owner.
    pub(crate) fn check_unshared(&self, sip: SipId) -> Result<(), RuntimeError> {
        if self.shared.borrow().contains(&sip) {
            return Err(RuntimeError::TakenByOwner(sip));
        }
        Ok(())
    }

    /// Returns the addresses of all blocks of shared memory, which the next launch may access.
    pub(crate) fn shared_blocks(&self) -> Result<Vec<Range<u64>>, RuntimeError> {
        if self.shared.borrow().is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.machine_mut()?.refresh_shared())
    }
}

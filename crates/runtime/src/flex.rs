//! The Flex family on the machine: regions of a SIP's HBM, programs in them, and launches on their blocks.
//!
//! A SIP's memory is managed either in slices of PEs, for tensors, or in regions, for this. A region lies in the
//! HBM of one cube; its id is its physical address (PF), or its index in the firmware's table (VF), which the
//! machine resolves. Programs and data get there by `MemoryWrite`, and so do the flat addresses of a launch's
//! operands, into a block of that launch's own, before it runs. The PEs of the SIP map each segment at its flat
//! addresses, so that what a kernel is given is what its PE can use.

mod operands;
mod transfer;
mod windows;

pub use operands::{FlexArray, FlexOperand, FlexOperands};

use std::rc::Rc;
use std::sync::{Arc, Weak};

use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;
use cubeyard_memory::device::DeviceMemory;
use cubeyard_memory::flex::{FlexAllocator, FlexConfig, Program};

use crate::context::{Context, Inner};
use crate::error::{AllocateError, RuntimeError};
use crate::sip_memory::{SipFunction, SipMemory};
use windows::Windows;

/// A SIP whose memory is managed in regions.
///
/// The SIP's memory stays with its regions as long as the device, its allocator or a block of it lives. Meanwhile no
/// tensor, no ring in HBM and no second device gets any of it.
#[derive(Debug)]
pub struct FlexDevice {
    context: Rc<Inner>,
    sip: SipId,
    allocator: FlexAllocator,
    windows: Rc<Windows>,
}

impl Context {
    /// Manages the memory of a SIP in regions from now on, as a physical function. Nothing may have any of it.
    pub fn flex(&self, sip: SipId, config: FlexConfig) -> Result<FlexDevice, RuntimeError> {
        self.flex_function(sip, SipFunction::Physical, config)
    }

    /// As [`flex`](Self::flex), with the choice of what the ids of regions mean.
    pub fn flex_function(
        &self,
        sip: SipId,
        function: SipFunction,
        config: FlexConfig,
    ) -> Result<FlexDevice, RuntimeError> {
        self.inner.check_open()?;
        let memory = self.machine(|machine| {
            let there = machine.topology().sips().any(|other| other == sip);
            there.then(|| Arc::new(SipMemory::new(sip, function, machine.topology())))
        });
        let memory = memory.ok_or(RuntimeError::NoSuchSip { sip })?;
        self.inner.check_slices(sip)?;
        let stats = self.memory_stats();
        if stats.pes.iter().any(|pe| pe.pe.sip == sip && !pe.used.is_zero()) {
            return Err(RuntimeError::TakenBySlices { sip });
        }
        let device = Arc::clone(&memory) as Arc<dyn DeviceMemory>;
        let allocator = FlexAllocator::builder(device).config(config).build()?;
        self.inner.regions.borrow_mut().insert(sip, Arc::downgrade(&memory));
        let table: Weak<dyn DeviceMemory> = Arc::<SipMemory>::downgrade(&memory);
        self.inner.machine_mut()?.set_regions(sip, table);
        let context = Rc::clone(&self.inner);
        let windows = Rc::new(Windows::new(Rc::clone(&context), sip));
        Ok(FlexDevice { context, sip, allocator, windows })
    }
}

impl Inner {
    /// Refuses slices of a SIP's HBM while its memory is managed in regions.
    pub(crate) fn check_slices(&self, sip: SipId) -> Result<(), RuntimeError> {
        if self.regions_of(sip).is_some() {
            return Err(RuntimeError::TakenByRegions { sip });
        }
        Ok(())
    }

    /// The memory of a SIP, while somebody takes regions of it.
    pub(crate) fn regions_of(&self, sip: SipId) -> Option<Arc<SipMemory>> {
        self.regions.borrow().get(&sip).and_then(Weak::upgrade)
    }
}

impl FlexDevice {
    /// The SIP.
    pub fn sip(&self) -> SipId {
        self.sip
    }

    /// The allocator of its regions.
    pub fn allocator(&self) -> &FlexAllocator {
        &self.allocator
    }

    /// Puts a program into memory of its own; a launch of it takes so many operands.
    pub fn load(&self, binary: &[u8], operands: usize) -> Result<Program, RuntimeError> {
        self.context.check_open()?;
        let bytes = Bytes::new(binary.len() as u64);
        let program = self.allocator.load_program(bytes, operands).map_err(AllocateError::from)?;
        self.write_at(program.memory().address(), binary)?;
        Ok(program)
    }
}

//! Memory of a SIP in regions, with programs and launches on blocks of them.
//!
//! A SIP's memory is managed either in slices of PEs, for tensors, or in regions. A region lies in the HBM of one cube;
//! its id is its physical address (PF), or its index in the firmware's table (VF), which the machine resolves. Programs,
//! data and the table of a launch's operands are written by `MemoryWrite`. The PEs of the SIP map each segment at its
//! flat addresses, which kernels use.

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
/// As long as the device, its allocator or a block exists, tensors, rings in HBM and other devices on this SIP are
/// refused.
#[derive(Debug)]
pub struct FlexDevice {
    context: Rc<Inner>,
    sip: SipId,
    allocator: FlexAllocator,
    windows: Rc<Windows>,
}

impl Context {
    /// Manages the memory of a SIP in regions, as a physical function. No part of the memory may be allocated.
    pub fn flex(&self, sip: SipId, config: FlexConfig) -> Result<FlexDevice, RuntimeError> {
        self.flex_function(sip, SipFunction::Physical, config)
    }

    /// Does the same as [`flex`](Self::flex) for either function, which determines the ids of regions.
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
        let memory = memory.ok_or(RuntimeError::NoSuchSip(sip))?;
        self.inner.check_slices(sip)?;
        let stats = self.memory_stats();
        if stats.pes.iter().any(|pe| pe.pe.sip == sip && !pe.used.is_zero()) {
            return Err(RuntimeError::TakenBySlices(sip));
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
    /// Refuses slices of a SIP's HBM while its memory is managed in regions, or shared with its owner.
    pub(crate) fn check_slices(&self, sip: SipId) -> Result<(), RuntimeError> {
        if self.regions_of(sip).is_some() {
            return Err(RuntimeError::TakenByRegions(sip));
        }
        self.check_unshared(sip)
    }

    /// Returns the memory of a SIP while it is managed in regions.
    pub(crate) fn regions_of(&self, sip: SipId) -> Option<Arc<SipMemory>> {
        self.regions.borrow().get(&sip).and_then(Weak::upgrade)
    }
}

impl FlexDevice {
    /// Returns the SIP of the device.
    pub fn sip(&self) -> SipId {
        self.sip
    }

    /// Returns the allocator of the device's regions.
    pub fn allocator(&self) -> &FlexAllocator {
        &self.allocator
    }

    /// Allocates program memory and writes a binary into it; its launches take `operands` operands.
    pub fn load(&self, binary: &[u8], operands: usize) -> Result<Program, RuntimeError> {
        self.context.check_open()?;
        let bytes = Bytes::new(binary.len() as u64);
        let program = self.allocator.load_program(bytes, operands).map_err(AllocateError::from)?;
        self.write_at(program.memory().address(), binary)?;
        Ok(program)
    }
}

//! Which node answers for a physical address.

use cubeyard_memory::Bytes;
use cubeyard_memory::address::{Die, PhysAddr, SipId, Window};

use super::{NodeId, Topology, layout};

/// Why no node answers for an address. Final: this machine has nothing there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The machine has fewer SIPs.
    #[error("{address} is outside the machine, which has {count} SIPs")]
    NoSip {
        /// The address.
        address: PhysAddr,
        /// How many there are.
        count: u32,
    },
    /// The SIP has fewer cubes or IO chiplets.
    #[error("{address} is outside its SIP, which has {count} {what}")]
    NoDie {
        /// The address.
        address: PhysAddr,
        /// Cubes or IO chiplets.
        what: &'static str,
        /// How many there are.
        count: u32,
    },
    /// The cube has fewer PEs.
    #[error("{address} is outside its cube, which has {count} PEs")]
    NoPe {
        /// The address.
        address: PhysAddr,
        /// How many there are.
        count: u32,
    },
    /// The memory is shorter than its window.
    #[error("{address} is outside the {memory}, which is {} bytes long", capacity.get())]
    Beyond {
        /// The address.
        address: PhysAddr,
        /// HBM, TCM or SRAM.
        memory: &'static str,
        /// How long it is.
        capacity: Bytes,
    },
}

impl Topology {
    /// The node that answers for an address: the controller of the slice for HBM, the DMA engine for a
    /// PE's TCM and the processor for its registers, else `M_CPU`, SRAM or the IO chiplet's processor.
    pub fn resolve(&self, address: PhysAddr) -> Result<NodeId, ResolveError> {
        let (sip, spec) = (address.sip(), self.spec());
        self.check_sip(address, sip)?;
        let (layout, sip) = (&self.layout, sip.number());
        let cube = match address.die() {
            Die::IoChiplet(io) => {
                let count = layout::number(spec.io.chiplets.len());
                let error = ResolveError::NoDie { address, what: "IO chiplets", count };
                return below(io.number(), count, error).map(|io| layout.io_cpu(sip, io));
            }
            Die::Cube(cube) => {
                let count = spec.cube_count();
                below(cube.number(), count, ResolveError::NoDie { address, what: "cubes", count })?
            }
        };
        let within = |offset, capacity, memory| {
            let error = ResolveError::Beyond { address, memory, capacity };
            (offset < capacity).then_some(()).ok_or(error)
        };
        let count = spec.pe_count();
        let pe = |pe: u32| below(pe, count, ResolveError::NoPe { address, count });
        match address.window() {
            Window::Hbm { offset } => {
                within(offset, spec.hbm.capacity, "HBM")?;
                let slice = u32::try_from(offset.get() / spec.hbm.slice.get());
                Ok(layout.hbm(sip, cube, slice.expect("the HBM has a slice for each PE")))
            }
            Window::Tcm { pe: number, offset } => {
                within(offset, spec.pe.tcm, "TCM")?;
                Ok(layout.pe_dma(sip, cube, pe(number.number())?))
            }
            Window::Registers { pe: number, .. } => {
                Ok(layout.pe_cpu(sip, cube, pe(number.number())?))
            }
            Window::Sram { offset } => {
                within(offset, spec.sram.capacity, "SRAM")?;
                Ok(layout.sram(sip, cube))
            }
            Window::MCpu { .. } => Ok(layout.m_cpu(sip, cube)),
            Window::IoChiplet { .. } => unreachable!("a cube has no such window"),
        }
    }

    fn check_sip(&self, address: PhysAddr, sip: SipId) -> Result<u32, ResolveError> {
        let count = self.spec().sips.count;
        below(sip.number(), count, ResolveError::NoSip { address, count })
    }
}

fn below(number: u32, count: u32, error: ResolveError) -> Result<u32, ResolveError> {
    if number < count { Ok(number) } else { Err(error) }
}

//! Maps physical addresses to nodes.

use cubeyard_memory::Bytes;
use cubeyard_memory::address::{Die, PhysAddr, SipId, Window};

use super::{NodeId, Topology, layout};

/// Error for an address that the machine does not serve. Use another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The address names a SIP that the machine does not have.
    #[error("{address} is outside the machine, which has {count} SIPs")]
    NoSip {
        /// Address that was given.
        address: PhysAddr,
        /// Number of SIPs of the machine.
        count: u32,
    },
    /// The address names a cube or IO chiplet that its SIP does not have.
    #[error("{address} is outside its SIP, which has {count} {what}")]
    NoDie {
        /// Address that was given.
        address: PhysAddr,
        /// Kind of die: `cubes` or `IO chiplets`.
        what: &'static str,
        /// Number of such dies in the SIP.
        count: u32,
    },
    /// The address names a PE that its cube does not have.
    #[error("{address} is outside its cube, which has {count} PEs")]
    NoPe {
        /// Address that was given.
        address: PhysAddr,
        /// Number of PEs of the cube.
        count: u32,
    },
    /// The offset in the window is beyond the end of the memory.
    #[error("{address} is outside the {memory}, which is {} bytes long", capacity.get())]
    Beyond {
        /// Address that was given.
        address: PhysAddr,
        /// Name of the memory: `HBM`, `TCM` or `SRAM`.
        memory: &'static str,
        /// Size of the memory.
        capacity: Bytes,
    },
}

impl Topology {
    /// Returns the node that serves an address: the slice's controller for HBM, the DMA engine for a PE's TCM, the
    /// processor for a PE's registers, and otherwise the `M_CPU`, the SRAM or the IO chiplet's processor.
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

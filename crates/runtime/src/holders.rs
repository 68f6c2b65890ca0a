//! The PEs that hold addresses, and the share of bytes that programs move in their own slices.

use std::collections::BTreeMap;

use cubeyard_device::machine::MachineView;
use cubeyard_device::request::PeRef;

use crate::context::Context;
use crate::error::RuntimeError;
use crate::launch::Launch;

impl Context {
    /// Returns the number of PEs of the launches, and the PE whose slice of the HBM holds each address, as an index among
    /// them in order. `None` if no such PE holds it, or if each PE has a copy.
    pub fn holders(
        &self,
        launches: &[Launch<'_>],
        addresses: &[u64],
    ) -> Result<(usize, Vec<Option<usize>>), RuntimeError> {
        self.inner.check_open()?;
        self.inner.shared_blocks()?;
        let grids = launches.iter().map(|launch| self.inner.grid(launch));
        let pes: Vec<PeRef> = grids.flat_map(|grid| grid.all().collect::<Vec<_>>()).collect();
        let numbers: BTreeMap<PeRef, usize> = pes.iter().copied().zip(0..).collect();
        let holders = self.machine(|machine| {
            let slice = machine.topology().spec().hbm.slice;
            let holder = |view: MachineView<'_>, address| {
                let (first, last) = (*pes.first()?, *pes.last()?);
                let place = view.physical(first, address, 1)?;
                if view.physical(last, address, 1) != Some(place) {
                    return None;
                }
                let pe = PeRef { sip: place.sip(), cube: place.cube()?, pe: place.hbm_pe(slice)? };
                numbers.get(&pe).copied()
            };
            addresses.iter().map(|&address| holder(machine.view(), address)).collect()
        });
        Ok((pes.len(), holders))
    }

    /// Returns the bytes that programs have moved by DMA so far: those in the slices of their own PEs, and all.
    pub fn moved(&self) -> [u64; 2] {
        self.machine(|machine| machine.view().moved())
    }
}

//! Copies of a small tensor in each cube.
//!
//! If all PEs read one page, the links of its cube are busy for long. So one PE of each cube reads each page first, and the
//! PEs of the cube read from the copy.

use std::rc::Rc;

use cubeyard_kernels::ahead;
use cubeyard_runtime::dtype::DType;
use cubeyard_tl::{Ref, Tl};

use crate::machine::{OperatorMachine, Stage, address};

/// Places of the copies of a tensor in the cubes of a SIP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copies {
    /// Storages of the tensor, and of its copies.
    storages: [usize; 2],
    bytes: u64,
    page: u64,
    /// Cubes, and PEs of a cube.
    cubes: u64,
    pes: u64,
    by_cubes: bool,
}

impl Copies {
    pub(crate) fn new(machine: &OperatorMachine, storages: [usize; 2], bytes: u64) -> Self {
        let spec = machine.topology().spec();
        let by_cubes = spec.hbm.deal == cubeyard_device::topology::DealOrder::Cubes;
        let (cubes, pes) = (spec.cube_count().into(), spec.pe_count().into());
        Self { storages, bytes, page: machine.page(), cubes, pes, by_cubes }
    }

    /// Returns the bytes of the storage of all copies.
    pub(crate) fn storage(&self) -> u64 {
        self.bytes.div_ceil(self.page).div_ceil(self.pes) * self.pes * self.cubes * self.page
    }

    fn cube(&self, turn: u64) -> u64 {
        if self.by_cubes { turn % self.cubes } else { turn / self.pes }
    }

    fn number(&self, turn: u64) -> u64 {
        if self.by_cubes { turn / self.cubes } else { turn % self.pes }
    }

    /// Returns the address of a byte in the copy of a PE's cube. Bytes of one page are contiguous.
    pub(crate) fn address(&self, turn: u64, byte: u64) -> u64 {
        let (page, cube) = (byte / self.page, self.cube(turn));
        let (round, pe) = (page / self.pes, page % self.pes);
        let holder = if self.by_cubes { pe * self.cubes + cube } else { cube * self.pes + pe };
        let page = round * self.cubes * self.pes + holder;
        address(self.storages[1]) + page * self.page + byte % self.page
    }

    /// Returns the stage that makes the copies: each PE copies the pages of its cube's copy that it will hold.
    pub(crate) fn stage(self) -> Stage {
        Rc::new(move |tl: &Tl, turn| {
            let pages = (self.number(turn)..self.bytes.div_ceil(self.page))
                .step_by(usize::try_from(self.pes).unwrap_or(1));
            let loads = pages.map(|page| {
                let bytes = self.page.min(self.bytes - page * self.page);
                let from =
                    Ref::new(address(self.storages[0]) + page * self.page, &[bytes], DType::U8);
                (
                    tl.load(&from),
                    Ref::new(self.address(turn, page * self.page), &[bytes], DType::U8),
                )
            });
            for (tile, to) in ahead(loads) {
                tl.store(&to, &tile);
            }
        })
    }
}

//! Overlap of a tiled operation's result with its operands in memory.

use cubeyard_device::message::Direction;
use cubeyard_device::pe::Dma;

use super::super::CompositeKind;
use super::{Plan, PlanSource};
use crate::Ref;
use crate::traffic::touch_same;

impl Plan {
    /// Checks that the result does not overlap the operands in memory: its tiles are stored while later tiles of the
    /// operands are still to be loaded. Only an elementwise operation may write where it reads, tile by tile.
    pub(super) fn check_apart(&self) -> Result<(), String> {
        let Some(to) = &self.to else { return Ok(()) };
        for (index, source) in self.sources.iter().enumerate() {
            let PlanSource::Memory(from) = source else { continue };
            let in_place = matches!(self.kind, CompositeKind::Map(_)) && to.is_same_memory(from);
            if !in_place && overlaps(to, from) {
                let (what, name, of) = (self.brief(), self.source_name(index), from.ty());
                return Err(format!(
                    "{what}: its result overlaps operand {name}, {of}, in memory, which is still read while it is \
                     stored: store it elsewhere, or make a tile of it and store that"
                ));
            }
        }
        Ok(())
    }
}

fn overlaps(to: &Ref, from: &Ref) -> bool {
    let read = from.accesses(Direction::Read, None);
    let touches = |write: &Dma| read.iter().any(|read| touch_same(write, read));
    to.accesses(Direction::Write, None).iter().any(touches)
}

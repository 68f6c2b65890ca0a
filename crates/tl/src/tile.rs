//! Tiles in the TCM, on which a kernel computes.

use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use cubeyard_device::pe::CommandId;

use super::input::{Input, ValueId};
use super::{Port, Tl};
use crate::numeric::TileType;

/// An immutable tile in the TCM; each computation returns a new one. Cheap to clone. Dropping the last clone frees its
/// memory, so a Rust scope is also a scope of the scratch memory.
#[derive(Clone)]
pub struct Tile {
    ty: TileType,
    cell: Rc<TileCell>,
}

/// State shared by the clones and views of a tile.
struct TileCell {
    tl: Tl,
    value: ValueId,
    place: Range<u64>,
    producer: Cell<CommandId>,
    /// State of the message slot that contains the tile, if any.
    slot: Cell<TileSlot>,
}

/// Relation of a tile to a message slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TileSlot {
    /// The tile has its own memory.
    None,
    /// The tile lies in a slot of this port.
    Held(Port),
    /// The tile's slot was released.
    Released(Port),
}

impl Tile {
    pub(super) fn new(tl: &Tl, ty: TileType, place: Range<u64>) -> Self {
        Self::in_slot(tl, ty, place, TileSlot::None)
    }

    pub(super) fn in_slot(tl: &Tl, ty: TileType, place: Range<u64>, slot: TileSlot) -> Self {
        let (tl, value, slot) = (tl.clone(), tl.state.new_value(), Cell::new(slot));
        let cell = TileCell { tl, value, place, producer: Cell::new(0), slot };
        Self { ty, cell: Rc::new(cell) }
    }

    pub(super) fn slot(&self) -> TileSlot {
        self.cell.slot.get()
    }

    pub(super) fn set_slot(&self, slot: TileSlot) {
        self.cell.slot.set(slot);
    }

    /// Returns type and shape.
    pub fn ty(&self) -> &TileType {
        &self.ty
    }

    /// Returns the length of a dimension; 1 beyond the last.
    pub fn dim(&self, axis: usize) -> u64 {
        self.ty.shape.get(axis).copied().unwrap_or(1)
    }

    /// Views the same tile in another shape, at no cost.
    #[must_use]
    pub(super) fn seen_as(&self, ty: TileType) -> Self {
        Self { ty, cell: Rc::clone(&self.cell) }
    }

    pub(crate) fn tl(&self) -> &Tl {
        &self.cell.tl
    }

    pub(super) fn value(&self) -> ValueId {
        self.cell.value
    }

    pub(super) fn place(&self) -> &Range<u64> {
        &self.cell.place
    }

    pub(super) fn producer(&self) -> CommandId {
        self.cell.producer.get()
    }

    pub(super) fn made_by(&self, command: CommandId) {
        self.cell.producer.set(command);
    }

    pub(super) fn input(&self) -> Input {
        Input { value: self.cell.value, ty: self.ty.clone() }
    }
}

impl Drop for TileCell {
    fn drop(&mut self) {
        let state = &self.tl.state;
        state.scratch.borrow_mut().release(&self.place);
        state.tape.borrow_mut().held[self.value as usize] = false;
    }
}

impl fmt::Debug for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tile({} {})", self.cell.value, self.ty)
    }
}

//! Loads and stores: tiles moved between memory and the TCM.

use std::rc::Rc;

use cubeyard_device::message::Direction;
use cubeyard_device::pe::{Dma, MemoryOrder, Pipeline, Strips, Work};
use cubeyard_runtime::Scalar;

use super::order::TileUse;
use super::reference::Accesses;
use super::{Effect, Mask, Ref, Tile, Tl};
use crate::numeric::{Constant, TileType};

impl Tl {
    /// Loads a tile into the TCM.
    #[track_caller]
    pub fn load(&self, from: &Ref) -> Tile {
        self.load_with(from, None, None)
    }

    /// Loads the elements that a mask selects; the others are set to `other`.
    #[track_caller]
    pub fn load_masked(&self, from: &Ref, mask: &Mask, other: impl Into<Scalar>) -> Tile {
        self.checked(mask.check(from.ty()));
        let other = self.checked(Constant::new(other, from.ty().dtype));
        self.load_with(from, Some(Rc::new((mask.clone(), other))), None)
    }

    /// Loads the elements that a mask selects as a part of an atomic operation; the others are set to 0.
    #[track_caller]
    pub fn load_atomic(&self, from: &Ref, mask: Option<&Mask>, order: MemoryOrder) -> Tile {
        let Some(mask) = mask else { return self.load_with(from, None, Some(order)) };
        self.checked(mask.check(from.ty()));
        let zero = self.checked(Constant::new(0, from.ty().dtype));
        self.load_with(from, Some(Rc::new((mask.clone(), zero))), Some(order))
    }

    #[track_caller]
    fn load_with(
        &self,
        from: &Ref,
        mask: Option<Rc<(Mask, Constant)>>,
        atomic: Option<MemoryOrder>,
    ) -> Tile {
        let ty = self.checked(TileType::new(from.ty().dtype, &from.ty().shape));
        let accesses = from.accesses(Direction::Read, mask.as_ref().map(|of| &of.0));
        self.check_live(&accesses);
        let tile = self.tile(ty.clone());
        let effect = Effect::Load { value: tile.value(), ty, mask };
        self.order_with(atomic, dma_work(accesses), effect, [TileUse::Write(&tile)]);
        tile
    }

    /// Stores a tile from the TCM to memory.
    #[track_caller]
    pub fn store(&self, to: &Ref, tile: &Tile) {
        self.store_with(to, tile, None, None);
    }

    /// Stores the elements that a mask selects.
    #[track_caller]
    pub fn store_masked(&self, to: &Ref, tile: &Tile, mask: &Mask) {
        self.checked(mask.check(tile.ty()));
        self.store_with(to, tile, Some(Rc::new(mask.clone())), None);
    }

    /// Stores the elements that a mask selects as a part of an atomic operation.
    #[track_caller]
    pub fn store_atomic(&self, to: &Ref, tile: &Tile, mask: Option<&Mask>, order: MemoryOrder) {
        if let Some(mask) = mask {
            self.checked(mask.check(tile.ty()));
        }
        self.store_with(to, tile, mask.cloned().map(Rc::new), Some(order));
    }

    #[track_caller]
    fn store_with(
        &self,
        to: &Ref,
        tile: &Tile,
        mask: Option<Rc<Mask>>,
        atomic: Option<MemoryOrder>,
    ) {
        if to.ty() != tile.ty() {
            self.fail(format!("store of {} to {}: they must be equal", tile.ty(), to.ty()));
        }
        let accesses = to.accesses(Direction::Write, mask.as_deref());
        self.check_live(&accesses);
        let effect = Effect::Store { input: tile.input(), mask };
        self.order_with(atomic, dma_work(accesses), effect, [TileUse::Read(tile)]);
    }
}

/// Returns the work of accesses: a single DMA, or a pipeline of several.
fn dma_work(accesses: Accesses) -> Work {
    match accesses.as_slice() {
        [dma] => Work::Dma(*dma),
        _ => Work::Pipeline(Rc::new(InTurn(accesses.into_vec()))),
    }
}

/// Accesses of one direction, issued one after another.
#[derive(Debug)]
struct InTurn(Vec<Dma>);

impl InTurn {
    fn count(&self, direction: Direction) -> u32 {
        let is = self.0.first().is_some_and(|dma| dma.direction == direction);
        if is { u32::try_from(self.0.len()).expect("fewer than 2³² accesses") } else { 0 }
    }
}

impl Pipeline for InTurn {
    fn parts(&self) -> [u32; 3] {
        [self.count(Direction::Read), 0, self.count(Direction::Write)]
    }

    fn load(&self, index: u32) -> Dma {
        self.0[index as usize]
    }

    fn load_after(&self, _: u32) -> u32 {
        0
    }

    fn compute(&self, _: u32) -> Strips {
        unreachable!("it computes nothing")
    }

    fn compute_after(&self, _: u32) -> [u32; 2] {
        [0; 2]
    }

    fn compute_after_other(&self, _: u32) -> u32 {
        0
    }

    fn store(&self, index: u32) -> Dma {
        self.0[index as usize]
    }

    fn store_after(&self, _: u32) -> u32 {
        0
    }
}

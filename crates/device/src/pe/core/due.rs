//! Which units of a core have something to look at.

/// The units whose state may have changed since they last looked, a bit each. A unit that is not due would
/// find what it found before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due(u8);

/// The DMA engines that read.
pub(super) const LOAD: usize = 0;
/// The compute engine.
pub(super) const COMPUTE: usize = 1;
/// The DMA engines that write.
pub(super) const STORE: usize = 2;
/// Messages to other PEs.
pub(super) const SEND: usize = 3;
/// Messages from one of several PEs, which is to be chosen.
pub(super) const ANY: usize = 4;
/// Messages from other PEs.
pub(super) const RECEIVE: usize = 5;
/// What `PE_CPU` does.
pub(super) const DISPATCH: usize = 6;
/// How many there are.
pub(super) const UNITS: usize = 7;

impl Due {
    /// Every unit.
    pub(super) const ALL: Self = Self((1 << UNITS) - 1);

    pub(super) fn add(&mut self, unit: usize) {
        self.0 |= 1 << unit;
    }

    /// Whether a unit is due. It is not any more, unless something changes.
    pub(super) fn take(&mut self, unit: usize) -> bool {
        let was = self.0;
        self.0 &= !(1 << unit);
        self.0 != was
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

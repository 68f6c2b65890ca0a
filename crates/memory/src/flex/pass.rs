//! Progress of one pass of compaction over all blocks.

use crate::Bytes;

/// Progress of a pass. It plans the same moves in steps as at once: blocks that were allocated or moved after its start
/// stay, as the room does that a plan reserves, and the ranges that its steps free are no targets of its later steps.
#[derive(Debug)]
pub(crate) struct Pass {
    /// Slots, the least filled first, each with the serial number of its latest block at the start.
    pub(super) slots: Vec<(usize, u32)>,
    /// Slots that are empty after the pass.
    pub(super) emptied: Vec<usize>,
    /// Number of slots that were tried to be emptied.
    pub(super) tried: usize,
    /// Number of slots that were closed up.
    pub(super) closed: usize,
    /// Lowest block that was considered in the slot that is being closed up.
    pub(super) limit: Bytes,
}

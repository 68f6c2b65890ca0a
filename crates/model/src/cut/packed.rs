//! Experts whose weights have 4 bits, two in each byte, and a common exponent for blocks of 32: MXFP4.

use super::Cut;

/// Number of weights that have a common exponent.
pub(crate) const BLOCK: u64 = 32;

impl Cut {
    /// Returns whether the weights of experts have 4 bits, two in each byte.
    pub fn is_packed(&self) -> bool {
        self.spec.family.has_mxfp4_experts && self.routing.is_some()
    }

    /// Returns the number of weights of experts in an element of their tensor.
    pub(crate) fn packed(&self) -> u64 {
        if self.is_packed() { 2 } else { 1 }
    }

    /// Returns the number of blocks of weights in a column of gate or up.
    pub(crate) fn gate_up_blocks(&self) -> u64 {
        self.hidden().div_ceil(BLOCK)
    }

    /// Returns the number of blocks of weights in a PE's part of a column of the down projection.
    pub(crate) fn down_blocks(&self) -> u64 {
        (self.inner() * self.pes).div_ceil(BLOCK)
    }

    /// Returns the bytes of some weights of the feed-forward part.
    pub(crate) fn ffn_bytes(&self, weights: u64) -> u64 {
        if self.is_packed() {
            weights / 2 + weights.div_ceil(BLOCK)
        } else {
            weights * self.work.weights.size()
        }
    }

    /// Returns the number of elements in a row of a panel of the down projection.
    pub(crate) fn down_panel(&self, rows: u64) -> u64 {
        if self.is_packed() {
            return self.panel_of(rows, 1).min(self.slice() / 2);
        }
        self.panel(rows)
    }
}

//! Pools and tags of a thread: those whose `with` blocks the thread is in.

use std::cell::RefCell;

use cubeyard_memory::flex::{PoolId, TagId};
use pyo3::prelude::*;

use crate::error::Kind;

/// Pool or tag of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    Pool(PoolId),
    Tag(TagId),
}

thread_local! {
    /// Labels that this thread has entered, with the identities of their allocators. The last one is in effect.
    static ENTERED: RefCell<Vec<(usize, Label)>> = const { RefCell::new(Vec::new()) };
}

/// Puts a label into effect for the allocations of this thread.
pub(crate) fn enter(allocator: usize, label: Label) {
    ENTERED.with_borrow_mut(|entered| entered.push((allocator, label)));
}

/// Ends the latest effect of a label on this thread.
pub(crate) fn leave(allocator: usize, label: Label) -> PyResult<()> {
    let left = ENTERED.with_borrow_mut(|entered| {
        let place = entered.iter().rposition(|&place| place == (allocator, label))?;
        Some(entered.remove(place))
    });
    let text =
        "this thread is not inside its `with` block, which belongs to the thread that entered it";
    left.map(drop).ok_or_else(|| Kind::Input.error(text))
}

/// Returns the pool and the tag in effect for an allocator on this thread.
pub(crate) fn current(allocator: usize) -> (PoolId, TagId) {
    ENTERED.with_borrow(|entered| {
        let mut own = entered.iter().rev().filter(|(owner, _)| *owner == allocator);
        let mut tags = own.clone();
        let pool = own.find_map(|(_, label)| match label {
            Label::Pool(pool) => Some(*pool),
            Label::Tag(_) => None,
        });
        let tag = tags.find_map(|(_, label)| match label {
            Label::Tag(tag) => Some(*tag),
            Label::Pool(_) => None,
        });
        (pool.unwrap_or_default(), tag.unwrap_or_default())
    })
}

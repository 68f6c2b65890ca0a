//! Resting: blocks whose memory is returned to the device while their addresses stay.
//!
//! A paused block keeps its place, its owner and its names; its contents are lost. Everything here works on the blocks
//! that a predicate chooses, in all regions at once, and either for all of them or for none.

use std::collections::BTreeSet;

use super::config::{Growth, Release};
use super::region::RegionState;
use super::slots::Slot;
use super::{Allocation, FlexAllocator, Pool, VirtualAddress};
use crate::Bytes;
use crate::index::{Block, BlockKey};
use crate::policy::{PoolId, TagId};
use crate::sync::Arc;

/// Choice of blocks, by the region's state and the block. It is called with the region locked.
type Choice<'a> = &'a dyn Fn(&RegionState, &Block) -> bool;

/// Blocks of one slot.
type Chosen = (Arc<Slot>, Vec<BlockKey>);

/// A refused pause. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PauseError {
    /// Regions have a fixed size, so parts of them cannot be returned. Use `growth:growable` or `growth:recycle`.
    #[error(
        "regions of a fixed size cannot return the memory of single blocks; use `growth:growable(SIZE)`"
    )]
    FixedRegions,
    /// The allocator has no pool of this number, or it was closed.
    #[error("the allocator has no {0}, or it was closed")]
    UnknownPool(PoolId),
    /// The allocator has no tag of this number. Use the number that [`FlexAllocator::tag`] has returned.
    #[error("the allocator has no {0}")]
    UnknownTag(TagId),
    /// A block is pinned or exported: a launch or another process may use it. Drop the pins first.
    #[error("the block at {address} is pinned, so its memory cannot be returned")]
    Pinned {
        /// Address of the block.
        address: VirtualAddress,
    },
    /// The device or the streams made the request while the allocator was calling them on this thread. Make it after
    /// that call.
    #[error(
        "the allocator is calling its device or streams on this thread; pause when that call has returned"
    )]
    Reentrant,
}

/// A refused resume. All chosen blocks are still paused. Idle memory may have been returned to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// The allocator has no pool of this number, or it was closed.
    #[error("the allocator has no {0}, or it was closed")]
    UnknownPool(PoolId),
    /// The allocator has no tag of this number. Use the number that [`FlexAllocator::tag`] has returned.
    #[error("the allocator has no {0}")]
    UnknownTag(TagId),
    /// The device has not enough memory for all blocks, or a pool has reached its limit. Free or trim some memory and
    /// try again.
    #[error(
        "the paused blocks need {needed}, which the device or the limit of a pool refuses; the device has {free} free"
    )]
    NoMemory {
        /// Memory to commit, in whole granules.
        needed: Bytes,
        /// Free memory of the device.
        free: Bytes,
    },
    /// The device or the streams made the request while the allocator was calling them on this thread. Make it after
    /// that call.
    #[error(
        "the allocator is calling its device or streams on this thread; resume when that call has returned"
    )]
    Reentrant,
}

impl Allocation {
    /// Returns whether the block is paused: it has an address and no memory.
    pub fn is_paused(&self) -> bool {
        self.follow(|slot, key| slot.with(|region| region.is_resting(key)))
    }
}

impl Pool {
    /// Returns the memory of the pool's blocks to the device; see [`FlexAllocator::pause_pool`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use cubeyard_memory::{Bytes, FlexAllocator, device::{Card, CardSpec}, flex::PoolSpec};
    /// # let card = Arc::new(Card::new(CardSpec::physical(Bytes::gib(16))));
    /// let config = "growth:growable(64GiB)".parse()?;
    /// let allocator = FlexAllocator::builder(card).config(config).build()?;
    /// let weights = allocator.pool(PoolSpec::new("weights"));
    /// let layer = weights.allocate(Bytes::gib(10))?;
    /// let address = layer.address();
    /// assert_eq!(weights.pause()?, Bytes::gib(10));
    /// let rollout = allocator.allocate(Bytes::gib(12))?; // takes the memory of the weights
    /// assert!(weights.resume().is_err(), "nothing is half resumed");
    /// drop(rollout);
    /// weights.resume()?;
    /// assert_eq!(layer.address(), address);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause(&self) -> Result<Bytes, PauseError> {
        self.allocator().pause_pool(self.id())
    }

    /// Brings back the memory of the pool's paused blocks; see [`FlexAllocator::resume_pool`].
    pub fn resume(&self) -> Result<Bytes, ResumeError> {
        self.allocator().resume_pool(self.id())
    }
}

impl FlexAllocator {
    /// Pauses all blocks of a pool: returns their memory to the device, and keeps their addresses. Their contents are
    /// lost. Returns the number of bytes returned.
    ///
    /// It first waits for the streams that may access the blocks. Granules that a paused block shares with another block
    /// stay committed. A paused block can be freed. It does not move, and launches, exports and resizes of it are
    /// refused. Blocks that are allocated later have memory; the next pause includes them.
    pub fn pause_pool(&self, pool: PoolId) -> Result<Bytes, PauseError> {
        self.known_pool(pool).ok_or(PauseError::UnknownPool(pool))?;
        self.pause_where(&|state, _| state.region().pool == pool)
    }

    /// Commits memory to all paused blocks of a pool, at their addresses. If there is not enough for all of them, none
    /// is resumed. Returns the number of bytes committed.
    pub fn resume_pool(&self, pool: PoolId) -> Result<Bytes, ResumeError> {
        self.known_pool(pool).ok_or(ResumeError::UnknownPool(pool))?;
        self.resume_where(&|state, _| state.region().pool == pool)
    }

    /// Pauses all blocks with a tag, in all pools, as [`pause_pool`](Self::pause_pool) does for a pool. The blocks still
    /// count for the tag's budget.
    pub fn pause_tag(&self, tag: TagId) -> Result<Bytes, PauseError> {
        self.tag_report(tag).ok_or(PauseError::UnknownTag(tag))?;
        self.pause_where(&|state, block| state.tag(block) == tag)
    }

    /// Commits memory to all paused blocks with a tag, as [`resume_pool`](Self::resume_pool) does for a pool.
    pub fn resume_tag(&self, tag: TagId) -> Result<Bytes, ResumeError> {
        self.tag_report(tag).ok_or(ResumeError::UnknownTag(tag))?;
        self.resume_where(&|state, block| state.tag(block) == tag)
    }

    fn known_pool(&self, pool: PoolId) -> Option<()> {
        let known = pool == PoolId::DEFAULT || self.shared.pools.get(pool).is_some();
        known.then_some(())
    }

    /// Pauses the chosen blocks, after the streams that may access them have passed. Returns the number of bytes
    /// returned to the device.
    fn pause_where(&self, chosen: Choice<'_>) -> Result<Bytes, PauseError> {
        if self.config().growth == Growth::Fixed {
            return Err(PauseError::FixedRegions);
        }
        if self.is_calling_out() {
            return Err(PauseError::Reentrant);
        }
        self.shared.journal.tick();
        let (chosen, streams) = self.begin_pause(chosen)?;
        if self.shared.streams.wait_on(&streams) {
            self.shared.count_stream_waits(1);
        }
        // Under this turn no region is released.
        let turn = self.shared.take_turn();
        let returned: Bytes = chosen.iter().map(|(slot, keys)| slot.pause(keys)).sum();
        drop(turn);
        if !returned.is_zero() {
            self.shared.note_change();
        }
        self.shared.deliver();
        Ok(returned)
    }

    /// Marks the chosen blocks, so that no launch begins to use them. Returns them with the streams that may access
    /// them.
    fn begin_pause(&self, chosen: Choice<'_>) -> Result<(Vec<Chosen>, BTreeSet<u32>), PauseError> {
        self.shared.collect_posts();
        let mut states: Vec<_> = self.slots.iter().map(Slot::enter).collect();
        let mut found = Vec::new();
        for (slot, state) in self.slots.iter().zip(&states) {
            let keys = state.region.pausable(&|block| chosen(&state.region, block));
            let keys = keys.map_err(|address| PauseError::Pinned { address })?;
            found.push((Arc::clone(slot), keys));
        }
        let mut streams = BTreeSet::new();
        for ((_, keys), state) in found.iter().zip(&mut states) {
            keys.iter().for_each(|&key| state.region.begin_pause(key, &mut streams));
        }
        found.retain(|(_, keys)| !keys.is_empty());
        Ok((found, streams))
    }

    /// Commits memory to the chosen paused blocks at their addresses. If the device refuses, idle memory is returned to
    /// it, and it is asked once more. Returns the number of bytes committed.
    fn resume_where(&self, chosen: Choice<'_>) -> Result<Bytes, ResumeError> {
        if self.is_calling_out() {
            return Err(ResumeError::Reentrant);
        }
        self.shared.journal.tick();
        let outcome = self.try_resume(chosen).or_else(|_| {
            self.shared.synchronize();
            let turn = self.shared.take_turn();
            let regions = self.config().release != Release::Never;
            self.shared.give_back(&self.slots, regions, true);
            drop(turn);
            self.try_resume(chosen)
        });
        self.shared.deliver();
        outcome.map_err(|needed| ResumeError::NoMemory { needed, free: self.device().info().free })
    }

    /// Returns the number of bytes committed, or the number that the device would not commit.
    fn try_resume(&self, chosen: Choice<'_>) -> Result<Bytes, Bytes> {
        // Under this turn no region is released.
        let _turn = self.shared.take_turn();
        let resting =
            |slot: &Arc<Slot>| slot.with(|region| region.resting(&|block| chosen(region, block)));
        let found = self.slots.iter().map(|slot| (Arc::clone(slot), resting(slot)));
        let found: Vec<_> = found.filter(|(_, keys)| !keys.is_empty()).collect();
        // Turns are taken in the order of the slots, and held until all memory is committed or none.
        let _turns: Vec<_> = found.iter().map(|(slot, _)| slot.take_turn()).collect();
        let plans: Vec<_> = found.iter().map(|(slot, keys)| slot.plan_resume(keys)).collect();
        let needed = plans.iter().flat_map(|(plan, _)| &plan.missing).map(|&(_, size)| size).sum();
        let commit =
            |(plan, pool): &&(_, Option<Arc<_>>)| self.shared.commit_within(plan, pool.as_deref());
        let done = plans.iter().take_while(commit).count();
        if done < plans.len() {
            for (plan, pool) in &plans[..done] {
                self.shared.decommit(&plan.handle, &plan.missing, pool.as_deref());
            }
            // The idle granules of the plans that were not tried count as decommitted already.
            for (plan, pool) in &plans[done + 1..] {
                self.shared.decommit(&plan.handle, &plan.idle, pool.as_deref());
            }
            return Err(needed);
        }
        for ((slot, keys), (plan, _)) in found.iter().zip(&plans) {
            slot.finish_resume(keys, &plan.missing);
        }
        Ok(needed)
    }
}

//! Use of the memory that PyTorch's allocator holds at one moment: live, cached, or lost in gaps.

use super::Target;
use super::held::{Groups, HeldGroup, Moment};
use super::policy::{EXPANDABLE, PYTORCH};
use super::pytorch::{Gap, PyTorch};
use crate::trace::{Allocate, Event, Trace};
use cubeyard_units::Bytes;

/// Use of the memory that PyTorch's allocator holds at one moment, according to its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheUse {
    /// Name of the model's policy: with the recorded settings if known, otherwise with the default settings.
    pub policy: &'static str,
    /// Bytes of device memory held.
    pub reserved: Bytes,
    /// Bytes of blocks in use.
    pub allocated: Bytes,
    /// Unused bytes that the allocator could release: segments, or pages of expandable segments, without a block in
    /// use.
    pub cached: Bytes,
    /// Unused bytes beside blocks in use, which the allocator cannot release.
    pub gaps: Bytes,
    /// Length of the longest gap.
    pub longest_gap: Bytes,
    /// Allocations beside the gaps, with the bytes of the gaps. A gap between two allocations counts for the older one.
    pub beside_gaps: Vec<HeldGroup>,
    /// Number of times that the cache was released because the device was full.
    pub retries: u64,
}

impl CacheUse {
    /// Replays the model up to `moment`, on a device with `capacity` if it is known.
    pub fn at(trace: &Trace, moment: Moment, capacity: Option<Bytes>) -> Self {
        let expandable = trace.recording.as_ref().is_some_and(|recording| recording.expandable);
        let (policy, make): (_, fn(_) -> _) =
            if expandable { (EXPANDABLE, PyTorch::expandable) } else { (PYTORCH, PyTorch::native) };
        let mut walk = Walk::new(make(capacity).of(trace), trace);
        for (index, event) in trace.events.iter().enumerate().take(moment.events) {
            walk.step(index, event);
        }
        walk.finish(policy)
    }
}

/// Replay that tracks the allocation in each block.
struct Walk {
    model: PyTorch,
    tokens: Vec<Option<u64>>,
    /// Allocation in each block, by token, with the number of events before it.
    blocks: Vec<Option<(usize, Allocate)>>,
}

impl Walk {
    fn new(model: PyTorch, trace: &Trace) -> Self {
        Self { model, tokens: vec![None; trace.allocations as usize], blocks: Vec::new() }
    }

    /// Replays one event. A request that the model cannot serve is skipped.
    fn step(&mut self, index: usize, event: &Event) {
        match event {
            Event::Allocate(request) if request.size.is_zero() => {}
            Event::Allocate(request) => {
                let Ok(token) = self.model.allocate(request) else { return };
                self.tokens[request.id.index()] = Some(token);
                let place = place(token);
                if self.blocks.len() <= place {
                    self.blocks.resize(place + 1, None);
                }
                self.blocks[place] = Some((index, *request));
            }
            Event::Free { id, .. } => {
                if let Some(token) = self.tokens[id.index()].take() {
                    self.model.free(token);
                }
            }
        }
    }

    fn finish(self, policy: &'static str) -> CacheUse {
        let (reserved, allocated) = (self.model.reserved(), self.model.allocated());
        let gaps: Vec<Gap> = self.model.gaps();
        let sum: Bytes = gaps.iter().map(|gap| gap.size).sum();
        let mut groups = Groups::default();
        for gap in &gaps {
            let beside = gap.beside.iter().filter_map(|&token| self.blocks[place(token)]);
            if let Some((event, request)) = beside.min_by_key(|(event, _)| *event) {
                groups.add(&request, event, gap.size);
            }
        }
        CacheUse {
            policy,
            reserved,
            allocated,
            cached: reserved - allocated - sum,
            gaps: sum,
            longest_gap: gaps.iter().map(|gap| gap.size).max().unwrap_or_default(),
            beside_gaps: groups.finish(),
            retries: self.model.retries(),
        }
    }
}

fn place(token: u64) -> usize {
    usize::try_from(token).expect("a token comes from `allocate`")
}

#[cfg(test)]
mod tests;

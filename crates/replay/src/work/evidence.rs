//! Work that a recording shows to be complete.

use std::collections::BTreeMap;

use crate::trace::{Event, SharedFree, Trace};

/// Observation that a stream has completed its work up to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evidence {
    /// Number of requests before the one at which it was observed.
    pub(super) request: u64,
    pub(super) stream: u32,
    /// Number of requests up to the last launch that is complete.
    pub(super) point: u64,
}

/// Returns what the completed frees of shared blocks show, the last observation first.
///
/// A block that another stream has finished using was written before, so its own stream has completed the launch of the
/// block. In a trace of two streams, the other one has also completed all work submitted before the free was requested.
/// With more streams, the recording does not show which of them used the block.
pub(super) fn of(trace: &Trace) -> Vec<Evidence> {
    let streams = trace.streams();
    let mut walk = Walk::new(trace);
    let mut found = Vec::new();
    for event in &trace.events {
        let Some((own, launched, asked)) = walk.step(event) else { continue };
        let request = walk.requests;
        found.push(Evidence { request, stream: own, point: launched });
        if streams.len() == 2 {
            let others = streams.iter().filter(|&&stream| stream != own);
            found.extend(others.map(|&stream| Evidence { request, stream, point: asked }));
        }
    }
    found.reverse();
    found
}

/// Walk over a trace that counts requests of nonzero size.
struct Walk {
    requests: u64,
    /// Requests to free shared blocks, by the number of the next allocation.
    asked: BTreeMap<u32, Vec<SharedFree>>,
    /// Stream and launch of each shared block, and the number of requests before its free was requested.
    blocks: BTreeMap<u32, (u32, u64, Option<u64>)>,
}

impl Walk {
    fn new(trace: &Trace) -> Self {
        let mut asked: BTreeMap<u32, Vec<SharedFree>> = BTreeMap::new();
        trace.shared.iter().for_each(|free| asked.entry(free.before).or_default().push(*free));
        let blocks = trace.shared.iter().map(|free| (free.id.0, (0, 0, None)));
        Self { requests: 0, asked, blocks: blocks.collect() }
    }

    /// Returns the stream, the launch and the request of a shared block whose free this event completes.
    fn step(&mut self, event: &Event) -> Option<(u32, u64, u64)> {
        match event {
            Event::Allocate(request) => {
                for free in self.asked.remove(&request.id.0).into_iter().flatten() {
                    self.blocks.entry(free.id.0).and_modify(|block| block.2 = Some(self.requests));
                }
                self.requests += u64::from(!request.size.is_zero());
                let launched = (request.stream, self.requests);
                let block = self.blocks.entry(request.id.0);
                block.and_modify(|block| (block.0, block.1) = launched);
                None
            }
            Event::Free { id, .. } => {
                let (own, launched, asked) = self.blocks.get(&id.0).copied()?;
                Some((own, launched, asked?))
            }
        }
    }
}

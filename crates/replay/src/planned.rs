//! Target that follows a placement computed in advance: every block has a known address.

use std::sync::Arc;

use super::Target;
use crate::planner::{Plan, TooLarge, plan};
use crate::trace::{Allocate, Event, Trace};
use crate::work::completed;
use cubeyard_units::Bytes;

const GRANULE: Bytes = Bytes::mib(2);

/// Addresses of all allocations of a trace, and the memory held for them.
#[derive(Debug)]
struct Placement {
    /// Address of each allocation, by number.
    addresses: Vec<u64>,
    /// Bytes held after each allocation, by number.
    held: Vec<Bytes>,
    /// Number of waits for streams up to each allocation, by number; a plan waits for none.
    waits: Vec<u64>,
}

/// Target that follows a placement. It knows the whole trace, so it never needs more than a policy that does not. If
/// such a policy holds less than the plan, its placement is used, including all memory that it remaps and all streams
/// that it waits for on the way.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    placement: Result<Arc<Placement>, TooLarge>,
    held: Bytes,
    waits: u64,
}

impl Planned {
    /// Plans a trace. If one of `others` holds less than the plan, copies the placement of the first that holds least.
    pub(super) fn new<'t>(
        trace: &Trace,
        others: impl Iterator<Item = Box<dyn Target + 't>>,
    ) -> Self {
        let placement = plan(&completed(trace), GRANULE).map(|plan| {
            let planned = Placement::of_plan(&plan, trace);
            // The bound holds for plans, which keep streams apart.
            if plan.extent <= plan.bound && plan.ranges.len() < 2 {
                return Arc::new(planned);
            }
            let copies = others.filter_map(|mut other| Placement::copied(&mut *other, trace));
            let all = std::iter::once(planned).chain(copies);
            Arc::new(all.min_by_key(Placement::peak).expect("the plan is one of them"))
        });
        Self { placement, held: Bytes::ZERO, waits: 0 }
    }
}

impl Placement {
    /// Places blocks by a plan. The range of each stream is held up to the highest byte used so far.
    fn of_plan(plan: &Plan, trace: &Trace) -> Self {
        let mut tops = plan.ranges.clone();
        let (mut all, mut held) = (Bytes::ZERO, vec![Bytes::ZERO; plan.offsets.len()]);
        for request in requests(trace) {
            let end = plan.offsets[request.id.index()] + request.size;
            let end = end.align_up(GRANULE).expect("a plan ends far below 64 bits");
            let top = tops.entry(request.stream).or_default();
            all += end.saturating_sub(*top);
            *top = end.max(*top);
            held[request.id.index()] = all;
        }
        let addresses = plan.offsets.iter().map(|offset| offset.get()).collect();
        let waits = vec![0; held.len()];
        Self { addresses, held, waits }
    }

    /// Copies the placement of a policy; `None` if it cannot serve the trace.
    fn copied(policy: &mut dyn Target, trace: &Trace) -> Option<Self> {
        let count = trace.allocations as usize;
        let mut copy = Self {
            addresses: vec![0; count],
            held: vec![Bytes::ZERO; count],
            waits: vec![0; count],
        };
        let mut tokens: Vec<Option<u64>> = vec![None; count];
        for event in &trace.events {
            match event {
                Event::Allocate(request) if request.size.is_zero() => {}
                Event::Allocate(request) => {
                    let token = policy.allocate(request).ok()?;
                    tokens[request.id.index()] = Some(token);
                    copy.addresses[request.id.index()] = policy.address(token)?;
                    copy.held[request.id.index()] = policy.reserved();
                    copy.waits[request.id.index()] = policy.waits();
                }
                Event::Free { id, .. } => {
                    tokens[id.index()].take().into_iter().for_each(|token| policy.free(token));
                }
            }
        }
        Some(copy)
    }

    /// Returns the maximum number of bytes held.
    fn peak(&self) -> Bytes {
        self.held.iter().copied().max().unwrap_or_default()
    }
}

/// Returns the requests of a trace with nonzero size.
fn requests(trace: &Trace) -> impl Iterator<Item = &Allocate> {
    trace.events.iter().filter_map(|event| match event {
        Event::Allocate(request) if !request.size.is_zero() => Some(request),
        _ => None,
    })
}

impl Target for Planned {
    fn allocate(&mut self, request: &Allocate) -> Result<u64, String> {
        let placement = self.placement.as_ref().map_err(ToString::to_string)?;
        self.held = placement.held[request.id.index()];
        self.waits = placement.waits[request.id.index()];
        Ok(u64::from(request.id.0))
    }

    fn free(&mut self, _token: u64) {}

    fn reserved(&self) -> Bytes {
        self.held
    }

    fn waits(&self) -> u64 {
        self.waits
    }

    fn address(&self, token: u64) -> Option<u64> {
        let place = usize::try_from(token).ok()?;
        self.placement.as_ref().ok()?.addresses.get(place).copied()
    }
}

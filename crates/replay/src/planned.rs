//! The offline planner as a target: every block lies at its precomputed offset.

use super::Target;
use crate::planner::{Plan, TooLarge, plan};
use crate::trace::{Allocate, Trace};
use cubeyard_units::Bytes;

const GRANULE: Bytes = Bytes::mib(2);

/// A plan being followed: memory is committed up to the highest byte used so far.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    plan: Result<Plan, TooLarge>,
    committed: Bytes,
}

impl Planned {
    pub(super) fn new(trace: &Trace) -> Self {
        let plan = plan(trace, GRANULE);
        Self { plan, committed: Bytes::ZERO }
    }
}

impl Target for Planned {
    fn allocate(&mut self, request: &Allocate) -> Result<u64, String> {
        let plan = self.plan.as_ref().map_err(ToString::to_string)?;
        let end = plan.offsets[request.id.index()] + request.size;
        let end = end.align_up(GRANULE).expect("a plan ends far below 64 bits");
        self.committed = self.committed.max(end);
        Ok(u64::from(request.id.0))
    }

    fn free(&mut self, _token: u64) {}

    fn reserved(&self) -> Bytes {
        self.committed
    }

    fn address(&self, token: u64) -> Option<u64> {
        let place = usize::try_from(token).ok()?;
        self.plan.as_ref().ok()?.offsets.get(place).map(|offset| offset.get())
    }
}

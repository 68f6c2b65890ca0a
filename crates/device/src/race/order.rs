//! Order of accesses by launches, independent of the machine's speed.

use std::collections::{BTreeMap, BTreeSet};

use super::Agent;
use crate::message::RequestId;

/// Order of launches by streams, events and the host. There is no order between the PEs of one launch.
///
/// A launch comes after all launches whose end the host had seen when it was made, and after the launches that it waits
/// for. So for each launch, the earlier launches that it does *not* come after are stored.
#[derive(Clone, Debug, Default)]
pub(super) struct LaunchOrder {
    /// Launches whose end the host has not seen.
    open: BTreeSet<RequestId>,
    /// Earlier launches that each launch is not ordered after.
    beside: BTreeMap<RequestId, BTreeSet<RequestId>>,
    /// Request that represents all accesses of the host since `open` last changed.
    host: Option<RequestId>,
}

impl LaunchOrder {
    pub(super) fn launched(&mut self, launch: RequestId, after: &[RequestId]) {
        let ordered = |before: &RequestId| after.iter().any(|&of| self.is_before(*before, of));
        let beside = self.open.iter().copied().filter(|before| !ordered(before)).collect();
        self.beside.insert(launch, beside);
        self.open.insert(launch);
        self.host = None;
    }

    /// Adds an access of the host, which is not ordered with open launches, and returns the request that represents it.
    /// The host waits for its access, so later launches come after the access.
    pub(super) fn host(&mut self, request: RequestId) -> RequestId {
        let (open, beside) = (&self.open, &mut self.beside);
        *self.host.get_or_insert_with(|| {
            beside.insert(request, open.clone());
            request
        })
    }

    /// Records that the host has seen the end of a launch, and thereby of the launches before it.
    pub(super) fn waited(&mut self, launch: RequestId) {
        let mut open = std::mem::take(&mut self.open);
        open.retain(|&before| !self.is_before(before, launch));
        self.open = open;
        self.host = None;
        if self.is_quiet() {
            self.beside.clear();
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns whether `one` equals `other`, or is over when `other` begins.
    fn is_before(&self, one: RequestId, other: RequestId) -> bool {
        one == other
            || one < other && !self.beside.get(&other).is_some_and(|beside| beside.contains(&one))
    }

    pub(super) fn orders(&self, one: Agent, other: Agent) -> bool {
        if one.launch == other.launch {
            return one.pe == other.pe && one.part == other.part;
        }
        self.is_before(one.launch, other.launch) || self.is_before(other.launch, one.launch)
    }
}

#[cfg(test)]
mod tests {
    use cubeyard_sim::NodeId;

    use super::*;
    use crate::message::Direction;

    fn id(number: usize) -> RequestId {
        RequestId::new(number)
    }

    fn agent(launch: usize, pe: usize) -> Agent {
        Agent {
            launch: id(launch),
            pe: Some(NodeId::new(pe)),
            command: 0,
            direction: Direction::Write,
            is_atomic: false,
            part: 0,
        }
    }

    #[test]
    fn streams_events_and_the_host_order_launches() {
        let mut order = LaunchOrder::default();
        let ordered =
            |order: &LaunchOrder, one, other| order.orders(agent(one, 0), agent(other, 0));
        // Two streams of two launches each: 1 then 3, 2 then 4.
        order.launched(id(1), &[]);
        order.launched(id(2), &[]);
        order.launched(id(3), &[id(1)]);
        order.launched(id(4), &[id(2)]);
        let pairs = [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)];
        let found = pairs.map(|(one, other)| ordered(&order, one, other));
        assert_eq!(found, [false, true, false, false, true, false]);
        // An event: 5 after both.
        order.launched(id(5), &[id(3), id(4)]);
        assert!((1..5).all(|before| ordered(&order, before, 5)));
        // The host has waited for 3, and so for 1.
        order.waited(id(3));
        order.launched(id(6), &[]);
        let found = [1, 2, 3, 4, 5].map(|before| ordered(&order, before, 6));
        assert_eq!(found, [true, false, true, false, false]);
        order.waited(id(5));
        order.waited(id(6));
        assert!(order.is_quiet());
    }

    #[test]
    fn the_host_is_ordered_with_what_it_has_seen_the_end_of_and_with_what_it_launches_later() {
        let (direction, is_atomic) = (Direction::Write, false);
        let host = |launch| Agent { launch, pe: None, command: 0, direction, is_atomic, part: 0 };
        let mut order = LaunchOrder::default();
        order.launched(id(1), &[]);
        order.launched(id(2), &[]);
        order.waited(id(1));
        let access = host(order.host(id(3)));
        // Another access before anything else happens is the same to all launches.
        assert_eq!(host(order.host(id(4))), access);
        order.launched(id(5), &[]);
        let found = [1, 2, 5].map(|launch| order.orders(agent(launch, 0), access));
        assert_eq!(found, [true, false, true]);
        let later = host(order.host(id(6)));
        assert!(order.orders(access, later) && !order.orders(agent(5, 0), later));
    }

    #[test]
    fn pes_of_a_launch_are_not_ordered() {
        let mut order = LaunchOrder::default();
        order.launched(id(1), &[]);
        assert!(!order.orders(agent(1, 0), agent(1, 1)));
        assert!(order.orders(agent(1, 0), agent(1, 0)));
        assert!(!order.orders(agent(1, 0), Agent { part: 1, ..agent(1, 0) }));
    }
}

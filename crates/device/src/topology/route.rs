//! Routes between nodes.
//!
//! Flows go between cubes along the row, then along the column; within a cube as in `mesh`. A flow uses one connection
//! number on its whole route: the number of the connection that is wired to the target's router, on the side where the
//! flow enters the target's cube; or else 0. Traffic within a cube does not leave it.

mod walk;

use cubeyard_memory::address::{CubeId, PeId};
use cubeyard_sim::Span;

use super::build::connection_router;
use super::layout;
use super::{LinkId, NodeId, NodeKind, NodePlace, Position, Side, Spec, Topology};
use walk::Walk;

/// Error for nodes without a route between them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The node only forwards traffic. Choose a node that is attached to it.
    #[error("{name} is a {kind:?}: expected a node where traffic starts or ends")]
    NotAnEnd {
        /// Name of the node.
        name: String,
        /// Kind of the node.
        kind: NodeKind,
    },
}

/// Position of the start or the end of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RouteEnd {
    Switch,
    Io { sip: u32, io: u32 },
    Cube { sip: u32, cube: u32, router: Position },
}

impl Topology {
    /// Returns the links from one node to another, in order; empty if both are the same.
    ///
    /// An answer takes the same route backwards: the `reverse` of each link, from the last to the first.
    pub fn route(&self, from: NodeId, to: NodeId) -> Result<Vec<LinkId>, RouteError> {
        let (start, end) = (self.end(from)?, self.end(to)?);
        if from == to {
            return Ok(Vec::new());
        }
        let connection = self.connection(from, to, start, end);
        Ok(Walk::new(self, from, connection).go(start, end, to))
    }

    /// Returns the latency of a message without payload on an idle machine: the propagation of each link, at
    /// least one picosecond, and the overhead of every node after the first.
    pub fn flight(&self, route: &[LinkId]) -> Span {
        let hop = |&link: &LinkId| {
            let link = self.link(link);
            link.propagation.max(Span::from_ps(1)) + self.node(link.to).overhead
        };
        route.iter().map(hop).sum()
    }

    fn end(&self, node: NodeId) -> Result<RouteEnd, RouteError> {
        let found = self.node(node);
        let NodePlace { sip, io, cube, router, .. } = found.place;
        let is_passed = matches!(
            found.kind,
            NodeKind::IoPort | NodeKind::IoConnection | NodeKind::Port | NodeKind::Connection
        );
        match (sip, io, cube, router) {
            _ if is_passed => {
                Err(RouteError::NotAnEnd { name: found.name.clone(), kind: found.kind })
            }
            (Some(sip), Some(io), _, _) => Ok(RouteEnd::Io { sip: sip.number(), io: io.number() }),
            (Some(sip), _, Some(cube), Some(router)) => {
                Ok(RouteEnd::Cube { sip: sip.number(), cube: cube.number(), router })
            }
            _ => Ok(RouteEnd::Switch),
        }
    }

    /// Returns the number of the connection that a flow uses at every port.
    fn connection(&self, from: NodeId, to: NodeId, start: RouteEnd, end: RouteEnd) -> u32 {
        let spec = self.spec();
        if spec.ucie.balance {
            return balanced(spec, self.node(from).place, self.node(to).place);
        }
        let RouteEnd::Cube { router, .. } = end else { return 0 };
        let Some(side) = entry_side(spec, start, end) else { return 0 };
        let on_router = |&number: &u32| connection_router(spec, side, number) == router;
        (0..spec.connection_count()).find(on_router).unwrap_or(0)
    }
}

/// Spreads flows over the connections of a port: `(cube + PE of the source + ⌊PE of the target / 2⌋)` modulo
/// their number. Flows from all PEs to one, from one PE to all, and from each PE to the same PE of another
/// cube are each spread evenly over four connections.
fn balanced(spec: &Spec, from: NodePlace, to: NodePlace) -> u32 {
    let pe = |place: NodePlace| place.pe.map_or(0, PeId::number);
    let cube = from.cube.map_or(0, CubeId::number);
    (cube + pe(from) + pe(to) / 2) % spec.connection_count()
}

/// Returns the side on which a flow enters the target's cube, if it comes from outside.
fn entry_side(spec: &Spec, start: RouteEnd, end: RouteEnd) -> Option<Side> {
    let RouteEnd::Cube { sip, cube, .. } = end else { return None };
    let (from, first) = match start {
        RouteEnd::Cube { sip: other, cube: from, .. } if other == sip => (from, None),
        RouteEnd::Io { sip: other, io } if other == sip => entry(spec, io, cube),
        _ => entry(spec, nearest_io(spec, cube), cube),
    };
    crossings(spec, from, cube).last().map(Side::opposite).or(first)
}

/// Returns the first cube on the route from an IO chiplet to `cube`, and the side on which traffic enters it.
fn entry(spec: &Spec, io: u32, cube: u32) -> (u32, Option<Side>) {
    let side = spec.io.chiplets[io as usize];
    (layout::io_cube(spec, side, io_port(spec, side, cube)), Some(side))
}

/// Returns the port of an IO chiplet in the row or column of a cube.
fn io_port(spec: &Spec, side: Side, cube: u32) -> u32 {
    let at = layout::cube_position(spec, cube);
    if side.is_horizontal() { at.row } else { at.column }
}

/// Returns the IO chiplet with the fewest crossings to `cube`; the first one if several are equal.
pub(super) fn nearest_io(spec: &Spec, cube: u32) -> u32 {
    let crossed = |&io: &u32| crossings(spec, entry(spec, io, cube).0, cube).count();
    let all = 0..layout::number(spec.io.chiplets.len());
    all.min_by_key(crossed).expect("checked when read: there is an IO chiplet")
}

/// Returns the directions of the steps from cube to cube: along the row, then along the column.
fn crossings(spec: &Spec, from: u32, to: u32) -> impl Iterator<Item = Side> + use<> {
    let (from, to) = (layout::cube_position(spec, from), layout::cube_position(spec, to));
    let along = |from: u32, to: u32, up: Side, down: Side| {
        let direction = if from < to { up } else { down };
        std::iter::repeat_n(direction, from.abs_diff(to) as usize)
    };
    along(from.column, to.column, Side::East, Side::West).chain(along(
        from.row,
        to.row,
        Side::South,
        Side::North,
    ))
}

//! Builds a route link by link.

use super::super::build::connection_router;
use super::super::layout::{self, Layout, connection};
use super::super::{LinkId, NodeId, Position, Side, Spec, Topology, mesh};
use super::{RouteEnd, crossings, entry, io_port, nearest_io};

/// Route under construction.
pub(super) struct Walk<'a> {
    topology: &'a Topology,
    at: NodeId,
    links: Vec<LinkId>,
    connection: u32,
}

impl<'a> Walk<'a> {
    pub(super) fn new(topology: &'a Topology, from: NodeId, connection: u32) -> Self {
        Self { topology, at: from, links: Vec::new(), connection }
    }

    /// Returns the links from the start of the walk to `to`.
    pub(super) fn go(mut self, start: RouteEnd, end: RouteEnd, to: NodeId) -> Vec<LinkId> {
        let layout = self.layout();
        match (start, end) {
            (
                RouteEnd::Cube { sip, cube: from, router },
                RouteEnd::Cube { sip: other, cube, router: target },
            ) if sip == other => {
                let router = self.leave(sip, from, router);
                self.cross(sip, from, cube, router, target);
            }
            (RouteEnd::Io { sip, io }, RouteEnd::Io { sip: other, io: target })
                if (sip, io) == (other, target) =>
            {
                self.step(layout.io_noc(sip, io));
            }
            (RouteEnd::Io { sip, io }, RouteEnd::Cube { sip: other, .. }) if sip == other => {
                self.step(layout.io_noc(sip, io));
                self.enter(io, end);
            }
            (RouteEnd::Cube { sip, .. }, RouteEnd::Io { sip: other, io }) if sip == other => {
                self.exit(io, start);
            }
            _ => {
                self.up(start);
                self.step(Layout::switch());
                self.down(end, to);
            }
        }
        self.step(to);
        self.links
    }

    fn spec(&self) -> &'a Spec {
        self.topology.spec()
    }

    fn layout(&self) -> &'a Layout {
        &self.topology.layout
    }

    /// Appends the link to a neighbour; does nothing if the walk is already there.
    fn step(&mut self, to: NodeId) {
        if self.at != to {
            let link = self.topology.link_between(self.at, to);
            self.links.push(link.expect("a route goes from neighbour to neighbour"));
            self.at = to;
        }
    }

    /// Goes from a node of a cube to its router.
    fn leave(&mut self, sip: u32, cube: u32, router: Position) -> Position {
        self.step_to_router(sip, cube, router);
        router
    }

    fn step_to_router(&mut self, sip: u32, cube: u32, router: Position) {
        let node = self.layout().router(sip, cube, router);
        self.step(node.expect("checked when read: the router is there"));
    }

    /// Goes from one router of a cube to another.
    fn mesh(&mut self, sip: u32, cube: u32, from: Position, to: Position) {
        for router in mesh::path(&self.spec().routers, from, to) {
            self.step_to_router(sip, cube, router);
        }
    }

    /// Goes from a router of one cube to a router of another in the same SIP.
    fn cross(&mut self, sip: u32, from: u32, to: u32, router: Position, target: Position) {
        let (mut cube, mut router) = (from, router);
        for side in crossings(self.spec(), from, to) {
            self.reach_port(sip, cube, router, side);
            let next = layout::cube_beside(self.spec(), cube, side);
            cube = next.expect("crossings stay in the grid");
            router = self.leave_port(sip, cube, side.opposite());
        }
        self.mesh(sip, cube, router, target);
    }

    /// Goes from a router over the connection to the port of a side.
    fn reach_port(&mut self, sip: u32, cube: u32, router: Position, side: Side) {
        let exit = connection_router(self.spec(), side, self.connection);
        self.mesh(sip, cube, router, exit);
        let port = self.port(sip, cube, side);
        self.step(connection(port, self.connection));
        self.step(port);
    }

    /// Goes from the opposite port over this port and its connection to the router.
    fn leave_port(&mut self, sip: u32, cube: u32, side: Side) -> Position {
        let port = self.port(sip, cube, side);
        self.step(port);
        self.step(connection(port, self.connection));
        let router = connection_router(self.spec(), side, self.connection);
        self.step_to_router(sip, cube, router);
        router
    }

    fn port(&self, sip: u32, cube: u32, side: Side) -> NodeId {
        let port = self.layout().port(sip, cube, side);
        port.expect("there is a port towards every neighbour")
    }

    /// Goes from the network of an IO chiplet to the router of a target in a cube.
    fn enter(&mut self, io: u32, end: RouteEnd) {
        let RouteEnd::Cube { sip, cube, router: target } = end else { return };
        let side = self.spec().io.chiplets[io as usize];
        let port = self.layout().io_port(sip, io, io_port(self.spec(), side, cube));
        self.step(connection(port, self.connection));
        self.step(port);
        let (first, _) = entry(self.spec(), io, cube);
        let router = self.leave_port(sip, first, side);
        self.cross(sip, first, cube, router, target);
    }

    /// Goes from a node of a cube to the network of an IO chiplet.
    fn exit(&mut self, io: u32, start: RouteEnd) {
        let RouteEnd::Cube { sip, cube, router } = start else { return };
        let side = self.spec().io.chiplets[io as usize];
        let (last, _) = entry(self.spec(), io, cube);
        let router = self.leave(sip, cube, router);
        let exit = connection_router(self.spec(), side, self.connection);
        self.cross(sip, cube, last, router, exit);
        self.reach_port(sip, last, exit, side);
        let port = self.layout().io_port(sip, io, io_port(self.spec(), side, cube));
        self.step(port);
        self.step(connection(port, self.connection));
        self.step(self.layout().io_noc(sip, io));
    }

    /// Goes to the PCIe endpoint on the way to the switch.
    fn up(&mut self, start: RouteEnd) {
        let (sip, io) = match start {
            RouteEnd::Switch => return,
            RouteEnd::Io { sip, io } => (sip, io),
            RouteEnd::Cube { sip, cube, .. } => {
                let io = nearest_io(self.spec(), cube);
                self.exit(io, start);
                (sip, io)
            }
        };
        let endpoint = self.layout().endpoint(sip, io);
        if self.at != endpoint {
            self.step(self.layout().io_noc(sip, io));
            self.step(endpoint);
        }
    }

    /// Goes from the switch to the node before the target.
    fn down(&mut self, end: RouteEnd, to: NodeId) {
        let (sip, io) = match end {
            RouteEnd::Switch => return,
            RouteEnd::Io { sip, io } => (sip, io),
            RouteEnd::Cube { sip, cube, .. } => (sip, nearest_io(self.spec(), cube)),
        };
        self.step(self.layout().endpoint(sip, io));
        if self.at != to {
            self.step(self.layout().io_noc(sip, io));
            self.enter(io, end);
        }
    }
}

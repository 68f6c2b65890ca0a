//! Topology of a machine with a cache of its routes.

use std::cell::RefCell;

use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::{LinkId, NodeId, Route};

use crate::request::RequestError;
use crate::topology::{NodeKind, Topology};

/// Largest request, in bytes.
const MOST_BYTES: u64 = 1 << 40;

#[derive(Debug)]
pub(crate) struct Wiring {
    topology: Topology,
    /// Known routes from each node, by destination.
    routes: RefCell<Vec<Vec<Ways>>>,
}

#[derive(Debug)]
struct Ways {
    to: NodeId,
    there: Route,
    back: Route,
}

impl Wiring {
    pub(crate) fn new(topology: Topology) -> Self {
        let routes = topology.nodes().iter().map(|_| Vec::new()).collect();
        Self { topology, routes: RefCell::new(routes) }
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    pub(crate) fn route(&self, from: NodeId, to: NodeId) -> Result<Route, RequestError> {
        self.ways(from, to, |ways| Route::clone(&ways.there))
    }

    pub(crate) fn routes(&self, from: NodeId, to: NodeId) -> Result<(Route, Route), RequestError> {
        self.ways(from, to, |ways| (Route::clone(&ways.there), Route::clone(&ways.back)))
    }

    fn ways<T>(
        &self,
        from: NodeId,
        to: NodeId,
        pick: impl FnOnce(&Ways) -> T,
    ) -> Result<T, RequestError> {
        let known = &mut self.routes.borrow_mut()[from.index()];
        let place = match known.binary_search_by_key(&to, |ways| ways.to) {
            Ok(place) => place,
            Err(place) => {
                let there = Route::from(self.topology.route(from, to)?);
                let reverse = |link: &LinkId| self.topology.link(*link).reverse;
                let back = there.iter().rev().map(reverse).collect();
                known.insert(place, Ways { to, there, back });
                place
            }
        };
        Ok(pick(&known[place]))
    }

    /// Returns the memory that holds a whole range.
    pub(crate) fn memory(&self, address: PhysAddr, bytes: u64) -> Result<NodeId, RequestError> {
        if bytes == 0 || bytes > MOST_BYTES {
            return Err(RequestError::Size { bytes });
        }
        let first = self.topology.resolve(address)?;
        let node = self.topology.node(first);
        if !matches!(node.kind, NodeKind::Hbm | NodeKind::Sram) {
            return Err(RequestError::NotMemory { address, node: node.name.clone() });
        }
        let beyond = || RequestError::NoSuchPart { what: format!("{bytes} bytes at {address}") };
        let end = PhysAddr::from_bits(address.to_bits() + bytes - 1).map_err(|_| beyond())?;
        let last = self.topology.resolve(end);
        let last = last.map_err(|source| RequestError::End { address, bytes, source })?;
        if first != last {
            let name = |node| self.topology.node(node).name.clone();
            let (first, last) = (name(first), name(last));
            return Err(RequestError::Spans { address, bytes, first, last });
        }
        Ok(first)
    }
}

//! What parts need to know of the machine around them: who answers for an address, and the way there.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::BTreeMap;

use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::{LinkId, NodeId, Route};

use crate::failure::Failure;
use crate::message::{AccessId, RequestId};
use crate::notice::Notices;
use crate::pe::{CoreReport, OpLog};
use crate::race::Races;
use crate::request::RequestError;
use crate::topology::{NodeKind, Topology};

/// The most that one request moves.
const MOST_BYTES: u64 = 1 << 40;

/// The topology, with the ways that were asked for, and what went wrong on the machine.
#[derive(Debug)]
pub(crate) struct Wiring {
    topology: Topology,
    /// Of each node the ways that were asked for, by where they lead.
    routes: RefCell<Vec<Vec<Ways>>>,
    failures: RefCell<BTreeMap<RequestId, Failure>>,
    accesses: Cell<u64>,
    ops: RefCell<OpLog>,
    reports: RefCell<BTreeMap<(RequestId, NodeId), CoreReport>>,
    races: RefCell<Option<Races>>,
    notices: RefCell<Notices>,
    /// Messages that have come to a port and were not taken.
    mail: Cell<u64>,
}

/// The ways to a node and back.
#[derive(Debug)]
struct Ways {
    to: NodeId,
    there: Route,
    back: Route,
}

impl Wiring {
    /// The wiring of a machine.
    pub(crate) fn new(topology: Topology) -> Self {
        let routes = topology.nodes().iter().map(|_| Vec::new()).collect();
        let (routes, failures) = (RefCell::new(routes), RefCell::default());
        let (ops, reports) = (RefCell::default(), RefCell::default());
        Self {
            topology,
            routes,
            failures,
            accesses: Cell::new(0),
            ops,
            reports,
            races: RefCell::default(),
            notices: RefCell::default(),
            mail: Cell::new(0),
        }
    }

    /// What was noticed of programs.
    pub(crate) fn notices(&self) -> RefMut<'_, Notices> {
        self.notices.borrow_mut()
    }

    /// Messages that have come to a port and were not taken.
    pub(crate) fn mail(&self) -> &Cell<u64> {
        &self.mail
    }

    /// What PEs did.
    pub(crate) fn ops(&self) -> Ref<'_, OpLog> {
        self.ops.borrow()
    }

    /// What PEs did, to be added to.
    pub(crate) fn ops_mut(&self) -> RefMut<'_, OpLog> {
        self.ops.borrow_mut()
    }

    /// Looks for races from now on.
    pub(crate) fn watch_races(&self) {
        self.races.borrow_mut().get_or_insert_default();
    }

    /// What is known of the accesses of programs, if races are looked for.
    pub(crate) fn races<T>(&self, act: impl FnOnce(&mut Races) -> T) -> Option<T> {
        self.races.borrow_mut().as_mut().map(act)
    }

    /// Notes what came of a program on a PE.
    pub(crate) fn ran(&self, request: RequestId, pe: NodeId, report: CoreReport) {
        self.reports.borrow_mut().insert((request, pe), report);
    }

    /// What came of a program on a PE.
    pub(crate) fn report(&self, request: RequestId, pe: NodeId) -> Option<CoreReport> {
        self.reports.borrow().get(&(request, pe)).copied()
    }

    /// A number for one more access.
    pub(crate) fn number(&self) -> AccessId {
        AccessId::new(self.accesses.replace(self.accesses.get() + 1))
    }

    /// What the machine was made from.
    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The processor of the PE whose DMA engine is at a node.
    pub(crate) fn cpu_of(&self, dma: NodeId) -> NodeId {
        let place = self.topology.node(dma).place;
        match (place.sip, place.cube, place.pe) {
            (Some(sip), Some(cube), Some(pe)) => self.topology.pe_cpu(sip, cube, pe),
            _ => unreachable!("a DMA engine is in a PE"),
        }
    }

    /// The way there, worked out once.
    pub(crate) fn route(&self, from: NodeId, to: NodeId) -> Result<Route, RequestError> {
        self.ways(from, to, |ways| Route::clone(&ways.there))
    }

    /// The ways there and back, worked out once.
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

    /// The memory that holds a whole range.
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

    /// Notes what went wrong with a request.
    pub(crate) fn fail(&self, request: RequestId, failure: Failure) {
        self.failures.borrow_mut().entry(request).or_insert(failure);
    }

    /// Says of what went wrong with a request at a PE where in its program that was.
    pub(crate) fn place_failure(&self, request: RequestId, pe: NodeId, place: &str) {
        let at = |node: NodeId| {
            let place = self.topology.node(node).place;
            (place.sip, place.cube, place.pe)
        };
        let mut failures = self.failures.borrow_mut();
        if let Some(failure) = failures.get_mut(&request).filter(|it| at(it.origin) == at(pe)) {
            failure.what = format!("{place}: {}", failure.what);
        }
    }

    /// Forgets what went wrong with a request, and what it was given.
    pub(crate) fn forget(&self, request: RequestId) {
        self.notices.borrow_mut().forget(request);
        self.failures.borrow_mut().remove(&request);
        self.reports.borrow_mut().retain(|&(of, _), _| of != request);
    }

    /// What went wrong with a request.
    pub(crate) fn failure(&self, request: RequestId) -> Option<Failure> {
        self.failures.borrow().get(&request).cloned()
    }
}

//! Algorithms of collectives that are modules of Python (ADR-0047 D3).

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use cubeyard_collectives::collective::{
    Algorithm, Job, Lrab, Operation, Order, Orders, PePart, ReduceOp, Schedule, Wire, World,
};
use cubeyard_tl::Port;
use cubeyard_tl::kernel::Kernel;
use pyo3::prelude::*;

use crate::kernel::driver::{self, Function};

/// Channels as a module names them: rank and port of each end.
type Ends = Vec<(usize, u16, usize, u16)>;

/// An algorithm whose kernel is a function of Python.
pub(super) struct PythonAlgorithm {
    name: &'static str,
    /// Object of the package that knows the module: `wires(ranks)`, `order(ranks)` and `body(grid, wraps)`.
    module: Py<PyAny>,
}

impl PythonAlgorithm {
    /// Finds a module by its name: `None` if there is none, an error if it cannot be used.
    pub(super) fn find(find: &Py<PyAny>, name: &str) -> Option<Result<Rc<dyn Algorithm>, String>> {
        Python::attach(|py| match find.call1(py, (name,)) {
            Ok(module) if module.is_none(py) => None,
            Ok(module) => Some(Ok(Rc::new(Self { name: interned(name), module }) as Rc<_>)),
            Err(error) => Some(Err(error.value(py).to_string())),
        })
    }

    /// Returns the channels that the module names, if it does; the error of its function is text.
    fn own_wires(&self, world: &World) -> Result<Option<Vec<Wire>>, String> {
        let ends: Option<Ends> = Python::attach(|py| {
            let wires = self.module.call_method1(py, "wires", (world.ranks,));
            wires.and_then(|ends| ends.extract(py)).map_err(|error| error.to_string())
        })?;
        let wire = |(from, out, to, into)| Wire { ends: [(from, Port(out)), (to, Port(into))] };
        Ok(ends.map(|ends| ends.into_iter().map(wire).collect()))
    }

    /// Returns the order of each of several equal parts of a PE's elements, if the module states them; the error of its
    /// function is text.
    fn own_orders(&self, world: &World) -> Result<Option<Vec<Order>>, String> {
        Python::attach(|py| {
            let stated = self.module.call_method1(py, "order", (world.ranks,));
            let trees: Option<Vec<Bound<'_, PyAny>>> =
                stated.and_then(|trees| trees.extract(py)).map_err(|error| error.to_string())?;
            let order = |tree: &Bound<'_, PyAny>| order(tree, world.ranks);
            trees.map(|trees| trees.iter().map(order).collect()).transpose()
        })
    }
}

impl Algorithm for PythonAlgorithm {
    fn name(&self) -> &'static str {
        self.name
    }

    fn refuses(&self, operation: Operation, world: &World) -> Option<String> {
        if operation != Operation::AllReduce(ReduceOp::Sum) {
            return Some(format!("{operation}: a Python module supports only all_reduce sum"));
        }
        let ranks = world.ranks;
        let wires = self.own_wires(world).err();
        let wires = wires.map(|error| format!("wires({ranks}) of the module: {error}"));
        let order = || self.own_orders(world).err();
        wires.or_else(|| order().map(|error| format!("order({ranks}) of the module: {error}")))
    }

    /// Returns the channels of the module, else the channels between neighbouring SIPs. If the module fails, every
    /// operation is refused with its error.
    fn wires(&self, world: &World) -> Vec<Wire> {
        let own = self.own_wires(world).ok().flatten();
        own.unwrap_or_else(|| neighbours(world))
    }

    fn kernel(&self, job: &Job) -> Kernel {
        let (grid, wraps) = (job.world.grid.clone(), job.world.wraps.clone());
        let body = Python::attach(|py| self.module.call_method1(py, "body", (grid, wraps)));
        let body = body.expect("a method of the package that does not fail");
        let parameters = ["tensor", "output", "first", "cubes", "pes"].map(str::to_owned).into();
        let (name, lines) = (self.name.to_owned(), Rc::default());
        let function = Rc::new(Function { name, callable: body, parameters, lines });
        Kernel::new(self.name, move |tl, args| driver::start(Rc::clone(&function), tl, args))
    }

    /// Returns `None`: without an estimate, the algorithm is used only if the file selects it.
    fn schedule(&self, _: Operation, _: &World) -> Option<Schedule> {
        None
    }

    fn orders(&self, operation: Operation, world: &World, part: PePart) -> Option<Orders> {
        if self.refuses(operation, world).is_some() {
            return None;
        }
        let orders = self.own_orders(world).ok().flatten()?;
        Some(part.by_parts(orders.len(), |index| orders[index].clone()))
    }
}

impl fmt::Debug for PythonAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PythonAlgorithm").field(&self.name).finish()
    }
}

/// Reads a tree of nested pairs, in which each rank occurs once.
fn order(tree: &Bound<'_, PyAny>, ranks: usize) -> Result<Order, String> {
    fn read(tree: &Bound<'_, PyAny>) -> Option<Order> {
        if let Ok(rank) = tree.extract::<usize>() {
            return Some(Order::Rank(rank));
        }
        let (first, second): (Bound<'_, PyAny>, Bound<'_, PyAny>) = tree.extract().ok()?;
        Some(Order::join(read(&first)?, read(&second)?))
    }
    let found = read(tree).filter(|order| order.is_complete(ranks));
    found.ok_or_else(|| format!("{tree}: expected nested pairs with each of {ranks} ranks once"))
}

/// Returns the channels of neighbours among the SIPs: east and west in a row, south and north in a column.
fn neighbours(world: &World) -> Vec<Wire> {
    const SIDES: [Port; 4] = [Port::GLOBAL_E, Port::GLOBAL_W, Port::GLOBAL_S, Port::GLOBAL_N];
    let side = |(rank, port): (usize, Port)| (rank, SIDES[usize::from(port.0)]);
    let wires = Lrab.wires(world).into_iter();
    wires.map(|wire| Wire { ends: wire.ends.map(side) }).collect()
}

/// Returns a name for the rest of the process, as reports hold it. A process imports few modules.
fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.to_owned().into());
    names.insert(name);
    name
}

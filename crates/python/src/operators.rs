//! Simulated times of tensor operators.

use std::cell::RefCell;
use std::rc::Rc;

use cubeyard_operators::{
    Attention, Convolution, OperatorCost, OperatorError, OperatorMachine, RowWork, Tensor, Vector,
};
use cubeyard_sim::uninterrupted;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{IntoPyErr, Kind, OrRaise, without_panic};
use crate::topology::Topology;

/// Tensor as Python describes it: shape, strides in elements, name of the type, bytes of an element.
type Described = (Vec<i64>, Vec<i64>, String, u64);

/// Machines that a thread keeps, by the hash of their topology.
const KEPT: usize = 4;

thread_local! {
    static MACHINES: RefCell<Vec<(String, Rc<OperatorMachine>)>> = const { RefCell::new(Vec::new()) };
}

/// Options of a family; those that it does not have are refused.
struct Options {
    wholes: Vec<(String, u64)>,
    lists: Vec<(String, Vec<i64>)>,
}

impl Options {
    fn read(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut this = Self { wholes: Vec::new(), lists: Vec::new() };
        for (key, value) in options {
            let key: String = key.extract()?;
            if let Ok(whole) = value.extract::<u64>() {
                this.wholes.push((key, whole));
            } else if let Ok(list) = value.extract::<Vec<i64>>() {
                this.lists.push((key, list));
            } else {
                let found = crate::plain::shown(&value);
                return Err(Kind::Input.error(format!(
                    "{key}={found}: expected a whole number, a bool or a list of these"
                )));
            }
        }
        Ok(this)
    }

    fn whole(&mut self, name: &str) -> u64 {
        let at = self.wholes.iter().position(|(key, _)| key == name);
        at.map_or(0, |at| self.wholes.swap_remove(at).1)
    }

    fn list(&mut self, name: &str) -> Vec<i64> {
        let at = self.lists.iter().position(|(key, _)| key == name);
        at.map_or_else(Vec::new, |at| self.lists.swap_remove(at).1)
    }

    fn wholes(&mut self, name: &str) -> Result<Vec<u64>, OperatorError> {
        let whole = |number: i64| {
            let text = || format!("{name}: {number}, expected a whole number of at least 0");
            u64::try_from(number).map_err(|_| OperatorError::Input(text()))
        };
        self.list(name).into_iter().map(whole).collect()
    }

    fn vector(&mut self) -> Vector {
        Vector { simple: self.whole("simple"), special: self.whole("special") }
    }

    /// Refuses options that were not asked for.
    fn done(self, family: &str) -> Result<(), OperatorError> {
        let left = self
            .wholes
            .into_iter()
            .map(|(key, _)| key)
            .chain(self.lists.into_iter().map(|(key, _)| key));
        match left.min() {
            None => Ok(()),
            Some(key) => {
                Err(OperatorError::Input(format!("{key}: expected an option of `{family}`")))
            }
        }
    }
}

/// Returns the time of an operator and the reason for it, as a dictionary.
#[pyfunction]
fn operator_time<'py>(
    py: Python<'py>,
    topology: &Topology,
    family: &str,
    operands: Vec<Described>,
    results: Vec<Described>,
    options: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = Options::read(options)?;
    let time = || -> Result<OperatorCost, OperatorError> {
        let machine = machine(topology)?;
        let [operands, results] = [tensors("operand", &operands)?, tensors("result", &results)?];
        timed(&machine, family, &operands, &results, options)
    };
    let cost = py.detach(|| without_panic(|| uninterrupted(time).or_raise()))?;
    let dict = PyDict::new(py);
    dict.set_item("ps", cost.ps)?;
    dict.set_item("kernel", cost.kernel)?;
    dict.set_item("bytes", cost.bytes)?;
    dict.set_item("flops", cost.flops)?;
    dict.set_item("bound_ps", cost.bound_ps)?;
    dict.set_item("local_share", cost.local_share)?;
    dict.set_item("extrapolated", cost.extrapolated)?;
    Ok(dict)
}

fn timed(
    machine: &OperatorMachine,
    family: &str,
    operands: &[Tensor],
    results: &[Tensor],
    mut options: Options,
) -> Result<OperatorCost, OperatorError> {
    match family {
        "pointwise" => {
            let work = options.vector();
            options.done(family)?;
            machine.pointwise(operands, results, work)
        }
        "reduce" => {
            let (work, dims) = (options.vector(), options.list("dims"));
            options.done(family)?;
            machine.reduce(operands, results, &dims, work)
        }
        "rows" => {
            let vector = options.vector();
            let work = RowWork {
                columns: options.whole("columns"),
                vector,
                reduces: options.whole("reduces"),
            };
            options.done(family)?;
            machine.rows(operands, results, work)
        }
        "product" => {
            let work = options.vector();
            options.done(family)?;
            machine.product(operands, results, work)
        }
        "attention" => {
            let [causal, backward] = ["causal", "backward"].map(|name| options.whole(name) != 0);
            options.done(family)?;
            machine.attention(operands, results, Attention { causal, backward })
        }
        "gather" => {
            let [row, simple] = ["row", "simple"].map(|name| options.whole(name));
            options.done(family)?;
            machine.gather(operands, results, row, simple)
        }
        "scatter" => {
            let (row, add) = (options.whole("row"), options.whole("add") != 0);
            options.done(family)?;
            machine.scatter(operands, results, row, add)
        }
        "convolution" => {
            let convolution = Convolution {
                stride: options.wholes("stride")?,
                padding: options.wholes("padding")?,
                dilation: options.wholes("dilation")?,
                groups: options.whole("groups").max(1),
                transposed: options.whole("transposed") != 0,
            };
            options.done(family)?;
            machine.convolution(operands, results, &convolution)
        }
        _ => {
            let known = "pointwise, reduce, rows, product, attention, gather, scatter, convolution";
            Err(OperatorError::Input(format!("family={family:?}: expected one of {known}")))
        }
    }
}

fn tensors(what: &str, described: &[Described]) -> Result<Vec<Tensor>, OperatorError> {
    let tensor = |(at, (shape, strides, dtype, bytes)): (usize, &Described)| {
        Tensor::new(&format!("{what} {at}"), shape, strides, dtype, *bytes)
    };
    described.iter().enumerate().map(tensor).collect()
}

/// Returns this thread's machine for a topology.
fn machine(topology: &Topology) -> Result<Rc<OperatorMachine>, OperatorError> {
    let hash = topology.topology.content_hash().to_string();
    MACHINES.with_borrow_mut(|machines| {
        if let Some((_, machine)) = machines.iter().find(|(known, _)| *known == hash) {
            return Ok(Rc::clone(machine));
        }
        let machine = Rc::new(OperatorMachine::new(&topology.topology)?);
        if machines.len() == KEPT {
            machines.remove(0);
        }
        machines.push((hash, Rc::clone(&machine)));
        Ok(machine)
    })
}

impl IntoPyErr for OperatorError {
    fn into_py_err(self) -> PyErr {
        match self {
            Self::Machine(error) => error.into_py_err(),
            other => Kind::Input.error(other.to_string()),
        }
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(operator_time, module)?)
}

//! Kernels in Python: functions that run once for each PE of a launch and call `tl`.
//!
//! | module | contents |
//! |---|---|
//! | [`driver`] | the future that calls a function and resumes its coroutine |
//! | [`run`] | the tiles and the line of a kernel on one PE |
//! | [`language`], [`math`], [`composite`], [`wait`] | `tl` |
//! | [`tile`], [`operand`] | tiles and expressions, and the operands of computations |
//! | [`reference`], [`mask`] | references to memory, masks |
//! | [`table`] | the kernels of a session |
//! | [`builtin`], [`channels`] | kernels of the library in Rust, and channels between PEs |
//! | [`numbers`] | shapes, element types and ports as arguments |
//! | [`lines`], [`failure`] | lines of Python, and exceptions of kernels |

mod builtin;
mod channels;
mod composite;
pub(crate) mod driver;
mod failure;
mod language;
mod lines;
mod mask;
mod math;
mod numbers;
mod operand;
mod reference;
mod run;
pub(crate) mod table;
mod tile;
mod wait;
mod wanted;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cubeyard_tl::kernel::Kernel;
use pyo3::prelude::*;

use crate::context::Context;
use crate::launch::{self, Given, Target, Times};
use crate::session::Session;
use driver::Function;

/// An identity of recordings: launches with one key reuse each other's. Dropping it drops the recordings of its kernel.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct KernelKey {
    number: Arc<u64>,
}

#[pymethods]
impl KernelKey {
    #[new]
    fn new() -> Self {
        Self { number: new_key() }
    }
}

/// Returns a new, unique number.
fn new_key() -> Arc<u64> {
    static KEYS: AtomicU64 = AtomicU64::new(0);
    Arc::new(KEYS.fetch_add(1, Ordering::Relaxed))
}

/// Python function with the information that a launch needs about it.
#[derive(FromPyObject)]
struct Program {
    key: Py<KernelKey>,
    name: String,
    function: Py<PyAny>,
    parameters: Vec<String>,
    live: bool,
}

/// Launches a kernel on PEs of a SIP and waits for it.
#[pyfunction]
#[pyo3(name = "launch")]
fn launch_kernel(
    py: Python<'_>,
    context: &Bound<'_, Context>,
    program: Program,
    arguments: Vec<Bound<'_, PyAny>>,
    target: (u32, Vec<u32>, Vec<u32>),
) -> PyResult<Times> {
    let given = Given::all(&program.parameters, &arguments)?;
    let target = Target::new(target.0, target.1, target.2)?;
    context.get().shared.run(py, move |session| {
        program.with(session, |session, kernel| launch::run(session, kernel, &target, &given))
    })
}

/// Returns the number of PEs of the targets, and the PE that holds each address, as an index among them; `None` if none or
/// several do.
#[pyfunction]
fn holders(
    py: Python<'_>,
    context: &Bound<'_, Context>,
    addresses: Vec<u64>,
    targets: Vec<(u32, Vec<u32>, Vec<u32>)>,
) -> PyResult<(usize, Vec<Option<usize>>)> {
    let targets = targets.into_iter().map(|(sip, cubes, pes)| Target::new(sip, cubes, pes));
    let targets = targets.collect::<PyResult<Vec<_>>>()?;
    context.get().shared.with(py, move |session| launch::holders(session, &targets, &addresses))
}

/// Launches a kernel on several SIPs at the same time and waits for all launches. Each launch gets the position of its
/// SIP as the last argument.
#[pyfunction]
fn launch_together(
    py: Python<'_>,
    context: &Bound<'_, Context>,
    program: Program,
    arguments: Vec<Bound<'_, PyAny>>,
    targets: Vec<(u32, Vec<u32>, Vec<u32>)>,
) -> PyResult<Vec<Times>> {
    let given = Given::all(&program.parameters, &arguments)?;
    let targets = targets.into_iter().map(|(sip, cubes, pes)| Target::new(sip, cubes, pes));
    let targets = targets.collect::<PyResult<Vec<_>>>()?;
    context.get().shared.run(py, move |session| {
        program.with(session, |session, kernel| {
            launch::run_together(session, kernel, &targets, &given)
        })
    })
}

impl Program {
    /// Runs launches of the kernel, which call its Python function.
    fn with<T>(
        self,
        session: &mut Session,
        run: impl FnOnce(&Session, &Kernel) -> PyResult<T>,
    ) -> PyResult<T> {
        let key = Arc::clone(&self.key.get().number);
        let (kernel, slot, lines) = session.kernels.get(&key, &self.name, self.live);
        let Self { name, function, parameters, .. } = self;
        slot.replace(Some(Rc::new(Function { name, callable: function, parameters, lines })));
        let done = run(session, &kernel);
        slot.replace(None);
        done
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<KernelKey>()?;
    module.add_class::<launch::DeviceAddress>()?;
    module.add_class::<builtin::RustKernel>()?;
    module.add_class::<channels::Channels>()?;
    module.add_class::<math::TlMath>()?;
    module.add_class::<language::Tl>()?;
    module.add_class::<run::Tile>()?;
    module.add_class::<run::Lazy>()?;
    module.add_class::<reference::Ref>()?;
    module.add_class::<mask::Mask>()?;
    module.add_class::<composite::Composite>()?;
    module.add_class::<composite::Handle>()?;
    module.add_class::<wait::Done>()?;
    module.add_class::<wait::PendingValue>()?;
    module.add_function(wrap_pyfunction!(launch_kernel, module)?)?;
    module.add_function(wrap_pyfunction!(holders, module)?)?;
    module.add_function(wrap_pyfunction!(launch_together, module)?)?;
    module.add_function(wrap_pyfunction!(builtin::launch_rust, module)?)?;
    module.add_function(wrap_pyfunction!(channels::connect, module)?)
}

//! Launches of kernels on a session.

use cubeyard_device::request::PeRef;
use cubeyard_memory::address::{AddressError, CubeId, PeId, SipId};
use cubeyard_runtime::{Argument, Launch, LaunchReport, Scalar};
use cubeyard_sim::Span;
use cubeyard_tl::kernel::Kernel;
use pyo3::prelude::*;

use crate::error::{IntoPyErr, Kind, OrRaise};
use crate::scalar::{ReadScalar, TooLong};
use crate::session::Session;
use crate::tensor::Tensor;

/// Argument of a kernel.
pub(crate) enum Given {
    Tensor(Py<Tensor>),
    Address(u64),
    Number(Scalar),
}

impl Given {
    /// Converts the argument of a parameter.
    pub(crate) fn read(name: &str, of: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(tensor) = of.cast::<Tensor>() {
            return Ok(Self::Tensor(tensor.clone().unbind()));
        }
        if let Ok(address) = of.cast::<DeviceAddress>() {
            return Ok(Self::Address(address.get().0));
        }
        let wrong = |what: &str| Kind::Input.error(format!("argument `{name}`: {what}"));
        match Scalar::read(of)? {
            Ok(Some(number)) => Ok(Self::Number(number)),
            Ok(None) => {
                let kind = of.get_type().name()?;
                Err(wrong(&format!("expected a tensor or a number, found {kind}")))
            }
            Err(TooLong) => Err(wrong(&TooLong.to_string())),
        }
    }

    /// Converts the arguments of a launch.
    pub(crate) fn all<S: AsRef<str>>(
        names: &[S],
        arguments: &[Bound<'_, PyAny>],
    ) -> PyResult<Vec<Self>> {
        names.iter().zip(arguments).map(|(name, of)| Self::read(name.as_ref(), of)).collect()
    }
}

/// Address in the memory of a PyTorch device, as an argument of a kernel.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct DeviceAddress(u64);

#[pymethods]
impl DeviceAddress {
    #[new]
    fn new(address: u64) -> Self {
        Self(address)
    }
}

/// PEs on which a kernel is launched.
pub(crate) struct Target {
    sip: SipId,
    cubes: Vec<CubeId>,
    pes: Vec<PeId>,
}

/// Times of a launch in picoseconds: issue, start and end; mean and longest busy time; busy time of each PE.
pub(crate) type Times = (u64, u64, u64, u64, u64, Vec<(String, u64)>);

impl Target {
    /// Checks the numbers of the SIP, of the cubes, and of the PEs of each cube; an empty list stands for all.
    pub(crate) fn new(sip: u32, cubes: Vec<u32>, pes: Vec<u32>) -> PyResult<Self> {
        let cubes: Result<_, _> = cubes.into_iter().map(CubeId::new).collect();
        let pes: Result<_, _> = pes.into_iter().map(PeId::new).collect();
        Ok(Self {
            sip: SipId::new(sip).or_raise()?,
            cubes: cubes.or_raise()?,
            pes: pes.or_raise()?,
        })
    }

    /// Returns a launch on these PEs.
    fn launch<'a>(&self, arguments: Vec<Argument<'a>>) -> Launch<'a> {
        let launch = Launch::new(self.sip).arguments(arguments);
        launch.cubes(self.cubes.clone()).pes(self.pes.clone())
    }
}

impl IntoPyErr for AddressError {
    fn into_py_err(self) -> PyErr {
        Kind::Input.error(self.to_string())
    }
}

/// Returns the number of PEs of the targets, and the PE that holds each address, as an index among them; `None` if none or
/// several do.
pub(crate) fn holders(
    session: &Session,
    targets: &[Target],
    addresses: &[u64],
) -> PyResult<(usize, Vec<Option<usize>>)> {
    let launches: Vec<_> = targets.iter().map(|target| target.launch(Vec::new())).collect();
    session.context.holders(&launches, addresses).or_raise()
}

/// Launches a kernel and waits for it. Called within [`Shared::run`](crate::session::Shared::run), which releases the
/// GIL; a kernel that calls Python acquires it.
pub(crate) fn run(
    session: &Session,
    kernel: &Kernel,
    target: &Target,
    given: &[Given],
) -> PyResult<Times> {
    let launch = target.launch(arguments(session, given)?);
    session.launcher.run(kernel, &launch).map(times).or_raise()
}

/// Launches a kernel on several SIPs at the same time and waits for all. Each SIP gets its position among
/// them as the last argument.
pub(crate) fn run_together(
    session: &Session,
    kernel: &Kernel,
    targets: &[Target],
    given: &[Given],
) -> PyResult<Vec<Times>> {
    let begin = |(position, target): (u32, &Target)| {
        let mut arguments = arguments(session, given)?;
        arguments.push(Argument::Scalar(position.into()));
        let stream = session.launcher.context().stream();
        session.launcher.launch(&stream, kernel, &target.launch(arguments)).or_raise()
    };
    let handles: PyResult<Vec<_>> = (0..).zip(targets).map(begin).collect();
    handles?.iter().map(|launch| launch.wait().map(times).or_raise()).collect()
}

/// Converts the arguments of a launch to arguments of the runtime.
fn arguments<'a>(session: &'a Session, given: &[Given]) -> PyResult<Vec<Argument<'a>>> {
    let argument = |given: &Given| match given {
        Given::Tensor(tensor) => session.get(&tensor.get().owned).map(Argument::Tensor),
        Given::Address(address) => Ok(Argument::Address(*address)),
        Given::Number(number) => Ok(Argument::Scalar(*number)),
    };
    given.iter().map(argument).collect()
}

/// Returns the times of a launch as plain numbers.
pub(crate) fn times(report: LaunchReport) -> Times {
    let (mean, max) = (report.mean().ps(), report.max().ps());
    let of_pe = |(pe, span): (PeRef, Span)| (pe.to_string(), span.ps());
    let pes = report.pes.into_iter().map(of_pe).collect();
    (report.made.ps(), report.started.ps(), report.done.ps(), mean, max, pes)
}

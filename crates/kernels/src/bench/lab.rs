//! What a bench runs on.

use std::cell::RefCell;

use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Argument, Context, Launch, LaunchReport, RuntimeError, Tensor};

use super::inputs::size;
use super::numbers::difference;
use super::path::{Leg, path};
use crate::kernel::Kernel;
use crate::launch::Launcher;
use crate::report::Check;

/// What had to be done, whatever the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Floating-point operations, and the type that they are counted for at the matrix engine; a bench
    /// without matrix products has none.
    pub gemm: Option<(DType, u64)>,
    /// Elements that the vector engine must take, each at its simple rate.
    pub elements: u64,
    /// Bytes that must leave or enter memory: each input once, each output once, of all PEs together.
    pub bytes: u64,
    /// Over how many PEs' memories these are spread evenly; all PEs of the launch if nothing is said.
    pub memories: Option<u64>,
}

/// A context, and what has been launched on it.
#[derive(Debug)]
pub struct Lab<'c> {
    /// The context.
    pub context: &'c Context,
    /// What launches kernels.
    pub launcher: Launcher<'c>,
    /// Whether memory holds data.
    pub has_data: bool,
    /// The SIPs to use.
    pub sips: Vec<SipId>,
    pub(super) launches: RefCell<Vec<(String, LaunchReport)>>,
    /// What led to the end of each launch, where operations are kept.
    pub(super) paths: RefCell<Vec<Vec<Leg>>>,
}

impl Lab<'_> {
    /// The cubes of a SIP, the first so many of them.
    pub fn cubes(&self, count: u64) -> Vec<CubeId> {
        self.context.machine(|machine| machine.topology().cubes().take(size(count)).collect())
    }

    /// The PEs of a cube, the first so many of them.
    pub fn pes(&self, count: u64) -> Vec<PeId> {
        self.context.machine(|machine| machine.topology().pes().take(size(count)).collect())
    }

    /// How many cubes a SIP has, and PEs a cube.
    pub fn counts(&self) -> (u64, u64) {
        self.context.machine(|machine| {
            let topology = machine.topology();
            (topology.cubes().count() as u64, topology.pes().count() as u64)
        })
    }

    /// Over the first so many cubes of the first SIP, and PEs of each.
    pub fn placement(&self, cube: Split, pe: Split, cubes: u64, pes: u64) -> Placement {
        let [cubes, pes] = [cubes, pes].map(|count| u32::try_from(count).ok());
        Placement { cube, pe, cubes, pes, sips: vec![self.sips[0]], ..Placement::default() }
    }

    /// Launches a kernel on the first SIP and waits for it.
    pub fn launch(
        &self,
        kernel: &Kernel,
        arguments: Vec<Argument<'_>>,
        cubes: u64,
        pes: u64,
    ) -> Result<(), RuntimeError> {
        let launch = Launch {
            kernel: kernel.name(),
            arguments,
            sip: self.sips[0],
            cubes: self.cubes(cubes),
            pes: self.pes(pes),
        };
        let report = self.launcher.run(kernel, &launch)?;
        self.paths.borrow_mut().push(path(self, &report));
        self.launches.borrow_mut().push((kernel.name().to_owned(), report));
        Ok(())
    }

    /// The elements of a tensor as numbers, in data mode.
    pub fn values(&self, tensor: &Tensor) -> Result<Option<Vec<f64>>, RuntimeError> {
        if !self.has_data {
            return Ok(None);
        }
        let bytes = tensor.read_bytes()?;
        let width = tensor.dtype().width();
        Ok(Some(bytes.chunks_exact(width).map(|bytes| tensor.dtype().decode(bytes)).collect()))
    }

    /// Compares the elements of a tensor with those that they should be, in data mode: the greatest
    /// difference, relative to the greatest of what they should be or to 1.
    pub fn check(
        &self,
        tensor: &Tensor,
        tolerance: f64,
        expected: impl FnOnce() -> Vec<f64>,
    ) -> Result<Option<Check>, RuntimeError> {
        let Some(found) = self.values(tensor)? else { return Ok(None) };
        Ok(Some(difference(&found, &expected(), 1.0, tolerance)))
    }
}

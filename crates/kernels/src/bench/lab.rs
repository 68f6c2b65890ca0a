//! What a bench runs on.

use std::cell::RefCell;
use std::rc::Rc;

use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Argument, Context, Launch, RuntimeError, Tensor};

use super::inputs::size;
use super::numbers::difference;
use super::phase::Phase;
use crate::distributed::Distributed;
use crate::kernel::Kernel;
use crate::launch::Launcher;
use crate::report::{Bound, Check};

/// What had to be done, whatever the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Floating-point operations, and the type that they are counted for at the matrix engine; a bench
    /// without matrix products has none.
    pub gemm: Option<(DType, u64)>,
    /// Elements that the vector engine must take, each at its simple rate.
    pub elements: u64,
    /// Bytes that the vector engine must fetch from the TCMs, and store to them; what matrix products fetch follows
    /// from their operations. Nothing of an operation that can follow another without the TCM between.
    pub tcm: [u64; 2],
    /// Bytes that must leave or enter memory: each input once, each output once, of all PEs together.
    pub bytes: u64,
    /// Over how many PEs' memories these are spread evenly; all PEs of the launch if nothing is said.
    pub memories: Option<u64>,
    /// The least time that links allow for the messages that it takes.
    pub links: Vec<Bound>,
}

/// A context, and what has been launched on it.
///
/// Every launch by [`launcher`](Self::launcher) counts, whoever makes it: [`launch`](Self::launch), a
/// [`Group`](crate::distributed::Group), or the process group that [`distributed`](Self::distributed) gives. The
/// time of a bench is from the first start to the last end, with what the host takes between launches.
#[derive(Debug)]
pub struct Lab<'c> {
    /// The context.
    pub context: &'c Context,
    /// What launches kernels.
    pub launcher: Rc<Launcher<'c>>,
    /// Whether memory holds data.
    pub has_data: bool,
    /// The SIPs to use.
    pub sips: Vec<SipId>,
    pub(super) phases: RefCell<Vec<Phase>>,
}

impl<'c> Lab<'c> {
    /// A process group to be, whose collectives count as launches of the bench.
    pub fn distributed(&self) -> Distributed<'c> {
        Distributed::with_launcher(self.context, Rc::clone(&self.launcher))
    }

    /// Waits for all that has been launched, and takes note of what it took. What led to its end is known best
    /// while its tensors are still mapped; so a bench whose launches are not by [`launch`](Self::launch) and
    /// [`launch_each`](Self::launch_each) calls this before it drops them.
    pub fn settle(&self) -> Result<(), RuntimeError> {
        let launched = self.launcher.take_launched().into_iter();
        let launched = launched.map(|(name, handle)| Ok((name, handle.wait()?)));
        let phases = Phase::of(self, launched.collect::<Result<_, RuntimeError>>()?);
        self.phases.borrow_mut().extend(phases);
        Ok(())
    }

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
        self.placement_on(self.sips[0], cube, pe, cubes, pes)
    }

    /// Over the first so many cubes of a SIP, and PEs of each.
    pub fn placement_on(
        &self,
        sip: SipId,
        cube: Split,
        pe: Split,
        cubes: u64,
        pes: u64,
    ) -> Placement {
        let [cubes, pes] = [cubes, pes].map(|count| u32::try_from(count).ok());
        Placement { cube, pe, cubes, pes, sips: vec![sip], ..Placement::default() }
    }

    /// Launches a kernel on the first SIP and waits for it.
    pub fn launch(
        &self,
        kernel: &Kernel,
        arguments: Vec<Argument<'_>>,
        cubes: u64,
        pes: u64,
    ) -> Result<(), RuntimeError> {
        self.launch_each(kernel, vec![(self.sips[0], arguments)], cubes, pes)
    }

    /// Launches a kernel on several SIPs at once, each with arguments of its own, and waits for all of them.
    pub fn launch_each(
        &self,
        kernel: &Kernel,
        each: Vec<(SipId, Vec<Argument<'_>>)>,
        cubes: u64,
        pes: u64,
    ) -> Result<(), RuntimeError> {
        let (cubes, pes) = (self.cubes(cubes), self.pes(pes));
        for (sip, arguments) in each {
            let (cubes, pes) = (cubes.clone(), pes.clone());
            let launch = Launch { arguments, sip, cubes, pes };
            self.launcher.launch(&self.context.stream(), kernel, &launch)?;
        }
        self.settle()
    }

    /// The elements of a tensor as numbers, in data mode.
    pub fn values(&self, tensor: &Tensor) -> Result<Option<Vec<f64>>, RuntimeError> {
        if !self.has_data {
            return Ok(None);
        }
        let bytes = tensor.read_bytes()?.known()?;
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

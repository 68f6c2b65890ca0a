//! Environment in which a bench runs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cubeyard_device::machine::Machine;
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, Launch, RuntimeError, Tensor};

use super::phase::Phase;
use super::reference::{difference, size};
use crate::report::Check;
use cubeyard_collectives::distributed::Distributed;
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::Launcher;

/// Context of a run, and its launches.
///
/// Every launch made with [`launcher`](Self::launcher) counts: by [`launch`](Self::launch), by a
/// [`Group`](cubeyard_collectives::distributed::Group), or by the process group of [`distributed`](Self::distributed).
/// The time of a bench runs from the first start to the last end, including host time between launches.
#[derive(Clone, Debug)]
pub struct Lab {
    /// Context of the run.
    pub context: Context,
    /// Launcher of all kernels.
    pub launcher: Rc<Launcher>,
    /// Whether memory holds data.
    pub has_data: bool,
    /// SIPs of the run, at least one.
    pub sips: Vec<SipId>,
    pub(super) phases: Rc<RefCell<Vec<Phase>>>,
    /// Hash of the order of events up to the end of the last launch.
    pub(super) order_hash: Rc<Cell<u64>>,
    /// Largest number of PEs whose HBM was in use when launches ended.
    pub(super) memories: Rc<Cell<u64>>,
}

impl Lab {
    /// Returns a process group, not yet initialised, whose collectives count as launches of the bench.
    pub fn distributed(&self) -> Distributed {
        Distributed::with_launcher(Rc::clone(&self.launcher))
    }

    /// Waits for all launches and records their times. The critical path must be computed while the tensors are still
    /// mapped. A bench that launches by other means than [`launch`](Self::launch) and
    /// [`launch_each`](Self::launch_each) must therefore call this before it drops them.
    pub fn settle(&self) -> Result<(), RuntimeError> {
        let launched = self.launcher.take_launched().into_iter();
        let launched = launched.map(|(name, handle)| Ok((name, handle.wait()?)));
        let launched = launched.collect::<Result<Vec<_>, RuntimeError>>()?;
        if !launched.is_empty() {
            let hash = |machine: &Machine| machine.view().engine().order_hash();
            self.order_hash.set(self.context.machine(hash));
            let pes = self.context.memory_stats().pes;
            let used = pes.iter().filter(|pe| !pe.used.is_zero()).count() as u64;
            self.memories.set(self.memories.get().max(used));
        }
        let phases = Phase::of(&self.launcher, launched);
        self.phases.borrow_mut().extend(phases);
        Ok(())
    }

    /// Returns the first `count` cubes of a SIP.
    pub fn cubes(&self, count: u64) -> Vec<CubeId> {
        self.context.machine(|machine| machine.topology().cubes().take(size(count)).collect())
    }

    /// Returns the first `count` PEs of a cube.
    pub fn pes(&self, count: u64) -> Vec<PeId> {
        self.context.machine(|machine| machine.topology().pes().take(size(count)).collect())
    }

    /// Returns the number of cubes per SIP, and of PEs per cube.
    pub fn counts(&self) -> (u64, u64) {
        self.context.machine(|machine| {
            let topology = machine.topology();
            (topology.cubes().count() as u64, topology.pes().count() as u64)
        })
    }

    /// Returns a placement over the first cubes of the first SIP, and the first PEs of each cube.
    pub fn placement(&self, cube: Split, pe: Split, cubes: u64, pes: u64) -> Placement {
        self.placement_on(self.sips[0], cube, pe, cubes, pes)
    }

    /// Returns a placement over the first cubes of a SIP, and the first PEs of each cube.
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

    /// Launches a kernel on the first SIP and waits for it; the arguments are tensors, followed by numbers.
    pub fn launch(
        &self,
        kernel: &Kernel,
        tensors: Vec<&Tensor>,
        numbers: Vec<u64>,
        cubes: u64,
        pes: u64,
    ) -> Result<(), RuntimeError> {
        self.launch_each(kernel, vec![(self.sips[0], tensors, numbers)], cubes, pes)
    }

    /// Launches a kernel on several SIPs at the same time, each with its own tensors and numbers, and waits for
    /// all of them.
    pub fn launch_each(
        &self,
        kernel: &Kernel,
        each: Vec<(SipId, Vec<&Tensor>, Vec<u64>)>,
        cubes: u64,
        pes: u64,
    ) -> Result<(), RuntimeError> {
        for (sip, tensors, numbers) in each {
            let launch = Launch::new(sip).arguments(tensors).arguments(numbers);
            let launch = launch.cubes(self.cubes(cubes)).pes(self.pes(pes));
            self.launcher.launch(&self.context.stream(), kernel, &launch)?;
        }
        self.settle()
    }

    /// Returns the elements of a tensor as numbers, in data mode.
    pub fn values(&self, tensor: &Tensor) -> Result<Option<Vec<f64>>, RuntimeError> {
        if !self.has_data {
            return Ok(None);
        }
        let bytes = tensor.read_bytes()?.known()?;
        let width = tensor.dtype().width();
        Ok(Some(bytes.chunks_exact(width).map(|bytes| tensor.dtype().decode(bytes)).collect()))
    }

    /// Compares the elements of a tensor with the expected ones, in data mode: the largest difference, relative to the
    /// largest expected element or to 1.
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

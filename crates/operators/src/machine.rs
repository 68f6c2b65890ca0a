//! Machine on which operators run, with made-up storages for their tensors.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use cubeyard_device::shared_memory::{SharedBlock, SharedMemory};
use cubeyard_device::topology::{DealOrder, Topology};
use cubeyard_memory::address::SipId;
use cubeyard_runtime::{Context, ContextConfig, Launch, LaunchReport, RuntimeError};
use cubeyard_tl::Tl;
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::program::Recording;

use crate::error::{OperatorError, refused};
use crate::flow::{Flow, Ways};
use crate::places::APART;
pub(crate) use crate::places::address;

/// Kernel of a stage: commands of a PE, given its turn in the order of dealing.
pub(crate) type Stage = Rc<dyn Fn(&Tl, u64)>;

/// Time and traffic of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) ps: u64,
    /// Bytes moved in the PEs' own slices, and in all.
    pub(crate) moved: [u64; 2],
    /// Whether some PEs stand for all, and links follow from their load.
    pub(crate) sampled: bool,
}

/// A SIP on which operators run one after another. Its memory has places but no contents.
#[derive(Debug)]
pub struct OperatorMachine {
    topology: Topology,
    memory: Arc<Storages>,
    sip: SipId,
    ways: Ways,
    /// Context of earlier runs, if its memories keep no state between runs.
    kept: RefCell<Option<Context>>,
    /// Most flits times links that are simulated; see [`simulate_up_to`](Self::simulate_up_to).
    most: Cell<u64>,
    all_steps: Cell<bool>,
}

/// Storages of an operator's tensors, as the machine sees them.
#[derive(Debug, Default)]
struct Storages(Mutex<Vec<u64>>);

impl SharedMemory for Storages {
    fn blocks(&self) -> Vec<SharedBlock> {
        let sizes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let block = |(number, bytes): (usize, &u64)| {
            let start = address(number);
            SharedBlock { addresses: start..start + bytes, parts: None }
        };
        sizes.iter().enumerate().map(block).collect()
    }

    fn read(&self, _: u64, into: &mut [u8]) {
        into.fill(0);
    }

    fn write(&self, _: u64, _: &[u8]) {}
}

/// Most calls of `tl` by a kernel on a PE.
const CALLS: usize = 1 << 22;

/// Flits times links that a run may simulate; a flit on a link is about a microsecond of the host.
const HOPS: u64 = 150_000;

/// PEs that run without the others where links are too busy to simulate them all.
const SAMPLES: u64 = 1;

impl OperatorMachine {
    /// Creates a machine; operators run on its first SIP.
    pub fn new(topology: &Topology) -> Result<Self, OperatorError> {
        let Some(sip) = topology.sips().next() else {
            return refused("topology: expected a SIP, found none");
        };
        let ways = Ways::new(topology, sip);
        let (memory, kept) = (Arc::default(), RefCell::default());
        let (most, all_steps) = (Cell::new(HOPS), Cell::new(false));
        Ok(Self { topology: topology.clone(), memory, sip, ways, kept, most, all_steps })
    }

    /// Sets the size of runs of which all PEs are simulated: flits times the links that each crosses. In larger runs one PE is
    /// simulated without the others, and each phase takes at least as long as its busiest link or memory with the accesses of
    /// all.
    pub fn simulate_up_to(&self, hops: u64) {
        self.most.set(hops);
    }

    /// Sets whether all steps of long kernels are simulated, on as many PEs as [`simulate_up_to`](Self::simulate_up_to) says.
    pub fn simulate_all_steps(&self, all: bool) {
        self.all_steps.set(all);
    }

    /// Returns the steps to simulate of a longer kernel.
    pub(crate) fn few(&self, few: [u64; 2]) -> [u64; 2] {
        if self.all_steps.get() { [u64::MAX / 2; 2] } else { few }
    }

    /// Returns the topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the number of PEs of the SIP.
    pub(crate) fn pes(&self) -> u64 {
        u64::from(self.topology.spec().cube_count()) * u64::from(self.topology.spec().pe_count())
    }

    /// Returns the bytes per second of all PEs together if each reads as much from each memory.
    pub(crate) fn across(&self) -> u64 {
        self.ways.across()
    }

    /// Returns the bytes of a page.
    pub(crate) fn page(&self) -> u64 {
        self.topology.spec().hbm.page.get()
    }

    /// Returns the bytes of the TCM for tiles of a kernel.
    pub(crate) fn scratch(&self) -> u64 {
        self.topology.spec().pe.core.scratch.get()
    }

    /// Runs stages one after another, each on all PEs, over storages of these sizes.
    pub(crate) fn run(
        &self,
        name: &str,
        storages: &[u64],
        stages: &[Stage],
    ) -> Result<Ran, OperatorError> {
        let (wanted, spec) = (storages.iter().sum::<u64>(), self.topology.spec());
        let room = spec.hbm.capacity.get() * u64::from(spec.cube_count());
        if wanted > room || storages.iter().any(|bytes| *bytes > APART) {
            return refused(format!(
                "operands and results: {wanted} bytes, but the HBM of a SIP has {room}"
            ));
        }
        *self.memory.0.lock().unwrap_or_else(PoisonError::into_inner) = storages.to_vec();
        let context = self.context()?;
        let mut ran = Ran::default();
        for stage in stages {
            let (report, [own, all], flow) = self.launch(&context, &self.kernel(name, stage))?;
            let alone = report.max().ps();
            let time = flow.as_ref().map_or(alone, |flow| self.ways.time(flow, alone));
            let moved = [ran.moved[0] + own, ran.moved[1] + all];
            ran = Ran { ps: ran.ps + time, moved, sampled: ran.sampled || flow.is_some() };
        }
        if self.topology.spec().hbm.rows.is_none() {
            self.kept.replace(Some(context));
        }
        Ok(ran)
    }

    /// Returns a context in its first state. Memories without rows keep no state, so a context of earlier runs serves.
    fn context(&self) -> Result<Context, OperatorError> {
        if let Some(context) = self.kept.take() {
            return Ok(context);
        }
        let config = ContextConfig {
            topology: self.topology.clone(),
            data: false,
            ..ContextConfig::default()
        };
        let context = Context::new(config);
        context.share(self.sip, Arc::clone(&self.memory) as _)?;
        Ok(context)
    }

    /// Runs a kernel on all PEs, or, if that is too much to simulate, on some of them.
    /// Returns its times, the bytes moved in own slices and in all, and in the latter case the accesses of all PEs.
    fn launch(
        &self,
        context: &Context,
        kernel: &Kernel,
    ) -> Result<(LaunchReport, [u64; 2], Option<Flow>), OperatorError> {
        let (findings, mut flow) = (Rc::default(), self.ways.flow());
        let idle = Kernel::new("idle", |_, _| Box::pin(async {}));
        let mut recordings = Vec::new();
        let launch = Launch::new(self.sip);
        let mut record = |site: &cubeyard_runtime::Site, _: &[cubeyard_runtime::BoundArgument]| {
            let recording =
                Recording::new(kernel, site, &[], CALLS).map_err(RuntimeError::Kernel)?;
            let turn = self.turn(site.index);
            flow.add_tape(usize::try_from(turn).unwrap_or(0), &recording.tape());
            recordings.push((site.pe, turn, recording));
            let idle = Recording::new(&idle, site, &[], CALLS).map_err(RuntimeError::Kernel)?;
            Ok(Box::new(idle.program(&findings)) as Box<dyn cubeyard_device::pe::Program>)
        };
        context.stream().launch_programs("idle", &launch, &mut record)?.wait()?;
        flow.end();
        let is_small = self.ways.hops(&flow) <= self.most.get();
        let longest = recordings
            .iter()
            .map(|(_, _, recording)| recording.tape().commands())
            .max()
            .unwrap_or(0);
        let first =
            recordings.iter().filter(|(_, _, recording)| recording.tape().commands() == longest);
        let chosen: Vec<_> = first.map(|(_, turn, _)| *turn).collect();
        let step = (chosen.len() as u64).div_ceil(SAMPLES).max(1);
        let is_chosen = |turn: u64| {
            let at = chosen.iter().position(|of| *of == turn);
            is_small || at.is_some_and(|at| (at as u64).is_multiple_of(step))
        };
        let handle = context.stream().launch_programs(kernel.name(), &launch, &mut |site, _| {
            let turn = self.turn(site.index);
            let found = recordings.iter().find(|(pe, _, _)| *pe == site.pe && is_chosen(turn));
            let recording = match found {
                Some((_, _, recording)) => recording.clone(),
                None => Recording::new(&idle, site, &[], CALLS).map_err(RuntimeError::Kernel)?,
            };
            Ok(Box::new(recording.program(&findings)))
        })?;
        let moved = flow.moved();
        Ok((handle.wait()?, moved, (!is_small).then_some(flow)))
    }

    /// Returns the turn of a PE in the order of dealing.
    fn turn(&self, [pe, cube]: [usize; 2]) -> u64 {
        let spec = self.topology.spec();
        let (cubes, pes) = (u64::from(spec.cube_count()), u64::from(spec.pe_count()));
        match spec.hbm.deal {
            DealOrder::Pes => cube as u64 * pes + pe as u64,
            DealOrder::Cubes => pe as u64 * cubes + cube as u64,
        }
    }

    fn kernel(&self, name: &str, stage: &Stage) -> Kernel {
        let spec = self.topology.spec();
        let (cubes, pes, order) =
            (u64::from(spec.cube_count()), u64::from(spec.pe_count()), spec.hbm.deal);
        let stage = Rc::clone(stage);
        Kernel::new(name, move |tl, _| {
            let stage = Rc::clone(&stage);
            Box::pin(async move {
                let (cube, pe) = (tl.program_id(1), tl.program_id(0));
                let turn = match order {
                    DealOrder::Pes => cube * pes + pe,
                    DealOrder::Cubes => pe * cubes + cube,
                };
                stage(&tl, turn);
            })
        })
    }
}

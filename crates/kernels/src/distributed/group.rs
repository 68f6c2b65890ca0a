//! Ranks that are wired to each other, and operations among them.

mod door;
mod pending;

pub(super) use door::{Seat, check_peer, check_root, transfer};
pub use pending::{CollectiveReport, Pending};

use std::cell::RefCell;
use std::collections::BTreeMap;

use cubeyard_memory::address::{CubeId, SipId};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::{Argument, Channels, Context, Launch, RingConfig, Stream, Tensor};
use cubeyard_sim::Span;

use super::ccl::Cost;
use super::error::DistError;
use super::places::Places;
use crate::collective::{Algorithm, Job, Operation, World};
use crate::kernel::Kernel;
use crate::launch::Launcher;

/// What a rank is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ranks {
    /// A SIP, with all its PEs.
    #[default]
    Sip,
    /// A cube, with all its PEs.
    Cube,
    /// A PE.
    Pe,
}

impl Ranks {
    /// What ranks are, many of them.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Sip => "SIPs",
            Self::Cube => "cubes",
            Self::Pe => "PEs",
        }
    }
}

/// What a group is like.
#[derive(Clone, Debug, Default)]
pub struct GroupConfig {
    /// What a rank is.
    pub ranks: Ranks,
    /// The SIPs of the group, in the order of ranks; all of them if none are named.
    pub sips: Vec<SipId>,
    /// The cubes of each SIP that take part, in ascending order; all of them if none are named.
    pub cubes: Vec<CubeId>,
    /// How many ranks there are; as many as there can be if nothing is said.
    pub world_size: Option<usize>,
    /// What the rings of channels are like.
    pub ring: RingConfig,
}

/// Ranks that are wired to each other for one algorithm.
#[derive(Debug)]
pub struct Group {
    config: GroupConfig,
    places: Places,
    algorithm: Box<dyn Algorithm>,
    number: u16,
    channels: Channels,
    /// Kernels of the operations so far, by operation and elements of a message: their recordings are used again.
    kernels: RefCell<BTreeMap<(Operation, u64), Kernel>>,
}

impl Group {
    /// Wires ranks to each other, through the fabric: all, or none. Groups of one machine have different
    /// numbers.
    pub fn new(
        context: &Context,
        config: &GroupConfig,
        algorithm: Box<dyn Algorithm>,
        number: u16,
    ) -> Result<Self, DistError> {
        let places = context.machine(|machine| Places::new(machine.topology(), config))?;
        let channels = places.channels(&algorithm.wires(places.world()), number);
        let channels = context.connect(&channels, &config.ring)?;
        let (config, kernels) = (config.clone(), RefCell::default());
        Ok(Self { config, places, algorithm, number, channels, kernels })
    }

    /// How its ranks lie to each other.
    pub fn world(&self) -> &World {
        self.places.world()
    }

    /// Which PEs its ranks are.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// How long it took to wire it, and what its rings take of memory.
    pub fn installation(&self) -> (Span, u64) {
        (self.channels.latency(), self.channels.bytes())
    }

    /// Its SIPs, in the order of ranks.
    pub fn sips(&self) -> &[SipId] {
        &self.places.sips
    }

    /// Its number among the groups of the machine.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// What its algorithm is called.
    pub fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// Why its algorithm does not do an operation, if it does not.
    pub fn refuses(&self, operation: Operation) -> Option<String> {
        self.algorithm.refuses(operation, self.world())
    }

    /// What an operation costs.
    pub(super) fn cost(&self, context: &Context, operation: Operation) -> Option<Cost> {
        let schedule = self.algorithm.schedule(operation, self.world())?;
        let slot = self.config.ring.slot_bytes;
        Some(context.machine(|m| Cost::of(m.topology(), &self.places, &schedule, slot)))
    }

    /// The most elements of a message.
    pub(super) fn piece(&self, dtype: DType) -> u64 {
        (self.config.ring.slot_bytes / dtype.size()).max(1)
    }

    /// Does an operation: an input and an output for each SIP, which may be the same tensor but for `all_to_all`.
    /// Where ranks are cubes or PEs, the parts that they hold are the ranks' tensors.
    ///
    /// Ranks hold the same part on the PEs at the same position; PEs may hold nothing. On each PE the output has
    /// as many elements as [`Operation::output`] says. All of that is checked before anything moves.
    pub fn run(
        &self,
        launcher: &Launcher<'_>,
        context: &Context,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<CollectiveReport, DistError> {
        self.begin(launcher, context, operation, tensors)?.wait()
    }

    /// Begins an operation, as [`run`](Self::run) does; returns at once.
    pub fn begin(
        &self,
        launcher: &Launcher<'_>,
        context: &Context,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<Pending, DistError> {
        let streams: Vec<_> = self.places.sips.iter().map(|_| context.stream()).collect();
        self.begin_on(launcher, context, &streams, operation, tensors)
    }

    /// Begins an operation as [`begin`](Self::begin) does, after what was launched on the stream of each SIP.
    pub fn begin_on(
        &self,
        launcher: &Launcher<'_>,
        context: &Context,
        streams: &[Stream],
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<Pending, DistError> {
        if let Some(why) = self.refuses(operation) {
            return Err(DistError::Refused { algorithm: self.algorithm.name(), why });
        }
        let seats = door::collective(context, &self.places, operation, tensors)?;
        let (found, expected) = (streams.len(), seats.len());
        if found != expected {
            return Err(DistError::Streams { operation: operation.name(), found, expected });
        }
        let piece = self.piece(tensors[0].0.dtype());
        let kernel = self.kernel(operation, piece);
        launcher.use_group(self.number);
        let begun = context.now();
        let mut handles = Vec::with_capacity(seats.len());
        for (index, (stream, seat)) in streams.iter().zip(seats).enumerate() {
            let Seat { sip, tensors, cubes, pes } = seat;
            let numbers = self.places.numbers(index).map(|number| Argument::Scalar(number as f64));
            let tensors = tensors.into_iter().map(Argument::Tensor);
            let arguments = tensors.chain(numbers).collect();
            let launch = Launch { arguments, sip, cubes, pes };
            handles.push(launcher.launch(stream, &kernel, &launch)?);
        }
        Ok(Pending::new(self.algorithm.name(), begun, tensors[0].0.nbytes(), handles))
    }

    /// The kernel of an operation, made when it is first asked for.
    fn kernel(&self, operation: Operation, piece: u64) -> Kernel {
        let mut kernels = self.kernels.borrow_mut();
        let job = || Job { operation, world: self.world().clone(), piece };
        let kernel =
            kernels.entry((operation, piece)).or_insert_with(|| self.algorithm.kernel(&job()));
        kernel.clone()
    }
}

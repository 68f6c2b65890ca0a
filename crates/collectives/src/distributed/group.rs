//! Ranks that are wired to each other, and operations among them.

mod door;
mod pending;
mod stated;

pub(super) use door::{check_peer, check_root, transfer};
pub use pending::{CollectiveReport, Pending};

use std::cell::RefCell;
use std::collections::BTreeMap;

use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::{Channels, Context, Stream, Tensor};
use cubeyard_sim::Span;

use super::config::GroupConfig;
use super::error::DistError;
use super::rank_map::RankMap;
use crate::collective::{Algorithm, Job, Operation, World};
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::Launcher;

/// Ranks that are wired to each other for one algorithm.
#[derive(Debug)]
pub struct Group {
    config: GroupConfig,
    map: RankMap,
    algorithm: Box<dyn Algorithm>,
    number: u16,
    channels: Channels,
    /// Kernels by operation and elements per message, kept so that their recordings are reused.
    kernels: RefCell<BTreeMap<(Operation, u64), Kernel>>,
}

impl Group {
    /// Wires ranks to each other, through the fabric: all or none. `number` must differ from the numbers of the
    /// machine's other groups.
    pub fn new(
        context: &Context,
        config: &GroupConfig,
        algorithm: Box<dyn Algorithm>,
        number: u16,
    ) -> Result<Self, DistError> {
        let map = context.machine(|machine| RankMap::new(machine.topology(), config))?;
        let channels = map.channels(&algorithm.wires(map.world()), number);
        let channels = context.connect(&channels, &config.ring)?;
        let (config, kernels) = (config.clone(), RefCell::default());
        Ok(Self { config, map, algorithm, number, channels, kernels })
    }

    /// Returns the arrangement of the group's ranks.
    pub fn world(&self) -> &World {
        self.map.world()
    }

    /// Returns the PEs of the group's ranks.
    pub fn rank_map(&self) -> &RankMap {
        &self.map
    }

    /// Returns the duration of the installation, and the size of the group's rings in bytes.
    pub fn installation(&self) -> (Span, u64) {
        (self.channels.latency(), self.channels.bytes().get())
    }

    /// Returns the group's SIPs in the order of ranks.
    pub fn sips(&self) -> &[SipId] {
        &self.map.sips
    }

    /// Returns the group's number on the machine.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the name of the group's algorithm.
    pub fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// Returns the reason why the algorithm does not support an operation; `None` if it does.
    pub fn refuses(&self, operation: Operation) -> Option<String> {
        self.algorithm.refuses(operation, self.world())
    }

    /// Returns the kernel of an operation on elements of a type, to be [started](Kernel::start) as a part of another
    /// kernel. It takes the arguments that an [`Algorithm`] defines, and uses the ports of the group's
    /// [number](Self::number).
    pub fn part(&self, operation: Operation, dtype: DType) -> Kernel {
        self.kernel(operation, self.piece(dtype))
    }

    /// Returns the first rank of a SIP, by its place in [`sips`](Self::sips), and the rank increments per cube and per PE.
    pub fn rank_numbers(&self, sip: usize) -> [usize; 3] {
        self.map.numbers(sip)
    }

    /// Returns the maximum number of elements per message.
    pub(super) fn piece(&self, dtype: DType) -> u64 {
        (self.config.ring.slot_bytes.get() / dtype.size()).max(1)
    }

    /// Performs an operation, given an input and an output for each SIP. Both may be the same tensor, except for
    /// `all_to_all`. If ranks are cubes or PEs, the parts on each cube or PE are the rank's tensors.
    ///
    /// All ranks hold the same part on PEs at the same position; PEs may hold nothing. On each PE the output has
    /// [`Operation::output`] elements. All of this is checked before anything moves.
    pub fn run(
        &self,
        launcher: &Launcher,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<CollectiveReport, DistError> {
        self.begin(launcher, operation, tensors)?.wait()
    }

    /// Begins an operation as [`run`](Self::run) does, and returns at once.
    pub fn begin(
        &self,
        launcher: &Launcher,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<Pending, DistError> {
        let streams: Vec<_> = self.map.sips.iter().map(|_| launcher.context().stream()).collect();
        self.begin_on(launcher, &streams, operation, tensors)
    }

    /// Begins an operation as [`begin`](Self::begin) does, after the earlier launches on the stream of each
    /// SIP.
    pub fn begin_on(
        &self,
        launcher: &Launcher,
        streams: &[Stream],
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<Pending, DistError> {
        let context = launcher.context();
        let seats = self.check(context, operation, tensors)?;
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
            let launch = seat.launch(self.map.numbers(index).map(|number| number as u64));
            handles.push(launcher.launch(stream, &kernel, &launch)?);
        }
        let (input, output) = tensors[0];
        let bytes = input.nbytes().max(output.nbytes()).get();
        Ok(Pending::new(self.algorithm.name(), begun, bytes, handles))
    }

    /// Checks a call, and returns the [seat](door::Seat) of each SIP.
    pub(super) fn check<'t>(
        &self,
        context: &Context,
        operation: Operation,
        tensors: &[(&'t Tensor, &'t Tensor)],
    ) -> Result<Vec<door::Seat<'t>>, DistError> {
        match self.refuses(operation) {
            Some(why) => Err(DistError::Refused { algorithm: self.algorithm.name(), why }),
            None => door::collective(context, &self.map, operation, tensors),
        }
    }

    /// Returns the kernel of an operation, made on first use.
    fn kernel(&self, operation: Operation, piece: u64) -> Kernel {
        let mut kernels = self.kernels.borrow_mut();
        let job = || Job { operation, world: self.world().clone(), piece };
        let kernel =
            kernels.entry((operation, piece)).or_insert_with(|| self.algorithm.kernel(&job()));
        kernel.clone()
    }
}

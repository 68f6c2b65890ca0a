//! What can go wrong with a process group.

use cubeyard_device::request::PeRef;
use cubeyard_runtime::RuntimeError;
use cubeyard_runtime::dtype::DType;
use thiserror::Error;

use crate::collective::NoSuchReduceOp;

/// A process group could not do what was asked. Nothing stays installed or half done on the device but what
/// each variant says.
#[derive(Debug, Error)]
pub enum DistError {
    /// There is one backend, and it is not this.
    #[error("Unsupported backend '{0}': expected 'ahbm'")]
    Backend(String),
    /// `init_process_group` comes first.
    #[error(
        "Default process group has not been initialized, please make sure to call init_process_group."
    )]
    NotInitialized,
    /// There is a group already. Destroy it first.
    #[error("trying to initialize the default process group twice!")]
    Twice,
    /// More ranks than there are, or none.
    #[error("a world of {wanted} ranks: there are {available} {kind}{}", whole(*each))]
    World {
        /// How many were wanted.
        wanted: usize,
        /// How many there are.
        available: usize,
        /// Of what.
        kind: &'static str,
        /// How many of them a SIP has, of which a group has all or none.
        each: usize,
    },
    /// There is none of that name. Name others.
    #[error("{name}: there are {count} {kind}s")]
    Unknown {
        /// What it would be.
        kind: &'static str,
        /// What was named.
        name: String,
        /// How many there are.
        count: usize,
    },
    /// A group has each once.
    #[error("{kind} {name} is named twice")]
    Repeated {
        /// What it is.
        kind: &'static str,
        /// What was named.
        name: String,
    },
    /// Cubes are ranks in ascending order, as a tensor's parts are.
    #[error("expected cubes in ascending order, found {0}")]
    Unsorted(String),
    /// A process group has SIPs as ranks. Use a [`Group`](super::Group) for others.
    #[error("a process group of {0}: its ranks are SIPs")]
    NotSips(&'static str),
    /// A group of nobody.
    #[error("a group of no ranks")]
    NoRanks,
    /// The group is not there any more.
    #[error("the group of ranks {0} has been destroyed")]
    NoGroup(String),
    /// Only its members use a group.
    #[error("rank {rank} is not in the group of ranks {members}")]
    NotMember {
        /// Who tried.
        rank: usize,
        /// Who may.
        members: String,
    },
    /// Ranks make groups in the same order.
    #[error("rank {rank} makes a group of ranks {found}, where another made one of {expected}")]
    Groups {
        /// Who differs.
        rank: usize,
        /// Its group.
        found: String,
        /// The other one.
        expected: String,
    },
    /// The numbers of groups are used up. Make a new context.
    #[error("more groups than there are numbers for: 65535 were made")]
    Exhausted,
    /// There is no such rank.
    #[error("rank {rank}: there are {world}")]
    Rank {
        /// The rank.
        rank: usize,
        /// How many there are.
        world: usize,
    },
    /// There is no such algorithm.
    #[error("there is no algorithm `{name}`; there are {known}{}", nearest.as_ref().map_or_else(String::new, |nearest| format!("; the nearest is `{nearest}`")))]
    Algorithm {
        /// The name given.
        name: String,
        /// Those that there are.
        known: String,
        /// The most similar.
        nearest: Option<String>,
    },
    /// The algorithm does not do that.
    #[error("{algorithm}: {why}")]
    Refused {
        /// The algorithm.
        algorithm: &'static str,
        /// Why not.
        why: String,
    },
    /// As many tensors as ranks are needed.
    #[error("{operation} of {found} tensors: expected one for each of {expected} ranks")]
    Tensors {
        /// What was asked.
        operation: &'static str,
        /// How many there are.
        found: usize,
        /// How many ranks.
        expected: usize,
    },
    /// The tensors of two ranks do not go together.
    #[error("{operation}: rank {rank} has {found}, expected {expected}")]
    Mismatch {
        /// What was asked.
        operation: &'static str,
        /// The rank.
        rank: usize,
        /// What it has.
        found: String,
        /// What would go with the first rank's.
        expected: String,
    },
    /// As many streams as SIPs are needed.
    #[error("{operation} on {found} streams: expected one for each of {expected} SIPs")]
    Streams {
        /// What was asked.
        operation: &'static str,
        /// How many there are.
        found: usize,
        /// How many SIPs.
        expected: usize,
    },
    /// There is no such rank to send to or to receive from.
    #[error("{} rank {peer}: there are {ranks} ranks", toward(call))]
    Peer {
        /// `send` or `recv`.
        call: &'static str,
        /// The rank that was named.
        peer: usize,
        /// How many there are.
        ranks: usize,
    },
    /// A rank sends to another, not to itself.
    #[error("{call} from rank {rank} to itself")]
    Itself {
        /// `send` or `recv`.
        call: &'static str,
        /// The rank.
        rank: usize,
    },
    /// Values of this type cannot be joined so. Convert them, or choose another op.
    #[error("{operation} {op}: there is none of {dtype}")]
    NoneOf {
        /// What was asked.
        operation: &'static str,
        /// What joins values.
        op: &'static str,
        /// The type of the elements.
        dtype: DType,
    },
    /// An output is of another type than its input.
    #[error(
        "{operation}: the output of rank {rank} is of {found}, expected {expected} as its input"
    )]
    OutputType {
        /// What was asked.
        operation: &'static str,
        /// The rank.
        rank: usize,
        /// The type of its output.
        found: DType,
        /// That of its input.
        expected: DType,
    },
    /// An output is too short or too long for what comes.
    #[error(
        "{operation}: the output of rank {rank} has {found} elements on {pe}, expected {expected} for an input of {input} among {ranks} ranks"
    )]
    Output {
        /// What was asked.
        operation: &'static str,
        /// The rank.
        rank: usize,
        /// The PE.
        pe: PeRef,
        /// Elements of the output there.
        found: u64,
        /// How many there must be.
        expected: u64,
        /// Elements of the input there.
        input: u64,
        /// How many ranks there are.
        ranks: usize,
    },
    /// An output is another part of the whole than the input on the same PE.
    #[error(
        "{operation}: the output of rank {rank} is {found} on {pe}, expected {expected}, as its input"
    )]
    Turned {
        /// What was asked.
        operation: &'static str,
        /// The rank.
        rank: usize,
        /// The PE.
        pe: PeRef,
        /// What it holds of the output.
        found: String,
        /// What it holds of the input.
        expected: String,
    },
    /// Ranks hold different parts on PEs that work together. Give their tensors the same placement.
    #[error(
        "{operation}: rank {rank} holds {found} on {pe}, expected {expected}, as rank {other} on {as_pe}"
    )]
    Layout {
        /// What was asked.
        operation: &'static str,
        /// The rank that differs.
        rank: usize,
        /// Its PE.
        pe: PeRef,
        /// What that holds.
        found: String,
        /// What the other one's holds.
        expected: String,
        /// The rank that it differs from.
        other: usize,
        /// The PE of that.
        as_pe: PeRef,
    },
    /// What is for all ranks was called by one of them. Use the worker's own call.
    #[error(
        "rank {rank} called {call} for all ranks from inside its worker: use the worker's own, which waits for the others"
    )]
    Inside {
        /// The rank.
        rank: usize,
        /// What it called.
        call: String,
    },
    /// A tensor is not on a device, or not on its rank's.
    #[error("{operation}: the tensor of rank {rank} is {what}")]
    Place {
        /// What was asked.
        operation: &'static str,
        /// The rank.
        rank: usize,
        /// What is wrong.
        what: String,
    },
    /// Ranks called different things, or some called nothing.
    #[error("ranks do not meet: {0}")]
    Apart(String),
    /// There is no such operator.
    #[error(transparent)]
    Op(#[from] NoSuchReduceOp),
    /// Something went wrong on the machine.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

fn toward(call: &str) -> &'static str {
    if call == "send" { "send to" } else { "recv from" }
}

fn whole(each: usize) -> String {
    if each > 1 { format!(", {each} in a SIP, of which a group has all") } else { String::new() }
}

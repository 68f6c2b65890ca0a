//! Errors of process groups.

use cubeyard_device::request::PeRef;
use cubeyard_runtime::RuntimeError;
use cubeyard_runtime::dtype::DType;
use cubeyard_yaml::NoSuchName;
use thiserror::Error;

/// The error of a process group. Nothing stays installed or half done on the device, except as a variant
/// states.
#[derive(Debug, Error)]
pub enum DistError {
    /// The backend is unknown; the only one is `ahbm`.
    #[error("Unsupported backend '{0}': expected 'ahbm'")]
    Backend(String),
    /// There is no process group. Call `init_process_group` first.
    #[error(
        "Default process group has not been initialized, please make sure to call init_process_group."
    )]
    NotInitialized,
    /// There already is a group. Destroy it first.
    #[error("trying to initialize the default process group twice!")]
    Twice,
    /// A world of more ranks than the machine has, or of none.
    #[error("a world of {wanted} ranks: expected 1 to {available}, the number of {kind}{}", whole(*each))]
    World {
        /// Number of ranks asked for.
        wanted: usize,
        /// Number of ranks available.
        available: usize,
        /// Plural of the kind of rank.
        kind: &'static str,
        /// Number of ranks per SIP; a group has all ranks of a SIP or none.
        each: usize,
    },
    /// A SIP or cube that does not exist. Name others.
    #[error("{name}: expected one of {count} {kind}s")]
    Unknown {
        /// Kind of the named part.
        kind: &'static str,
        /// The name given.
        name: String,
        /// Number of parts of this kind.
        count: usize,
    },
    /// A SIP, cube or rank is named twice. Name each once.
    #[error("{kind} {name} is named twice")]
    Repeated {
        /// Kind of the named part.
        kind: &'static str,
        /// The name given.
        name: String,
    },
    /// Cubes are not in ascending order, as the parts of a tensor are.
    #[error("expected cubes in ascending order, found {0}")]
    Unsorted(String),
    /// A process group has SIPs as ranks. Use a [`Group`](super::Group) for others.
    #[error("a process group of {0}: expected SIPs as ranks")]
    NotSips(&'static str),
    /// A group without ranks.
    #[error("a group without ranks: expected at least one")]
    NoRanks,
    /// The group has been destroyed.
    #[error("the group of ranks {0} has been destroyed")]
    NoGroup(String),
    /// A rank used a group of which it is not a member.
    #[error("rank {rank} is not in the group of ranks {members}")]
    NotMember {
        /// Rank of the caller.
        rank: usize,
        /// Members of the group.
        members: String,
    },
    /// Ranks made their groups in different orders.
    #[error(
        "rank {rank} makes a group of ranks {found}: expected ranks {expected}, as in the same call of another rank"
    )]
    Groups {
        /// The rank that differs.
        rank: usize,
        /// Members of its group.
        found: String,
        /// Members of the group that another rank made.
        expected: String,
    },
    /// All group numbers are used. Make a new context.
    #[error("all 65535 group numbers are used: make a new context")]
    Exhausted,
    /// A rank that does not exist.
    #[error("rank {rank}: expected a rank below {world}")]
    Rank {
        /// The rank given.
        rank: usize,
        /// Number of ranks.
        world: usize,
    },
    /// An unknown algorithm.
    #[error("there is no algorithm `{name}`: expected one of {known}{}", nearest.as_ref().map_or_else(String::new, |nearest| format!("; the nearest is `{nearest}`")))]
    Algorithm {
        /// The name given.
        name: String,
        /// All known names.
        known: String,
        /// The most similar known name.
        nearest: Option<String>,
    },
    /// The algorithm does not support the operation.
    #[error("{algorithm}: {why}")]
    Refused {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// The reason of the refusal.
        why: String,
    },
    /// The number of tensors differs from the number of ranks.
    #[error("{operation} of {found} tensors: expected one for each of {expected} ranks")]
    Tensors {
        /// Name of the operation.
        operation: &'static str,
        /// Number of tensors given.
        found: usize,
        /// Number of ranks.
        expected: usize,
    },
    /// The tensors of two ranks differ in type or shape.
    #[error("{operation}: rank {rank} has {found}, expected {expected}")]
    Mismatch {
        /// Name of the operation.
        operation: &'static str,
        /// The rank that differs.
        rank: usize,
        /// Type and shape of its tensor.
        found: String,
        /// Type and shape that match the first rank.
        expected: String,
    },
    /// The number of streams differs from the number of SIPs.
    #[error("{operation} on {found} streams: expected one for each of {expected} SIPs")]
    Streams {
        /// Name of the operation.
        operation: &'static str,
        /// Number of streams given.
        found: usize,
        /// Number of SIPs.
        expected: usize,
    },
    /// The peer of a send or a receive does not exist.
    #[error("{} rank {peer}: expected a rank below {ranks}", toward(call))]
    Peer {
        /// The call: `send` or `recv`.
        call: &'static str,
        /// The rank that was named.
        peer: usize,
        /// Number of ranks.
        ranks: usize,
    },
    /// A rank sends to itself, or receives from itself.
    #[error("{} rank {rank} by rank {rank}: expected another rank", toward(call))]
    Itself {
        /// The call: `send` or `recv`.
        call: &'static str,
        /// The calling rank.
        rank: usize,
    },
    /// The reduction operator is not defined for this element type. Convert the tensor, or choose another
    /// operator.
    #[error("{operation} {op}: not defined for {dtype}")]
    NoneOf {
        /// Name of the operation.
        operation: &'static str,
        /// Name of the reduction operator.
        op: &'static str,
        /// Type of the elements.
        dtype: DType,
    },
    /// The element types of an output and its input differ.
    #[error(
        "{operation}: the output of rank {rank} has elements of {found}, expected {expected}, the type of its input"
    )]
    OutputType {
        /// Name of the operation.
        operation: &'static str,
        /// Rank of the tensors.
        rank: usize,
        /// Element type of the output.
        found: DType,
        /// Element type of the input.
        expected: DType,
    },
    /// An output has the wrong number of elements for the result.
    #[error(
        "{operation}: the output of rank {rank} has {found} elements on {pe}, expected {expected} for an input of {input} among {ranks} ranks"
    )]
    Output {
        /// Name of the operation.
        operation: &'static str,
        /// Rank of the output.
        rank: usize,
        /// The PE with the wrong number.
        pe: PeRef,
        /// Number of output elements on it.
        found: u64,
        /// Number of output elements required.
        expected: u64,
        /// Number of input elements on it.
        input: u64,
        /// Number of ranks.
        ranks: usize,
    },
    /// Output and input on the same PE are different parts of the whole.
    #[error(
        "{operation}: the output of rank {rank} on {pe} is {found}, expected {expected}, its input there"
    )]
    Turned {
        /// Name of the operation.
        operation: &'static str,
        /// Rank of the tensors.
        rank: usize,
        /// The PE on which they differ.
        pe: PeRef,
        /// Its part of the output.
        found: String,
        /// Its part of the input.
        expected: String,
    },
    /// Ranks hold different parts on corresponding PEs. Give their tensors the same placement.
    #[error(
        "{operation}: rank {rank} holds {found} on {pe}, expected {expected}, which rank {other} holds on {as_pe}"
    )]
    Layout {
        /// Name of the operation.
        operation: &'static str,
        /// The rank that differs.
        rank: usize,
        /// PE of that rank.
        pe: PeRef,
        /// The part on that PE.
        found: String,
        /// The part on the corresponding PE.
        expected: String,
        /// The rank with which it is compared.
        other: usize,
        /// PE of the other rank.
        as_pe: PeRef,
    },
    /// A worker made a call that is for all ranks. Use the worker's own method.
    #[error(
        "rank {rank} called {call} for all ranks from inside its worker: use the worker's method, which waits for the other ranks"
    )]
    Inside {
        /// Rank of the worker.
        rank: usize,
        /// The call that it made.
        call: String,
    },
    /// A tensor is not on the device of its rank, or on none.
    #[error("{operation}: the tensor of rank {rank} is {what}")]
    Place {
        /// Name of the operation.
        operation: &'static str,
        /// Rank of the tensor.
        rank: usize,
        /// Description of the problem.
        what: String,
    },
    /// Ranks made different calls, or some made none.
    #[error("calls of ranks do not match: {0}")]
    Apart(String),
    /// An unknown reduction operator.
    #[error(transparent)]
    Op(#[from] NoSuchName),
    /// An error of the runtime or the machine.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

/// Lists items, separated by commas.
pub(super) fn listed<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn toward(call: &str) -> &'static str {
    if call == "send" { "send to" } else { "recv from" }
}

fn whole(each: usize) -> String {
    if each > 1 { format!(", and a multiple of {each}: all of a SIP") } else { String::new() }
}

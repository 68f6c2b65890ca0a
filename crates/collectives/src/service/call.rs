//! Calls of ranks that run elsewhere, and their answers.

use std::fmt;

use cubeyard_runtime::dtype::DType;
use cubeyard_sim::Time;

use super::{Exchange, ExchangeKind, ServiceError};
use crate::collective::Operation;
use crate::matching::{Match, MessageEnd};

/// Memory of a call: the bytes that a rank gives, and those that it gets. They may be the same bytes.
pub trait Memory: Send {
    /// Returns the input.
    fn input(&self) -> &[u8];

    /// Returns the output.
    fn output(&mut self) -> &mut [u8];

    /// Returns the size of the output in bytes.
    fn output_len(&self) -> usize;
}

/// One buffer, which is input and output.
impl Memory for Vec<u8> {
    fn input(&self) -> &[u8] {
        self
    }

    fn output(&mut self) -> &mut [u8] {
        self
    }

    fn output_len(&self) -> usize {
        self.len()
    }
}

/// The purpose of a call. Ranks are places in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Collective of all ranks of the group.
    Collective(Operation),
    /// Barrier of all ranks of the group.
    Barrier,
    /// A message to a rank, with a tag.
    Send(usize, i64),
    /// A message from a rank, or from any rank, with a tag.
    Receive(Option<usize>, i64),
}

/// A rank's call of a collective, or of one end of a message.
pub struct Call {
    /// Number by which the caller knows the answer.
    pub id: u64,
    /// Rank of the world that calls.
    pub rank: usize,
    /// Name of its process group.
    pub group: String,
    /// Ranks of the world in the group, in its order.
    pub members: Vec<usize>,
    /// Purpose of the call.
    pub action: Action,
    /// Element type of the memory.
    pub dtype: DType,
    /// Number of elements of a part, as in [`Exchange::count`].
    pub count: u64,
    /// Number of elements sent to each rank, and received from each, if an `all_to_all` may be uneven.
    pub splits: Option<[Vec<u64>; 2]>,
    /// Simulated time of the call.
    pub ready: Time,
    /// Real time in seconds until the others must have called.
    pub timeout: f64,
    /// Line of the call.
    pub at: String,
    /// Number of elements of the tensor, for messages to people.
    pub elements: u64,
    /// Input and output.
    pub memory: Box<dyn Memory>,
    /// Real time in seconds at which the call has waited for too long, once it is posted.
    pub deadline: f64,
}

/// The outcome of a call: its simulated interval, or an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Simulated time at which the call starts.
    pub start: Time,
    /// Simulated time at which the call ends.
    pub end: Time,
    /// Error of the world, if the call failed.
    pub error: Option<String>,
    /// Place of the sender of a message.
    pub source: Option<usize>,
}

impl Answer {
    pub(super) fn failed(error: &str) -> Self {
        Self { error: Some(error.to_owned()), ..Self::default() }
    }
}

impl Call {
    /// Makes a call in the group named `0`, of no elements and with a timeout of half an hour.
    pub fn new(rank: usize, members: Vec<usize>, action: Action, memory: Box<dyn Memory>) -> Self {
        Self {
            id: rank as u64,
            rank,
            group: "0".to_owned(),
            members,
            action,
            dtype: DType::U8,
            count: 0,
            splits: None,
            ready: Time::default(),
            timeout: 1800.0,
            at: String::new(),
            elements: 0,
            memory,
            deadline: 0.0,
        }
    }

    /// Returns whether the call is one end of a message.
    pub(super) fn is_message(&self) -> bool {
        self.end().is_some()
    }

    /// Returns the ranks for which the call waits.
    pub(super) fn needed(&self) -> Vec<usize> {
        match self.action {
            Action::Collective(_) | Action::Barrier => self.members.clone(),
            Action::Send(peer, _) | Action::Receive(Some(peer), _) => vec![self.members[peer]],
            Action::Receive(None, _) => Vec::new(),
        }
    }

    /// Returns the exchange of all ranks of a collective.
    pub(super) fn exchange(&self) -> Exchange {
        let kind = match self.action {
            Action::Collective(operation) => ExchangeKind::Collective(operation),
            Action::Barrier => ExchangeKind::Barrier,
            Action::Send(..) | Action::Receive(..) => ExchangeKind::Send,
        };
        Exchange { kind, ranks: self.members.clone(), dtype: self.dtype, count: self.count }
    }

    /// Checks that all places exist; returns the caller's own.
    pub(super) fn check(&self) -> Result<usize, ServiceError> {
        let size = self.members.len();
        let peer = match self.action {
            Action::Collective(operation) => operation.root(),
            Action::Barrier => None,
            Action::Send(peer, _) => Some(peer),
            Action::Receive(peer, _) => peer,
        };
        let malformed = |what: String| Err(ServiceError::Malformed(what));
        if let Some(peer) = peer.filter(|&peer| peer >= size) {
            return malformed(format!("rank {peer} of the group: expected a rank below {size}"));
        }
        if self.splits.iter().flatten().any(|splits| splits.len() != size) {
            return malformed(format!("splits: expected one part for each of {size} ranks"));
        }
        match self.members.iter().position(|&member| member == self.rank) {
            Some(place) => Ok(place),
            None => {
                malformed(format!("rank {}: expected a member of {:?}", self.rank, self.members))
            }
        }
    }
}

impl Match for Call {
    fn is_same(&self, other: &Self) -> bool {
        let kind = |call: &Self| (call.action, call.dtype, call.count, call.splits.is_some());
        kind(self) == kind(other) && self.members == other.members
    }

    fn end(&self) -> Option<MessageEnd> {
        match self.action {
            Action::Collective(_) | Action::Barrier => None,
            Action::Send(to, tag) => Some(MessageEnd { is_sender: true, peer: Some(to), tag }),
            Action::Receive(peer, tag) => Some(MessageEnd { is_sender: false, peer, tag }),
        }
    }
}

/// Writes the call with its type, size and line, e.g. `all_reduce sum f32[10] at train.py:7`.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tag = match self.action {
            Action::Send(to, tag) => {
                write!(f, "send to rank {}", self.members[to])?;
                tag
            }
            Action::Receive(from, tag) => {
                let from = from.map(|from| format!("rank {}", self.members[from]));
                write!(f, "recv from {}", from.as_deref().unwrap_or("any rank"))?;
                tag
            }
            Action::Collective(_) | Action::Barrier => {
                write!(f, "{}", self.exchange())?;
                0
            }
        };
        if tag != 0 {
            write!(f, ", tag {tag}")?;
        }
        if self.action != Action::Barrier {
            write!(f, " {}[{}]", self.dtype, self.elements)?;
        }
        // PyTorch names its first groups by a digit: the default group, most of the time.
        if self.group.chars().count() > 1 {
            write!(f, " of group {} {:?}", self.group, self.members)?;
        }
        write!(f, " at {}", self.at)
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({}: {self})", self.rank)
    }
}

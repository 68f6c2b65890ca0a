//! Collectives of programs that run elsewhere: in other processes, or on other threads.
//!
//! A [`Service`] takes the calls of ranks with their bytes, and answers each when all ranks concerned have called. Numbers
//! are computed in the order that the algorithm states; times are simulated, once for each [`Exchange`] ([`Fabric`]).
//!
//! Calls of a group follow each other: a call begins when all its ranks are ready and the previous call has ended. The same
//! holds for messages from one rank to another with the same tag. Groups and tags do not wait for each other, and calls that
//! overlap do not slow each other. So the order in which calls arrive changes no result and no time, except that a receiver
//! of any sender takes the message that arrives first. The first fault ends the world: every pending call fails, and so
//! does every later one.
//!
//! ```
//! use cubeyard_collectives::collective::{Operation, ReduceOp};
//! use cubeyard_collectives::distributed::CclConfig;
//! use cubeyard_collectives::service::{Action, Call, Fabric, Service};
//! use cubeyard_runtime::dtype::{DType, Element};
//! use cubeyard_runtime::{Context, ContextConfig};
//!
//! let fabric = Fabric::new(&Context::new(ContextConfig::default()), CclConfig::embedded())?;
//! let mut service = Service::new(fabric, 2);
//! let mut answered = Vec::new();
//! for rank in 0..2 {
//!     let action = Action::Collective(Operation::AllReduce(ReduceOp::Sum));
//!     let memory = Box::new(f32::slice_to_bytes(&[1.0, 2.0]));
//!     let call = Call { dtype: DType::F32, count: 2, ..Call::new(rank, vec![0, 1], action, memory) };
//!     service.post(call, 0.0, &|_| (), &mut answered)?;
//! }
//! assert_eq!(answered.len(), 2);
//! assert_eq!(service.records()[0].bytes, 8);
//! # Ok::<(), cubeyard_collectives::service::ServiceError>(())
//! ```

mod call;
mod exchange;
mod fabric;
mod movement;
mod record;

pub use call::{Action, Answer, Call, Memory};
pub use exchange::{Exchange, ExchangeKind};
pub use fabric::{Fabric, Timing};
pub use record::Record;

use std::collections::BTreeMap;

use cubeyard_sim::Time;
use thiserror::Error;

use crate::distributed::DistError;
use crate::matching::{Match as _, Matcher, Waiting};

/// The error of a call. The service fails all calls with its text, or refuses a malformed call alone.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// A call that no front makes. It has no effect.
    #[error("a malformed call: {0}")]
    Malformed(String),
    /// The machine cannot perform the operation.
    #[error(transparent)]
    Machine(#[from] DistError),
    /// Two ranks disagree about the part of an `all_to_all` between them.
    #[error(
        "all_to_all: rank {sender} sends {sent} elements to rank {receiver}, which expects {expected}"
    )]
    Uneven {
        /// Rank that sends the part.
        sender: usize,
        /// Number of elements that it sends.
        sent: u64,
        /// Rank that receives the part.
        receiver: usize,
        /// Number of elements that it expects.
        expected: u64,
    },
    /// A rank's memory has another size than its call needs.
    #[error("{call}: rank {rank} has {found} bytes of {side}: expected {expected}")]
    Memory {
        /// Name of the operation.
        call: String,
        /// Rank of the caller.
        rank: usize,
        /// `input` or `output`.
        side: &'static str,
        /// Number of bytes given.
        found: usize,
        /// Number of bytes that the operation needs.
        expected: u64,
    },
}

/// Sender and receiver of messages, and their tag.
type Message = ([usize; 2], i64);

/// A call's number and its outcome.
pub type Answered = (u64, Answer);

/// Matches the calls of a world's ranks, performs them, and keeps their times.
#[derive(Debug)]
pub struct Service {
    fabric: Fabric,
    /// Number of ranks.
    size: usize,
    calls: Matcher<String, Call>,
    /// End of the last collective of a group, and of the last message between two of its ranks with the same tag.
    ends: BTreeMap<(String, Option<Message>), Time>,
    /// The last call of each rank.
    last: BTreeMap<usize, String>,
    /// Ranks that make no further calls, with the reason.
    gone: BTreeMap<usize, String>,
    fault: Option<String>,
    /// Exchanges that were performed, sorted by [`Record::order`].
    records: Vec<Record>,
}

impl Service {
    /// Makes the service of a world of `size` ranks.
    pub fn new(fabric: Fabric, size: usize) -> Self {
        let (calls, ends, records) = (Matcher::default(), BTreeMap::new(), Vec::new());
        let (last, gone) = (BTreeMap::new(), BTreeMap::new());
        Self { fabric, size, calls, ends, last, gone, fault: None, records }
    }

    /// Returns the collectives that were performed, by their start. Of those that start together, the ranks come first, then
    /// the operation: the order in which calls arrived does not matter.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Takes a call of a rank, performs what matches, and appends the answers of all calls that are done.
    ///
    /// `now` is the real time in seconds, for the timeout of the call. `notice` is called with `true` before a
    /// simulation, which may take long, and with `false` after it.
    ///
    /// On an error of the machine all calls wait as before: [`fail`](Self::fail) ends them.
    pub fn post(
        &mut self,
        mut call: Call,
        now: f64,
        notice: &dyn Fn(bool),
        done: &mut Vec<Answered>,
    ) -> Result<(), ServiceError> {
        let place = call.check()?;
        if let Some(fault) = &self.fault {
            done.push((call.id, Answer::failed(fault)));
            return Ok(());
        }
        call.deadline = now + call.timeout;
        self.last.insert(call.rank, call.to_string());
        let (group, size) = (call.group.clone(), call.members.len());
        self.calls.post(group.clone(), size, place, call);
        loop {
            if let Some((one, other)) = self.calls.mismatch(&group) {
                let pair = format!("rank {} and rank {}", one.rank, other.rank);
                done.extend(self.fail(&format!("calls of ranks do not match: {pair}")));
                return Ok(());
            }
            let Some((group, mut calls)) = self.calls.next() else { break };
            match self.perform(&mut calls, notice) {
                Ok(Some(answer)) => done.extend(answers(&calls, &answer)),
                Ok(None) => {
                    self.calls.put_back(group, calls);
                    done.extend(self.fail("the ends of a message do not match"));
                    return Ok(());
                }
                Err(error) => {
                    self.calls.put_back(group, calls);
                    return Err(error);
                }
            }
        }
        done.extend(self.fail_if_gone());
        Ok(())
    }

    /// Notes that a rank makes no further calls; fails if a call waits for it.
    pub fn leave(&mut self, rank: usize) -> Vec<Answered> {
        self.gone.insert(rank, "has left its process group".to_owned());
        self.fail_if_gone()
    }

    /// Notes that a rank has ended without leaving: all calls fail.
    pub fn lose(&mut self, rank: usize, why: &str) -> Vec<Answered> {
        if self.gone.contains_key(&rank) {
            return Vec::new();
        }
        self.gone.insert(rank, why.to_owned());
        self.fail(&format!("rank {rank} {why}"))
    }

    /// Fails if a call has waited for too long at a real time in seconds.
    pub fn expire(&mut self, now: f64) -> Vec<Answered> {
        let waiting = self.calls.waiting();
        let late = waiting.iter().map(|(_, of)| &of.call).find(|call| call.deadline <= now);
        match late.map(|call| format!("rank {} has waited for {} s", call.rank, call.timeout)) {
            Some(what) => self.fail(&what),
            None => Vec::new(),
        }
    }

    /// Returns the real time in seconds at which the first waiting call has waited for too long.
    pub fn next_deadline(&self) -> Option<f64> {
        self.calls.waiting().iter().map(|(_, of)| of.call.deadline).min_by(f64::total_cmp)
    }

    /// Ends the world: fails all calls that wait, and every later one.
    pub fn fail(&mut self, what: &str) -> Vec<Answered> {
        let positions = self.positions();
        let fault = self.fault.get_or_insert_with(|| format!("{what}. {positions}"));
        let failed = self.calls.take().into_iter();
        failed.map(|call| (call.id, Answer::failed(fault))).collect()
    }

    /// Describes what each rank does.
    fn positions(&self) -> String {
        let waiting = self.calls.waiting();
        let position = |rank: usize| {
            if let Some((_, of)) = waiting.iter().find(|(_, of)| of.call.rank == rank) {
                format!("rank {rank} waits in {}", of.call)
            } else if let Some(why) = self.gone.get(&rank) {
                format!("rank {rank} {why}")
            } else if let Some(last) = self.last.get(&rank) {
                format!("rank {rank} has not called; its last call was {last}")
            } else {
                format!("rank {rank} has not called anything")
            }
        };
        (0..self.size).map(position).collect::<Vec<_>>().join("; ")
    }

    fn fail_if_gone(&mut self) -> Vec<Answered> {
        let missing = self.calls.waiting().into_iter().find_map(|(_, of)| {
            let mut needed = of.call.needed().into_iter();
            let (rank, why) = needed.find_map(|rank| self.gone.get_key_value(&rank))?;
            Some(format!("rank {rank}, for which rank {} waits, {why}", of.call.rank))
        });
        missing.map_or_else(Vec::new, |what| self.fail(&what))
    }

    /// Performs calls that match; `None` if they are ends of a message that differ in size or type.
    fn perform(
        &mut self,
        calls: &mut [Waiting<Call>],
        notice: &dyn Fn(bool),
    ) -> Result<Option<Answer>, ServiceError> {
        if calls[0].call.is_message() && !movement::send(calls) {
            return Ok(None);
        }
        let exchange = movement::exchange(calls)?;
        let is_known = self.fabric.is_known(&exchange);
        if !is_known {
            notice(true);
        }
        let timing = self.combine_or_move(&exchange, calls);
        if !is_known {
            notice(false);
        }
        Ok(Some(self.record(&exchange, timing?, calls)))
    }

    fn combine_or_move(
        &mut self,
        exchange: &Exchange,
        calls: &mut [Waiting<Call>],
    ) -> Result<Timing, ServiceError> {
        if let Some((operation, op)) = exchange.reduction() {
            let inputs: Vec<_> = calls.iter().map(|of| of.call.memory.input()).collect();
            let (timing, outputs) = self.fabric.reduce(exchange, op, &inputs)?;
            movement::give(operation, calls, &outputs);
            return Ok(timing);
        }
        let timing = self.fabric.timing(exchange)?;
        movement::relocate(exchange, calls);
        Ok(timing)
    }

    /// Places an exchange in time, after earlier ones of its group, or of its pair and tag, and records it.
    fn record(&mut self, exchange: &Exchange, timing: Timing, calls: &[Waiting<Call>]) -> Answer {
        let first = &calls[0].call;
        let message = first.end().map(|end| ([first.rank, calls[1].call.rank], end.tag));
        let end = self.ends.entry((first.group.clone(), message)).or_default();
        let start = calls.iter().map(|of| of.call.ready).fold(*end, Time::max);
        *end = start + timing.duration;
        let answer =
            Answer { start, end: *end, error: None, source: message.map(|_| calls[0].place) };
        // A message of a rank to itself does not use the machine.
        if message.is_none_or(|([from, to], _)| from != to) {
            let (group, at) = (first.group.clone(), first.at.clone());
            let record = Record::new(exchange, timing, start, group, at);
            let place = self.records.partition_point(|other| other.order() <= record.order());
            self.records.insert(place, record);
        }
        answer
    }
}

fn answers(calls: &[Waiting<Call>], answer: &Answer) -> Vec<Answered> {
    calls.iter().map(|of| (of.call.id, answer.clone())).collect()
}

//! Freed blocks that other streams may still use.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Work;
use crate::trace::{Allocate, Event, Lag, Trace, TraceId};
use cubeyard_memory::flex::{EventId, StreamEvents as _};

/// Streams that use the shared blocks of a trace under a stated lag.
///
/// A trace does not name the streams that use a block besides its own, so all others count. As recorded there are none:
/// shared blocks are freed when their streams have passed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users {
    shared: BTreeSet<TraceId>,
    streams: BTreeSet<u32>,
}

impl Users {
    pub(crate) fn of(trace: &Trace) -> Self {
        let streams = trace.streams();
        if trace.lag == Lag::Recorded || streams.len() < 2 {
            return Self::default();
        }
        Self { shared: trace.shared.iter().map(|free| free.id).collect(), streams }
    }

    /// Returns the streams other than `own` that use an allocation.
    pub(crate) fn others(&self, id: TraceId, own: u32) -> impl Iterator<Item = u32> {
        let streams = self.shared.contains(&id).then_some(&self.streams);
        streams.into_iter().flatten().copied().filter(move |&stream| stream != own)
    }
}

/// Freed blocks that are held back until the other streams that use them have passed, as in PyTorch.
#[derive(Debug)]
pub(crate) struct HeldBack {
    work: Arc<Work>,
    users: Users,
    /// Other streams that use a live block, by token.
    live: BTreeMap<u64, Vec<u32>>,
    /// Freed blocks with the events that each waits for, in the order of their frees.
    freed: Vec<(u64, Vec<EventId>)>,
}

impl HeldBack {
    /// Returns `None` if no block of the trace is ever held back.
    pub(crate) fn of(trace: &Trace) -> Option<Self> {
        let users = Users::of(trace);
        let (live, freed) = (BTreeMap::new(), Vec::new());
        (!users.shared.is_empty()).then(|| Self { work: Work::of(trace), users, live, freed })
    }

    /// Begins a request, and returns the tokens of freed blocks whose streams have passed.
    pub(crate) fn begin(&mut self) -> Vec<u64> {
        let Self { work, freed, .. } = self;
        work.begin();
        let passed = |(_, events): &mut (_, Vec<EventId>)| {
            events.iter().all(|&event| work.is_complete(event))
        };
        freed.extract_if(.., passed).map(|(token, _)| token).collect()
    }

    /// Notes the block that serves a request, and its launch.
    pub(crate) fn placed(&mut self, request: &Allocate, token: u64) {
        let others: Vec<_> = self.users.others(request.id, request.stream).collect();
        if !others.is_empty() {
            self.live.insert(token, others);
        }
        self.work.launch(request.stream);
    }

    /// Frees a block, and returns whether it is held back.
    pub(crate) fn free(&mut self, token: u64) -> bool {
        let Some(others) = self.live.remove(&token) else { return false };
        let events = others.into_iter().map(|stream| self.work.record(stream)).collect();
        self.freed.push((token, events));
        true
    }

    /// Waits for the streams of all freed blocks, and returns their tokens.
    pub(crate) fn wait(&mut self) -> Vec<u64> {
        let freed = std::mem::take(&mut self.freed);
        // Later events first: each stream is waited for once.
        let events = freed.iter().rev().flat_map(|(_, events)| events);
        events.for_each(|&event| self.work.wait(event));
        freed.into_iter().map(|(token, _)| token).collect()
    }

    pub(crate) fn waits(&self) -> u64 {
        self.work.waits()
    }
}

/// Returns the trace with each free where the block can be reused by its own stream, if nothing is waited for.
pub(crate) fn completed(trace: &Trace) -> Cow<'_, Trace> {
    let Some(mut held) = HeldBack::of(trace) else { return Cow::Borrowed(trace) };
    let mut events = Vec::with_capacity(trace.events.len());
    for event in &trace.events {
        match event {
            Event::Allocate(request) if !request.size.is_zero() => {
                let (passed, time_us) = (held.begin(), request.time_us);
                events.extend(passed.into_iter().map(|token| freed(token, time_us)));
                held.placed(request, u64::from(request.id.0));
                events.push(*event);
            }
            Event::Free { id, .. } if held.free(u64::from(id.0)) => {}
            _ => events.push(*event),
        }
    }
    Cow::Owned(Trace { events, ..trace.clone() })
}

fn freed(token: u64, time_us: u64) -> Event {
    let id = TraceId(u32::try_from(token).expect("the token is the number of an allocation"));
    Event::Free { id, time_us }
}

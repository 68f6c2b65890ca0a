//! The DMA engines.

use std::cell::Cell;
use std::rc::Rc;

use cubeyard_sim::{Context, Time};

use super::latest::Latest;
use super::progress::RecordedTime;
use super::{COMPUTE, LOAD, Run, STORE, State};
use crate::message::{Buffer, Done, Message, PeDmaMessage, Slice, Unwritten, VirtualAccess};
use crate::pe::packed::Packed;
use crate::pe::{CommandId, CommandPart, Dma, OpCause, OpUnit, Work};

/// DMA engines of one direction, read or write.
#[derive(Debug, Default)]
pub(super) struct DmaUnit {
    pub(super) under_way: Vec<Flight>,
    /// End of the most recently completed access.
    last: RecordedTime,
    /// Start of the most recently begun access, and the record that it waited for.
    begun: RecordedTime,
}

#[derive(Debug)]
pub(super) struct Flight {
    command: CommandId,
    index: u32,
    bytes: u64,
    from: Latest,
    start: Time,
    buffer: Option<Buffer>,
    unwritten: Option<Unwritten>,
}

impl Run {
    /// Begins the accesses that can begin now, and sets an alarm for the next one.
    pub(super) fn dma(&mut self, kind: usize, engines: u32, context: &mut Context<Message>) {
        let unit = usize::from(kind == STORE);
        while let Some(id) = self.front(kind) {
            if self.dma[unit].under_way.len() >= engines as usize {
                break;
            }
            let index = self.slot(id).next(kind);
            let ready = match self.access_ready(id, kind, index) {
                Ok(ready) => ready,
                Err(before) => return self.due.wait(kind, before),
            };
            if ready.time > context.now() {
                self.set_alarm(kind, ready.time, context);
                break;
            }
            let dma = self.access(id, kind, index);
            if self.slot_mut(id).begin(kind, index + 1) {
                self.leave(kind);
            }
            let buffer = match self.buffer(id, kind, index, &dma) {
                Ok(buffer) => buffer,
                Err(what) => {
                    return self.fail(what);
                }
            };
            self.begin(id, kind, index, ready, &dma, buffer, context);
        }
    }

    /// Returns the earliest time at which an access can begin, or the command that it waits for, which may be its own.
    fn access_ready(&self, id: CommandId, kind: usize, index: u32) -> Result<Latest, CommandId> {
        let Some(pipelined) = &self.slot(id).pipelined else { return self.ready(id) };
        let (pipeline, is_load) = (self.pipeline(id), kind == LOAD);
        let mark = if is_load {
            pipelined.fetched.until(pipeline.load_after(index))
        } else {
            pipelined.parts[COMPUTE].until(pipeline.store_after(index))
        };
        let mark = mark.ok_or(id)?;
        let ready = if is_load { self.ready_whole(id) } else { self.ready(id) };
        Ok(ready?.or(mark.time, OpCause::Part, mark.record))
    }

    fn access(&self, id: CommandId, kind: usize, index: u32) -> Dma {
        match (self.packed(id), self.long(id)) {
            (Packed::Dma { direction, address, bytes, .. }, _) => {
                Dma { direction, address, bytes, rows: None }
            }
            (_, Some(Work::Dma(dma))) => *dma,
            (_, Some(Work::Pipeline(pipeline))) if kind == LOAD => pipeline.load(index),
            (_, Some(Work::Pipeline(pipeline))) => pipeline.store(index),
            _ => unreachable!("only accesses are queued"),
        }
    }

    /// Returns the buffer of an access in data mode, or the program's error.
    fn buffer(
        &mut self,
        id: CommandId,
        kind: usize,
        index: u32,
        dma: &Dma,
    ) -> Result<Option<Buffer>, String> {
        if !self.has_data {
            return Ok(None);
        }
        let bytes = if kind == LOAD {
            vec![0; usize::try_from(dma.bytes).expect("it fits memory")]
        } else {
            self.program.payload(id, index)?
        };
        Ok(Some(Buffer::new(bytes.into())))
    }

    #[expect(clippy::too_many_arguments, reason = "all of an access, in one place")]
    fn begin(
        &mut self,
        command: CommandId,
        kind: usize,
        index: u32,
        ready: Latest,
        dma: &Dma,
        buffer: Option<Buffer>,
        context: &mut Context<Message>,
    ) {
        let now = context.now();
        let unit = usize::from(kind == STORE);
        let from = if ready.time < now { self.dma[unit].held_up(now) } else { ready };
        self.dma[unit].begun = from.mark();
        let unwritten = (kind == LOAD && buffer.is_some()).then(|| Rc::new(Cell::new(None)));
        let data = buffer.as_ref().map(|buffer| Slice {
            buffer: Rc::clone(buffer),
            offset: 0,
            unwritten: unwritten.clone(),
        });
        let access = VirtualAccess {
            request: self.request,
            dma: *dma,
            data,
            done: Done::Core(self.node, token(command, unit, index)),
        };
        let bytes = dma.bytes;
        let flight = Flight { command, index, bytes, from, start: now, buffer, unwritten };
        self.dma[unit].under_way.push(flight);
        context.call(self.dma_node, PeDmaMessage::Access(Box::new(access)).into());
    }

    pub(super) fn dma_done(&mut self, wanted: u64, well: bool, now: Time) {
        let unit = usize::from(wanted & STORE_BIT != 0);
        let under_way = &mut self.dma[unit].under_way;
        let its = |flight: &Flight| token(flight.command, unit, flight.index) == wanted;
        let place = under_way.iter().position(its).expect("it is under way");
        let flight = under_way.remove(place);
        let op = [OpUnit::Load, OpUnit::Store][unit];
        self.report.busy[op as usize] += now - flight.start;
        self.report.moved[unit] += flight.bytes;
        let kind = [LOAD, STORE][unit];
        self.due.add(kind);
        let (id, index) = (flight.command, flight.index);
        let part = if unit == 0 { CommandPart::Load(index) } else { CommandPart::Store(index) };
        let record = self.record(id, part, op, flight.from, flight.start, now);
        self.dma[unit].last = RecordedTime { time: now, record };
        if !well {
            if !matches!(self.state, State::Failed) {
                let (topology, command) =
                    (self.shared.wiring.topology(), self.program.describe(id));
                let is_here = |node| topology.pe_of(node) == topology.pe_of(self.node);
                self.shared.failures.locate(self.request, is_here, &command);
            }
            self.abort();
        }
        if unit == 0
            && let Some(buffer) = flight.buffer
        {
            let unwritten = flight.unwritten.and_then(|unwritten| unwritten.get());
            let loaded = self.program.loaded(id, index, buffer.take(), unwritten);
            self.check(loaded);
        }
        self.part_done(id, kind, index, Latest::new(now, OpCause::Part, record));
    }
}

impl DmaUnit {
    /// Returns the cause of the delay of an access that could have begun earlier. The engines serve accesses in order,
    /// so it is the cause of the previous access's delay, or the end of an access that occupied an engine.
    fn held_up(&self, now: Time) -> Latest {
        let by = if self.begun.time == now { self.begun } else { self.last };
        Latest::new(now, OpCause::Unit, by.record)
    }
}

const STORE_BIT: u64 = 1 << 63;

/// Returns the number of an access in flight, which contains its command and direction.
fn token(command: CommandId, unit: usize, index: u32) -> u64 {
    u64::from(command) << 31 | u64::from(index) | if unit == 1 { STORE_BIT } else { 0 }
}

/// Returns the command of an access, given its token.
pub(crate) fn command_of(token: u64) -> CommandId {
    CommandId::try_from((token & !STORE_BIT) >> 31).expect("made from a command")
}

//! A memory whose channels serve bursts in turn: an HBM controller, or an SRAM with one channel.

mod bursts;
mod channels;
mod rows;
mod spec;

pub use bursts::Burst;
pub use channels::MemoryChannels;
pub use spec::{ChannelsSpec, RefreshSpec, RowsSpec};

use std::collections::BTreeMap;

use cubeyard_sim::{Asks, Context, Flit, Route, Time, TransferSpec};

use crate::contents::Contents;
use crate::message::{Access, Direction, Done, Message, RequesterMessage, Rows, Slice};

/// Memory at a node.
#[derive(Clone, Debug)]
pub struct Memory {
    channels: MemoryChannels,
    flit_bytes: u64,
    /// Accesses whose last burst has not ended, by alarm: posted writes, and in data mode all accesses.
    ending: BTreeMap<u64, Ending>,
    alarms: u64,
    /// All bursts so far, if recording is on.
    record: Option<Vec<Burst>>,
    contents: Option<Contents>,
}

/// Actions at the end of the last burst of an access.
#[derive(Clone, Debug)]
struct Ending {
    direction: Direction,
    address: u64,
    bytes: u64,
    rows: Option<Rows>,
    data: Option<Slice>,
    done: Option<Done>,
}

impl Memory {
    /// Creates a memory whose flits consist of whole bursts.
    pub fn new(spec: ChannelsSpec, flit_bytes: u64) -> Self {
        Self {
            channels: MemoryChannels::new(spec),
            flit_bytes,
            ending: BTreeMap::new(),
            alarms: 0,
            record: None,
            contents: None,
        }
    }

    /// Starts recording every burst, for [`bursts`](Self::bursts).
    pub fn keep_bursts(&mut self) {
        self.record.get_or_insert_default();
    }

    /// Returns the recorded bursts, in the order of their requests.
    pub fn bursts(&self) -> &[Burst] {
        self.record.as_deref().unwrap_or_default()
    }

    /// Starts to store data.
    pub fn keep_contents(&mut self) {
        self.contents.get_or_insert_default();
    }

    /// Returns the contents, in data mode.
    pub fn contents(&self) -> Option<&Contents> {
        self.contents.as_ref()
    }

    pub(crate) fn contents_mut(&mut self) -> Option<&mut Contents> {
        self.contents.as_mut()
    }

    /// Returns the channels.
    pub fn channels(&self) -> &MemoryChannels {
        &self.channels
    }

    /// Sends the data of a read back in order, each flit when its bursts have ended.
    fn read(&mut self, access: Box<Access>, context: &mut Context<Message>) {
        let flits = access.bytes.div_ceil(self.flit_bytes);
        let mut ends = Vec::with_capacity(usize::try_from(flits).expect("checked by the machine"));
        for flit in 0..flits {
            let bytes = self.flit_bytes.min(access.bytes - flit * self.flit_bytes);
            let end = self.take_bursts(&access, flit, bytes, context.now());
            ends.push(end.max(ends.last().copied().unwrap_or_default()));
        }
        self.end_at(ends.last().copied().unwrap_or_default(), &access, None, context);
        let route = access.back.clone().expect("a read is answered");
        let bytes = access.bytes;
        answer(access, route, bytes, Asks::Each(ends), context);
    }

    /// Acknowledges or completes a write after its last burst has ended. All its flits have arrived.
    fn written(&mut self, access: Box<Access>, context: &mut Context<Message>) {
        let end = access.written.get();
        let posted = access.back.is_none().then_some(access.done);
        self.end_at(end, &access, posted, context);
        if let Some(route) = access.back.clone() {
            answer(access, route, 0, Asks::At(end), context);
        }
    }

    /// Sets an alarm for the end of an access, if it must move data or report a completion.
    fn end_at(
        &mut self,
        end: Time,
        access: &Access,
        done: Option<Done>,
        context: &mut Context<Message>,
    ) {
        let data = access.data.clone().filter(|_| self.contents.is_some());
        if done.is_none() && data.is_none() {
            return;
        }
        let Access { direction, address, bytes, rows, .. } = *access;
        let ending = Ending { direction, address, bytes, rows, data, done };
        self.ending.insert(self.alarms, ending);
        context.wake_after(end - context.now(), self.alarms);
        self.alarms += 1;
    }
}

/// Sends the data of a read, or the acknowledgement of a write.
fn answer(
    access: Box<Access>,
    route: Route,
    bytes: u64,
    asks: Asks,
    context: &mut Context<Message>,
) {
    let message = RequesterMessage::Answer(access).into();
    context.send(TransferSpec { route, bytes, asks, message });
}

fn move_data(contents: &mut Contents, ending: &Ending) {
    let Some(Slice { buffer, offset, unwritten }) = &ending.data else { return };
    let mut buffer = buffer.borrow_mut();
    let rows = ending.rows.unwrap_or(Rows { bytes: ending.bytes, pitch: 0 });
    let mut from = *offset;
    for (place, bytes) in rows.segments(0, ending.bytes) {
        let address = ending.address + place;
        let part = &mut buffer[from..from + usize::try_from(bytes).expect("it fits the buffer")];
        from += part.len();
        match ending.direction {
            Direction::Write => contents.write(address, part),
            Direction::Read => {
                part.copy_from_slice(&contents.read(address, part.len()));
                if let Some(unwritten) = unwritten.as_ref().filter(|cell| cell.get().is_none()) {
                    unwritten.set(contents.unwritten(address, bytes));
                }
            }
        }
    }
}

impl Memory {
    /// Accepts one flit of a write.
    #[inline]
    pub fn flit(&mut self, flit: Flit, access: &Access) {
        if access.direction == Direction::Write {
            let end = self.take_bursts(access, flit.index, flit.bytes, flit.at);
            access.written.set(end.max(access.written.get()));
        }
    }

    /// Serves an access whose last flit has arrived.
    pub fn handle(&mut self, access: Box<Access>, context: &mut Context<Message>) {
        match access.direction {
            Direction::Read => self.read(access, context),
            Direction::Write => self.written(access, context),
        }
    }

    /// Finishes the access whose alarm is due.
    pub fn wake(&mut self, token: u64, context: &mut Context<Message>) {
        let ending = self.ending.remove(&token).expect("an alarm for each access");
        if let Some(contents) = &mut self.contents {
            move_data(contents, &ending);
        }
        if let Some(done) = ending.done {
            done.tell(true, context);
        }
    }
}

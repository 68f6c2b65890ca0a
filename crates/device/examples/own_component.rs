//! A custom memory controller in the default machine, without a change to the library.
//!
//! ```sh
//! cargo run --release -p cubeyard-device --example own_component
//! ```
//!
//! The controller has one port and takes the same time for every access, whatever its size. This suits a memory of which
//! only the latency is known. It holds no data; a controller with data copies from and to `access.data`.

use std::collections::VecDeque;
use std::io::Write;

use cubeyard_device::machine::{Machine, MachineBuilder};
use cubeyard_device::message::{Access, Direction, Message, RequesterMessage};
use cubeyard_device::request::{Request, RequestError};
use cubeyard_device::topology::Topology;
use cubeyard_sim::{Asks, Component, Context, Delivery, Span, Stop, Time, TransferSpec};

/// A memory that serves one access at a time, each in `latency`, in the order of arrival.
///
/// A component owns its parameters (`latency`) and its state (the other fields), and takes the time as an argument. So
/// two runs are identical.
#[derive(Debug)]
pub(crate) struct OnePort {
    latency: Span,
    /// Time at which the port has served all accesses so far.
    free: Time,
    /// The posted writes under way, which end in the order of arrival.
    posted: VecDeque<Access>,
}

impl OnePort {
    pub(crate) fn new(latency: Span) -> Self {
        Self { latency, free: Time::ZERO, posted: VecDeque::new() }
    }

    /// Occupies the port for one access; returns the end of the access.
    fn serve(&mut self, now: Time) -> Time {
        self.free = now.max(self.free) + self.latency;
        self.free
    }
}

impl Component for OnePort {
    /// Components of a machine exchange [`Message`]s. Custom components may send `Message::Custom` to each other, which
    /// carries any value.
    type Message = Message;

    /// Called when the last flit of a transfer has arrived: the command of a read, or a write with all its data. (A
    /// component that returns true from `wants_flits` gets each flit in `flit`.)
    ///
    /// An answer goes over `access.back`. All its flits request the first link when the port is done; the fabric does the
    /// rest. A write of the host is posted and gets no answer over the fabric, so an alarm is set instead.
    fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
        let Message::Memory(access) = delivery.message else {
            unreachable!("a memory is sent accesses")
        };
        let done = self.serve(context.now());
        if let Some(route) = access.back.clone() {
            let bytes = if access.direction == Direction::Read { access.bytes } else { 0 };
            context.send(TransferSpec {
                route,
                bytes,
                asks: Asks::At(done),
                message: RequesterMessage::Answer(access).into(),
            });
        } else {
            self.posted.push_back(*access);
            context.wake_after(done - context.now(), 0);
        }
    }

    /// Called when an alarm is due, with its number (here always 0, because alarms come in order). Raising `access.done`
    /// completes a request; a request with an answer is completed by the requester.
    fn wake(&mut self, _: u64, context: &mut Context<Message>) {
        let access = self.posted.pop_front().expect("an alarm for each posted write");
        access.done.tell(true, context);
    }

    /// Called when no event is left; returns a line for the report of a deadlock.
    fn waits_for(&self) -> Option<String> {
        (!self.posted.is_empty()).then(|| format!("{} posted writes", self.posted.len()))
    }
}

/// Returns the default machine with a memory of 100 ns in place of the controller of PE 0's slice.
pub(crate) fn with_one_port() -> Result<Machine, RequestError> {
    let memory = OnePort::new(Span::from_ps(100_000));
    let builder = MachineBuilder::new(Topology::embedded());
    Ok(builder.replace("sip0.cube0.hbm_ctrl.pe0", memory)?.build())
}

/// Returns a read of 16 KiB from PE 0's slice.
pub(crate) fn read(machine: &Machine, from: &str) -> Result<Request, RequestError> {
    let from = machine.view().pe(from)?;
    let address = machine.view().hbm_address(machine.view().pe("sip0.cube0.pe0")?, 0)?;
    Ok(Request::PeDma { from, direction: Direction::Read, address, bytes: 16 << 10 })
}

/// Returns the latencies of such reads, all submitted at the same time.
pub(crate) fn latencies(mut machine: Machine, readers: &[&str]) -> Result<Vec<Span>, RequestError> {
    let mut requests = Vec::new();
    for reader in readers {
        requests.push(machine.submit(read(&machine, reader)?)?);
    }
    assert_eq!(machine.run(), Stop::Idle, "every memory answers");
    let completion = |request| machine.completion(request).expect("idle means done");
    Ok(requests.into_iter().map(|request| completion(request).latency()).collect())
}

/// Prints the latencies of both machines side by side.
pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    writeln!(out, "readers of 16 KiB from sip0.cube0.pe0.hbm       ours    one port")?;
    for readers in [&["sip0.cube0.pe1"][..], &["sip0.cube0.pe1", "sip0.cube0.pe2"]] {
        let ours = latencies(Machine::new(Topology::embedded()), readers)?;
        let theirs = latencies(with_one_port()?, readers)?;
        writeln!(out, "{} at once", readers.len())?;
        for ((reader, ours), theirs) in readers.iter().zip(ours).zip(theirs) {
            writeln!(out, "  {reader:<38} {:>8.2} ns {:>8.2} ns", ours.ns(), theirs.ns())?;
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(&mut std::io::stdout().lock())
}

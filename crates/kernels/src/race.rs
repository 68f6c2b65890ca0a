//! Races between kernels, in words.

use std::collections::BTreeMap;

use cubeyard_device::machine::Machine;
use cubeyard_device::message::{Direction, RequestId};
use cubeyard_device::race::{Agent, Race};
use cubeyard_device::request::PeRef;

use crate::program::{Finding, Recording};
use crate::tl::place;

/// What each PE of a launch ran.
type Ran = BTreeMap<(RequestId, PeRef), Recording>;

/// A race, with what the machine calls its parts.
#[derive(Debug)]
pub(crate) struct RaceText {
    race: Race,
    memory: String,
    /// Who came first, and second.
    pes: [Option<PeRef>; 2],
}

impl RaceText {
    pub(crate) fn new(race: Race, machine: &Machine) -> Self {
        let memory = machine.topology().node(race.memory).name.clone();
        let pes = [race.earlier, race.later].map(|agent| machine.pe_of(agent.pe));
        Self { race, memory, pes }
    }

    /// What is to be said of it; nothing if another launcher ran one of the two.
    pub(crate) fn finding(&self, ran: &Ran) -> Option<Finding> {
        let Race { range, earlier, later, .. } = &self.race;
        let [first, second] = self.pes;
        let other = Side::new(*earlier, first?, ran)?;
        let one = Side::new(*later, second?, ran)?;
        let (from, last, memory) = (range.start, range.end - 1, &self.memory);
        let what = format!(
            "{} {} bytes {from:#x} to {last:#x} of {memory}, which {} on {}, {}: {} {}, with no order \
             between the two",
            one.what, one.verb, other.kernel, other.pe, other.place, other.what, other.verb,
        );
        Some(Finding { kernel: one.kernel, pe: one.pe, place: one.place, what })
    }
}

/// One of the two.
struct Side {
    kernel: String,
    pe: PeRef,
    place: String,
    /// As in `store f32[64]`.
    what: String,
    verb: &'static str,
}

impl Side {
    fn new(agent: Agent, pe: PeRef, ran: &Ran) -> Option<Self> {
        let state = &ran.get(&(agent.launch, pe))?.state;
        let tape = state.tape.borrow();
        let order = tape.order(agent.command);
        let verb = match agent.direction {
            Direction::Read => "reads",
            Direction::Write => "writes",
        };
        let (kernel, place) = (state.kernel.to_string(), place(order.place));
        Some(Self { kernel, pe, place, what: order.effect.to_string(), verb })
    }
}

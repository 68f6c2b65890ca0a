//! Findings of the machine about kernels, as text: races, stray accesses, messages that were not received.

use std::fmt;

use cubeyard_device::machine::Machine;
use cubeyard_device::message::Direction;
use cubeyard_device::notice::{Notice, Noticed};
use cubeyard_device::race::{Agent, Race};
use cubeyard_device::request::PeRef;

use crate::program::{Finding, Ran};

/// A race, with the names of its memory and PEs.
#[derive(Debug)]
pub(crate) struct RaceText {
    race: Race,
    memory: String,
    /// The PEs of the earlier and the later access; `None` is the host.
    pes: [Option<PeRef>; 2],
}

impl RaceText {
    pub(crate) fn new(race: Race, machine: &Machine) -> Self {
        let memory = machine.topology().node(race.memory).name.clone();
        let pes = [race.earlier, race.later]
            .map(|agent| agent.pe.and_then(|pe| machine.topology().pe_of(pe)));
        Self { race, memory, pes }
    }

    /// Returns the finding; `None` if another launcher ran one of the two kernels.
    pub(crate) fn finding(&self, ran: &Ran) -> Option<Finding> {
        let Race { range, earlier, later, .. } = &self.race;
        let side = |agent: &Agent, pe: Option<PeRef>| Side::new(*agent, pe?, ran);
        let [first, second] = self.pes;
        let (one, other) = match (first, second) {
            (None, pe) => (side(later, pe)?, by_host(*earlier)),
            (pe, None) => (side(earlier, pe)?, by_host(*later)),
            (first, second) => (side(later, second)?, side(earlier, first)?.to_string()),
        };
        let (from, last, memory) = (range.start, range.end - 1, &self.memory);
        let what = format!(
            "{} {} bytes {from:#x} to {last:#x} of {memory}, which {other}, with no order between the two",
            one.what, one.verb,
        );
        Some(Finding { kernel: one.kernel, pe: one.pe, place: one.place, what })
    }
}

/// Describes an access by the host.
fn by_host(agent: Agent) -> String {
    format!("the host {}", verb(agent.direction))
}

const fn verb(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "reads",
        Direction::Write => "writes",
    }
}

/// Returns the finding for a notice of the machine; `None` if another launcher ran the kernel.
pub(crate) fn notice_finding(notice: &Notice, machine: &Machine, ran: &Ran) -> Option<Finding> {
    let pe = machine.topology().pe_of(notice.pe)?;
    let direction = match &notice.what {
        Noticed::Stray { direction, .. } => *direction,
        Noticed::Unreceived { .. } => Direction::Write,
    };
    let Notice { launch, pe: node, command, what } = notice;
    let (launch, pe_cpu, is_atomic) = (*launch, Some(*node), false);
    let agent = Agent { launch, pe: pe_cpu, command: *command, direction, is_atomic, part: 0 };
    let Side { kernel, place, what: effect, verb, .. } = Side::new(agent, pe, ran)?;
    let what = match what {
        Noticed::Stray { range, .. } => format!(
            "{effect} {verb} bytes {:#x} to {:#x}, which are not mapped here and were taken for physical \
             addresses: no argument of the launch is there",
            range.start,
            range.end - 1,
        ),
        Noticed::Unreceived { to, .. } => format!("{effect}: {to} never received it"),
    };
    Some(Finding { kernel, pe, place, what })
}

/// One of the two accesses of a race.
struct Side {
    kernel: String,
    pe: PeRef,
    place: String,
    /// The command, e.g. `store f32[64]`.
    what: String,
    verb: &'static str,
}

impl Side {
    fn new(agent: Agent, pe: PeRef, ran: &Ran) -> Option<Self> {
        let state = &ran.get(&(agent.launch, pe))?.state;
        let tape = state.tape.borrow();
        let order = tape.order(agent.command);
        let (kernel, place) = (state.kernel.to_string(), tape.place(agent.command).to_string());
        let (what, verb) = (order.effect.to_string(), verb(agent.direction));
        Some(Self { kernel, pe, place, what, verb })
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, pe, place, what, verb } = self;
        write!(f, "{kernel} on {pe}, {place}: {what} {verb}")
    }
}

//! Instructions packed into half a cache line each, for programs that are known in advance.

use super::chunks::CHUNK;
use super::dependencies::Few;
use super::{Chunks, Command, Dma, Instruction, PortMessage, Strips, Work};
use crate::access::Direction;
use crate::ids::{CommandId, PortId};

/// Instruction in half a cache line. A machine reads millions of them, and copies commands into the slots of commands
/// in flight.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) enum Packed {
    /// Access to contiguous bytes.
    Dma {
        direction: Direction,
        address: u64,
        bytes: u64,
        after: Few,
    },
    Send(PortMessage, Few),
    Receive(PortMessage, Few),
    /// Computation, by index in the program's list.
    Compute(u32, Few),
    /// Any other command, by index in the program's list.
    Long(u32),
    /// Long command that receives from any of several ports, and the chosen port.
    Chosen(u32, PortId),
    Wait(CommandId),
    Fence,
    Dispatch(u32),
    /// End of the instructions.
    #[default]
    End,
}

const _: () = assert!(size_of::<Packed>() == 32, "half a line of the cache");

impl Packed {
    /// Packs a command that needs no list; `None` if it needs one.
    pub(super) fn of(command: &Command) -> Option<Self> {
        if command.atomic.is_some() {
            return None;
        }
        let after = command.after.few()?;
        match command.work {
            Work::Dma(Dma { direction, address, bytes, rows: None }) => {
                Some(Self::Dma { direction, address, bytes, after })
            }
            Work::Send(message) => Some(Self::Send(message, after)),
            Work::Receive(message) => Some(Self::Receive(message, after)),
            _ => None,
        }
    }

    pub(super) fn is_command(&self) -> bool {
        !matches!(self, Self::Wait(_) | Self::Fence | Self::Dispatch(_) | Self::End)
    }
}

/// All instructions of a program, in order. Most are packed; the others are in a list.
#[derive(Debug, Default)]
pub struct Instructions {
    packed: Chunks<Packed>,
    /// Computations, without most repetitions.
    strips: Vec<Strips>,
    long: Vec<Command>,
}

/// Number of instructions that a core reads at once; they are adjacent in memory.
pub(super) const AHEAD: usize = 2;

const _: () = assert!(CHUNK.is_multiple_of(AHEAD), "what is read at once is in one chunk");

/// Number of recent computations that a new one is compared with.
const COMPARED: usize = 8;

impl FromIterator<Instruction> for Instructions {
    fn from_iter<I: IntoIterator<Item = Instruction>>(all: I) -> Self {
        let mut instructions = Self::default();
        all.into_iter().for_each(|instruction| instructions.push(instruction));
        instructions
    }
}

impl Instructions {
    /// Appends an instruction.
    pub fn push(&mut self, instruction: Instruction) {
        let packed = match instruction {
            Instruction::Command(command) => self.pack(command),
            Instruction::Wait(command) => Packed::Wait(command),
            Instruction::Fence => Packed::Fence,
            Instruction::Dispatch(count) => Packed::Dispatch(count),
        };
        self.packed.push(packed);
    }

    fn pack(&mut self, command: Command) -> Packed {
        if let (Work::Compute(strips), Some(after)) = (&command.work, command.after.few()) {
            return Packed::Compute(self.computation(strips), after);
        }
        Packed::of(&command).unwrap_or_else(|| {
            self.long.push(command);
            Packed::Long(u32::try_from(self.long.len() - 1).expect("fewer than 2³² instructions"))
        })
    }

    /// Adds a computation to the list, unless it is among the most recent ones.
    fn computation(&mut self, strips: &Strips) -> u32 {
        let first = self.strips.len().saturating_sub(COMPARED);
        let known = self.strips[first..].iter().rposition(|known| known == strips);
        let place = known.map_or(self.strips.len(), |place| first + place);
        if place == self.strips.len() {
            self.strips.push(*strips);
        }
        u32::try_from(place).expect("fewer than 2³² instructions")
    }

    /// Returns the number of instructions.
    pub fn len(&self) -> usize {
        self.packed.len()
    }

    /// Returns whether there are no instructions.
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// Returns all instructions, in order.
    pub fn iter(&self) -> impl Iterator<Item = Instruction> {
        self.packed.iter().filter_map(|packed| self.unpack(*packed))
    }

    /// Returns an instruction; `None` beyond the last.
    pub fn get(&self, number: usize) -> Option<Instruction> {
        self.packed.get(number).and_then(|packed| self.unpack(*packed))
    }

    /// Unpacks an instruction; `None` at the end.
    pub(super) fn unpack(&self, packed: Packed) -> Option<Instruction> {
        let (work, after) = match packed {
            Packed::Dma { direction, address, bytes, after } => {
                (Work::Dma(Dma { direction, address, bytes, rows: None }), after)
            }
            Packed::Send(message, after) => (Work::Send(message), after),
            Packed::Receive(message, after) => (Work::Receive(message), after),
            Packed::Compute(place, after) => (Work::Compute(*self.strips(place)), after),
            Packed::Long(place) | Packed::Chosen(place, _) => {
                return Some(Instruction::Command(self.long(place).clone()));
            }
            Packed::Wait(command) => return Some(Instruction::Wait(command)),
            Packed::Fence => return Some(Instruction::Fence),
            Packed::Dispatch(count) => return Some(Instruction::Dispatch(count)),
            Packed::End => return None,
        };
        Some(Instruction::Command(Command::new(work, after.into())))
    }

    /// Reads [`AHEAD`] instructions, starting at a multiple of `AHEAD`. Fills up with [`Packed::End`] beyond the last.
    pub(super) fn read(&self, from: usize, into: &mut [Packed; AHEAD]) {
        let rest = self.packed.together(from);
        let (some, beyond) = into.split_at_mut(rest.len().min(AHEAD));
        some.copy_from_slice(&rest[..some.len()]);
        beyond.fill(Packed::End);
    }

    pub(super) fn strips(&self, place: u32) -> &Strips {
        &self.strips[place as usize]
    }

    pub(super) fn long(&self, place: u32) -> &Command {
        &self.long[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Rows;
    use crate::ids::FormatId;
    use crate::pe::{AnyOf, OpUnit};
    use cubeyard_sim::Span;
    use std::rc::Rc;

    fn instructions(count: u32) -> Vec<Instruction> {
        let strips = |count: u32| {
            let [fetch, work, store] = [1, 2, 3].map(Span::from_ps);
            Strips { unit: OpUnit::Math, count, fetch, work, store }
        };
        let command =
            |work, after: &[CommandId]| Instruction::Command(Command::new(work, after.into()));
        let dma = |direction, rows| Work::Dma(Dma { direction, address: u64::MAX, bytes: 8, rows });
        let (read, write) = (Direction::Read, Direction::Write);
        let any =
            Rc::new(AnyOf { ports: vec![PortId(1), PortId(2)], bytes: 3, format: FormatId(1) });
        let message = PortMessage { port: PortId(u32::MAX), bytes: u64::MAX, format: FormatId(2) };
        let instruction = |number: u32| match number % 11 {
            0 => Instruction::Wait(number),
            1 => command(Work::Send(message), &[number]),
            2 => command(Work::Compute(strips(number % 5)), &[1, 2]),
            3 => command(dma(read, None), &[1, 2, 3, number]),
            4 => command(dma(write, Some(Rows { bytes: 4, pitch: 9 })), &[]),
            5 => command(Work::ReceiveAny(Rc::clone(&any)), &[4]),
            6 => command(dma(read, None), &[1, 2, 3]),
            7 => command(dma(write, None), &[]),
            8 => command(Work::Receive(message), &[3, 2]),
            9 => Instruction::Fence,
            _ => Instruction::Dispatch(number),
        };
        (0..count).map(instruction).collect()
    }

    #[test]
    fn instructions_are_what_they_were_made_from() {
        let (made, text) = (instructions(330), |list: &[Instruction]| format!("{list:?}"));
        let packed: Instructions = made.iter().cloned().collect();
        assert_eq!(text(&packed.iter().collect::<Vec<_>>()), text(&made));
        assert_eq!((packed.len(), packed.is_empty()), (330, false));
        assert!(packed.get(330).is_none());
        assert!(packed.strips.len() < 330 / 11, "computations that repeat are kept once");
    }

    #[test]
    fn instructions_are_read_up_to_the_end() {
        let all: Instructions = instructions(300).into_iter().collect();
        for from in (0..400).step_by(AHEAD) {
            let mut read = [Packed::default(); AHEAD];
            all.read(from, &mut read);
            for (place, packed) in read.iter().enumerate() {
                let instruction = all.get(from + place);
                let is_command = instruction.as_ref().is_some_and(|it| it.command().is_some());
                assert_eq!(packed.is_command(), is_command);
                assert_eq!(format!("{:?}", all.unpack(*packed)), format!("{instruction:?}"));
            }
        }
    }
}

//! Steps as cores keep them: short, so that caches hold many.

use super::{CommandId, Dma, Format, Message, PortId, Work};
use crate::message::Direction;

/// How many commands that it comes after are named in a step itself.
const FEW: usize = 3;

/// There are more than a few commands that it comes after.
const MANY: u8 = u8::MAX;

/// A step in half a line of the cache: a machine goes through millions, and copies commands into the slots of
/// those under way.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct Brief {
    /// What it takes to be its kind.
    words: [u64; 2],
    after: [CommandId; FEW],
    count: u8,
    kind: Kind,
    /// The format of a message.
    format: Format,
}

const _: () = assert!(size_of::<Brief>() == 32, "half a line of the cache");

#[derive(Clone, Copy, Debug, Default)]
enum Kind {
    Load,
    Store,
    Send,
    Receive,
    Compute,
    Long,
    Chosen,
    Wait,
    Fence,
    Call,
    #[default]
    End,
}

/// What a step is, as far as a brief one says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An access of bytes in one piece.
    Dma(Dma),
    Send(Message),
    Receive(Message),
    /// The computation at a place in a list of these.
    Compute(u32),
    /// A command that is too long: it is at a place in a list of these.
    Long(u32),
    /// One of those that receives from any of several ports, and has this one.
    Chosen(u32, PortId),
    /// For a command to be done.
    Wait(CommandId),
    /// For all commands to be done.
    Fence,
    /// Nothing but time of `PE_CPU`.
    Call,
    /// There are no more.
    End,
}

impl Brief {
    /// A step that comes after some commands; those of a [long](What::Long) one are not named if they are
    /// many. None if they are too many for another.
    pub(super) fn new(what: What, after: &[CommandId]) -> Option<Self> {
        let (kind, words) = what.coded();
        let mut few = [0; FEW];
        let count = match few.get_mut(..after.len()) {
            Some(places) => {
                places.copy_from_slice(after);
                u8::try_from(after.len()).expect("they are few")
            }
            None if matches!(what, What::Long(_)) => MANY,
            None => return None,
        };
        let format = match what {
            What::Send(message) | What::Receive(message) => message.format,
            _ => Format::default(),
        };
        Some(Self { words, after: few, count, kind, format })
    }

    /// A long step that comes after some commands.
    pub(super) fn long(place: u32, after: &[CommandId]) -> Self {
        Self::new(What::Long(place), after).expect("a long one may come after many")
    }

    /// A command that needs no list, if it is one.
    pub(super) fn of(work: &Work, after: &[CommandId]) -> Option<Self> {
        let what = match *work {
            Work::Dma(dma) if dma.rows.is_none() => What::Dma(dma),
            Work::Send(message) => What::Send(message),
            Work::Receive(message) => What::Receive(message),
            _ => return None,
        };
        Self::new(what, after)
    }

    /// What it is.
    pub(super) fn what(&self) -> What {
        let [first, bytes] = self.words;
        #[expect(clippy::cast_possible_truncation, reason = "numbers of 32 bits were put there")]
        let (low, high) = (first as u32, bytes as u32);
        let dma = |direction| What::Dma(Dma { direction, address: first, bytes, rows: None });
        let message = Message { port: PortId(low), bytes, format: self.format };
        match self.kind {
            Kind::Load => dma(Direction::Read),
            Kind::Store => dma(Direction::Write),
            Kind::Send => What::Send(message),
            Kind::Receive => What::Receive(message),
            Kind::Compute => What::Compute(low),
            Kind::Long => What::Long(low),
            Kind::Chosen => What::Chosen(low, PortId(high)),
            Kind::Wait => What::Wait(low),
            Kind::Fence => What::Fence,
            Kind::Call => What::Call,
            Kind::End => What::End,
        }
    }

    /// Whether it is for an engine.
    pub(super) fn is_command(&self) -> bool {
        !matches!(self.kind, Kind::Wait | Kind::Fence | Kind::Call | Kind::End)
    }

    /// The commands that it comes after, if they are named.
    pub(super) fn after(&self) -> Option<&[CommandId]> {
        self.after.get(..usize::from(self.count))
    }

    /// Gives a long command that receives from any of several ports one of them.
    pub(super) fn choose(&mut self, port: PortId) {
        let What::Long(place) = self.what() else { unreachable!("a command of several ports") };
        (self.kind, self.words) = What::Chosen(place, port).coded();
    }
}

impl What {
    fn coded(self) -> (Kind, [u64; 2]) {
        let message = |message: Message| [u64::from(message.port.0), message.bytes];
        match self {
            Self::Dma(dma) => {
                let kind = match dma.direction {
                    Direction::Read => Kind::Load,
                    Direction::Write => Kind::Store,
                };
                (kind, [dma.address, dma.bytes])
            }
            Self::Send(sent) => (Kind::Send, message(sent)),
            Self::Receive(received) => (Kind::Receive, message(received)),
            Self::Compute(place) => (Kind::Compute, [u64::from(place), 0]),
            Self::Long(place) => (Kind::Long, [u64::from(place), 0]),
            Self::Chosen(place, port) => (Kind::Chosen, [u64::from(place), u64::from(port.0)]),
            Self::Wait(command) => (Kind::Wait, [u64::from(command), 0]),
            Self::Fence => (Kind::Fence, [0; 2]),
            Self::Call => (Kind::Call, [0; 2]),
            Self::End => (Kind::End, [0; 2]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brief_step_says_what_it_was_made_from() {
        let (port, bytes, format) = (PortId(u32::MAX), u64::MAX, Format(u8::MAX));
        let message = Message { port, bytes, format };
        let dma = |direction| Dma { direction, address: u64::MAX, bytes: 7, rows: None };
        let all = [
            What::Dma(dma(Direction::Read)),
            What::Dma(dma(Direction::Write)),
            What::Send(message),
            What::Receive(message),
            What::Compute(u32::MAX),
            What::Long(1),
            What::Chosen(2, PortId(3)),
            What::Wait(4),
            What::Fence,
            What::Call,
            What::End,
        ];
        for what in all {
            for after in [&[][..], &[1], &[1, 2, 3]] {
                let brief = Brief::new(what, after).expect("they are few");
                assert_eq!((brief.what(), brief.after()), (what, Some(after)));
            }
        }
    }

    #[test]
    fn only_a_long_step_comes_after_many() {
        let many = [1, 2, 3, 4];
        assert!(Brief::new(What::Fence, &many).is_none());
        let mut brief = Brief::long(5, &many);
        assert_eq!((brief.what(), brief.after()), (What::Long(5), None));
        brief.choose(PortId(6));
        assert_eq!((brief.what(), brief.after()), (What::Chosen(5, PortId(6)), None));
    }
}

//! Programs that are known from the beginning, step by step.

use super::brief::{Brief, What};
use super::chunks::CHUNK;
use super::{Chunks, Command, CommandId, Dependencies, Next, Strips, Work};

/// What a program does next.
#[derive(Clone, Debug)]
pub enum Step {
    /// A command for an engine, and the commands that it comes after.
    Command(Work, Dependencies),
    /// A [pipeline](Work::Pipeline), whose loads come after others.
    Pipeline(Box<Command>),
    /// `PE_CPU` waits until a command is done.
    Wait(CommandId),
    /// `PE_CPU` waits until all commands are done.
    Fence,
    /// A call that costs `PE_CPU` its time only.
    Call,
}

/// All steps of a program, in order. What most commands are is kept brief; the others are in a list.
#[derive(Debug, Default)]
pub struct Steps {
    brief: Chunks<Brief>,
    /// Computations, most of which come again and again.
    strips: Vec<Strips>,
    long: Vec<Step>,
}

/// How many steps are read at once: those that a core reads lie together.
pub(super) const AHEAD: usize = 2;

const _: () = assert!(CHUNK.is_multiple_of(AHEAD), "what is read at once is in one chunk");

/// How many of the last computations are looked through for one that comes again.
const LOOKED_THROUGH: usize = 8;

impl FromIterator<Step> for Steps {
    fn from_iter<I: IntoIterator<Item = Step>>(all: I) -> Self {
        let mut steps = Self::default();
        all.into_iter().for_each(|step| steps.push(step));
        steps
    }
}

impl Steps {
    /// Adds a step.
    pub fn push(&mut self, step: Step) {
        let brief = self.shortened(&step).unwrap_or_else(|| self.lengthy(step));
        self.brief.push(brief);
    }

    /// A step in brief, if it can be.
    fn shortened(&mut self, step: &Step) -> Option<Brief> {
        match step {
            Step::Command(Work::Compute(strips), after) => {
                Brief::new(What::Compute(self.computation(strips)), after)
            }
            Step::Command(work, after) => Brief::of(work, after),
            Step::Pipeline(_) => None,
            Step::Wait(command) => Brief::new(What::Wait(*command), &[]),
            Step::Fence => Brief::new(What::Fence, &[]),
            Step::Call => Brief::new(What::Call, &[]),
        }
    }

    /// Puts a computation into the list, unless it is among the last.
    fn computation(&mut self, strips: &Strips) -> u32 {
        let first = self.strips.len().saturating_sub(LOOKED_THROUGH);
        let known = self.strips[first..].iter().rposition(|known| known == strips);
        let place = known.map_or(self.strips.len(), |place| first + place);
        if place == self.strips.len() {
            self.strips.push(*strips);
        }
        u32::try_from(place).expect("fewer than 2³² steps")
    }

    fn lengthy(&mut self, step: Step) -> Brief {
        let place = u32::try_from(self.long.len()).expect("fewer than 2³² steps");
        let brief = Brief::long(place, step.work().expect("only commands are long").1);
        self.long.push(step);
        brief
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.brief.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.brief.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Step> {
        self.brief.iter().filter_map(|brief| self.whole(brief))
    }

    /// A step, if there are as many.
    pub fn get(&self, number: usize) -> Option<Step> {
        self.brief.get(number).and_then(|brief| self.whole(brief))
    }

    /// All of a step, unless it is the end.
    pub(super) fn whole(&self, brief: &Brief) -> Option<Step> {
        let work = match brief.what() {
            What::Dma(dma) => Work::Dma(dma),
            What::Send(message) => Work::Send(message),
            What::Receive(message) => Work::Receive(message),
            What::Compute(place) => Work::Compute(*self.strips(place)),
            What::Long(place) | What::Chosen(place, _) => return Some(self.long(place).clone()),
            What::Wait(command) => return Some(Step::Wait(command)),
            What::Fence => return Some(Step::Fence),
            What::Call => return Some(Step::Call),
            What::End => return None,
        };
        Some(Step::Command(work, brief.after().expect("it is not long").into()))
    }

    /// Some steps in brief, from one on that is a multiple of their number, and the end where there are no more.
    pub(super) fn read(&self, from: usize, into: &mut [Brief; AHEAD]) {
        let rest = self.brief.together(from);
        let (some, beyond) = into.split_at_mut(rest.len().min(AHEAD));
        some.copy_from_slice(&rest[..some.len()]);
        beyond.fill(Brief::default());
    }

    /// A computation of the list.
    pub(super) fn strips(&self, place: u32) -> &Strips {
        &self.strips[place as usize]
    }

    /// A step that is not brief.
    pub(super) fn long(&self, place: u32) -> &Step {
        &self.long[place as usize]
    }
}

impl From<Command> for Step {
    fn from(command: Command) -> Self {
        match command.work {
            Work::Pipeline(_) => Self::Pipeline(Box::new(command)),
            work => Self::Command(work, command.after),
        }
    }
}

impl Step {
    /// What the command is, if it is one, and the commands that it comes after.
    pub fn work(&self) -> Option<(&Work, &[CommandId])> {
        match self {
            Self::Command(work, after) => Some((work, after)),
            Self::Pipeline(command) => Some((&command.work, &command.after)),
            Self::Wait(_) | Self::Fence | Self::Call => None,
        }
    }
}

/// What a core is told of a step.
impl From<Step> for Next {
    fn from(step: Step) -> Self {
        match step {
            Step::Command(work, after) => {
                Self::Command(Command { work, after, loads_after: Dependencies::default() })
            }
            Step::Pipeline(command) => Self::Command(*command),
            Step::Wait(command) => Self::Wait(command),
            Step::Fence => Self::Fence,
            Step::Call => Self::Dispatch(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Direction, Rows};
    use crate::pe::{AnyOf, Dma, Format, Message, OpUnit, PortId};
    use cubeyard_sim::Span;
    use std::rc::Rc;

    fn steps(count: u32) -> Vec<Step> {
        let strips = |count: u32| {
            let [fetch, work, store] = [1, 2, 3].map(Span::from_ps);
            Strips { unit: OpUnit::Math, count, fetch, work, store }
        };
        let dma = |rows| Dma { direction: Direction::Read, address: 64, bytes: 8, rows };
        let any = Rc::new(AnyOf { ports: vec![PortId(1), PortId(2)], bytes: 3, format: Format(1) });
        let step = |number: u32| match number % 7 {
            0 => Step::Wait(number),
            1 => Step::Command(
                Work::Send(Message { port: PortId(0), bytes: 1, format: Format(2) }),
                [number][..].into(),
            ),
            2 => Step::Command(Work::Compute(strips(number % 5)), [1, 2][..].into()),
            3 => Step::Command(Work::Dma(dma(None)), [1, 2, 3, number][..].into()),
            4 => Step::Command(Work::Dma(dma(Some(Rows { bytes: 4, pitch: 9 }))), [][..].into()),
            5 => Step::Command(Work::ReceiveAny(Rc::clone(&any)), [4][..].into()),
            _ => Step::Call,
        };
        (0..count).map(step).collect()
    }

    #[test]
    fn steps_are_what_they_were_made_from() {
        let (made, text) = (steps(300), |steps: &[Step]| format!("{steps:?}"));
        let steps: Steps = made.iter().cloned().collect();
        assert_eq!(text(&steps.iter().collect::<Vec<_>>()), text(&made));
        assert_eq!((steps.len(), steps.is_empty()), (300, false));
        assert!(steps.get(300).is_none());
        assert!(steps.strips.len() < 300 / 7, "computations that come again are kept once");
    }

    #[test]
    fn steps_are_read_up_to_the_end() {
        let steps: Steps = steps(300).into_iter().collect();
        for from in (0..400).step_by(AHEAD) {
            let mut read = [Brief::default(); AHEAD];
            steps.read(from, &mut read);
            for (place, brief) in read.iter().enumerate() {
                let step = steps.get(from + place);
                let is_command = step.as_ref().is_some_and(|step| step.work().is_some());
                assert_eq!(brief.is_command(), is_command);
                assert_eq!(format!("{:?}", steps.whole(brief)), format!("{step:?}"));
            }
        }
    }
}

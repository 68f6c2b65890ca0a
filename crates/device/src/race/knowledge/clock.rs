//! Sets of completed commands.

use std::rc::Rc;

use super::ProgramId;
use crate::pe::CommandId;

/// Completed commands by program, in the order of the programs. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(Rc<Vec<(ProgramId, DoneCommands)>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DoneCommands {
    /// Bound below which all commands are done.
    below: CommandId,
    /// Further completed commands, in order.
    also: Rc<Vec<CommandId>>,
}

impl Clock {
    pub(super) fn has(&self, program: ProgramId, command: CommandId) -> bool {
        self.place(program).is_ok_and(|place| self.0[place].1.has(command))
    }

    pub(super) fn join(mut self, other: &Self) -> Self {
        if Rc::ptr_eq(&self.0, &other.0) || other.0.is_empty() {
            return self;
        }
        if self.0.is_empty() {
            return other.clone();
        }
        let mut from = 0;
        for (program, theirs) in &*other.0 {
            // Both lists are in order: the place is not before the previous one, and mostly the next.
            while self.0.get(from).is_some_and(|(mine, _)| mine < program) {
                from += 1;
            }
            if !self.0.get(from).is_some_and(|(mine, done)| mine == program && done.covers(theirs))
            {
                self.add_at(from, *program, theirs);
            }
        }
        self
    }

    /// Adds completed commands of a program: all commands before `below`, and the commands of `also`.
    pub(super) fn with(
        mut self,
        program: ProgramId,
        below: CommandId,
        mut also: Vec<CommandId>,
    ) -> Self {
        also.sort_unstable();
        let place = self.place(program).unwrap_or_else(|place| place);
        self.add_at(place, program, &DoneCommands { below, also: also.into() });
        self
    }

    fn place(&self, program: ProgramId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&program, |(program, _)| *program)
    }

    fn add_at(&mut self, place: usize, program: ProgramId, done: &DoneCommands) {
        let all = Rc::make_mut(&mut self.0);
        if all.get(place).is_none_or(|(there, _)| *there != program) {
            all.insert(place, (program, DoneCommands::default()));
        }
        all[place].1.add(done);
    }
}

impl DoneCommands {
    fn has(&self, command: CommandId) -> bool {
        command < self.below || self.also.binary_search(&command).is_ok()
    }

    fn covers(&self, other: &Self) -> bool {
        self.below >= other.below
            && (Rc::ptr_eq(&self.also, &other.also) || other.also.iter().all(|id| self.has(*id)))
    }

    fn add(&mut self, other: &Self) {
        if other.covers(self) {
            return self.clone_from(other);
        }
        self.below = self.below.max(other.below);
        let also = Rc::make_mut(&mut self.also);
        also.extend(&*other.also);
        also.retain(|id| *id >= self.below);
        also.sort_unstable();
        also.dedup();
    }
}

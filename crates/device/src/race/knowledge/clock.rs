//! Sets of commands that are done.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::ProgramId;
use crate::pe::CommandId;

/// Commands that are done, by program. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(Option<Rc<BTreeMap<ProgramId, DoneCommands>>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DoneCommands {
    /// All commands before this one are done.
    below: CommandId,
    /// Further commands that are done.
    also: BTreeSet<CommandId>,
}

impl Clock {
    pub(super) fn has(&self, program: ProgramId, command: CommandId) -> bool {
        let done = self.0.as_ref().and_then(|known| known.get(&program));
        done.is_some_and(|done| command < done.below || done.also.contains(&command))
    }

    pub(super) fn join(mut self, other: &Self) -> Self {
        let (Some(mine), Some(theirs)) = (&mut self.0, &other.0) else {
            return if self.0.is_some() { self } else { other.clone() };
        };
        if Rc::ptr_eq(mine, theirs) {
            return self;
        }
        let is_new = |(program, done): &(&ProgramId, &DoneCommands)| {
            !mine.get(program).is_some_and(|mine| mine.covers(done))
        };
        let news: Vec<_> = theirs.iter().filter(is_new).collect();
        if !news.is_empty() {
            let mine = Rc::make_mut(mine);
            for (program, done) in news {
                mine.entry(*program).or_default().add(done.below, &done.also);
            }
        }
        self
    }

    /// Adds commands of a program: all below one, and some others.
    pub(super) fn with(
        mut self,
        program: ProgramId,
        below: CommandId,
        also: Vec<CommandId>,
    ) -> Self {
        let known = Rc::make_mut(self.0.get_or_insert_default());
        known.entry(program).or_default().add(below, &also.into_iter().collect());
        self
    }
}

impl DoneCommands {
    fn covers(&self, other: &Self) -> bool {
        self.below >= other.below
            && other.also.iter().all(|id| *id < self.below || self.also.contains(id))
    }

    fn add(&mut self, below: CommandId, also: &BTreeSet<CommandId>) {
        self.below = self.below.max(below);
        let mut all = self.also.split_off(&self.below);
        all.extend(also.range(self.below..));
        self.also = all;
    }
}

//! Queues of commands for each unit.

use super::slot::Slot;
use super::{CommandId, Run};

/// Commands with parts to begin, in the order of dispatch. They are linked through their slots, so a queue allocates no
/// memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    /// First and last command; `None` if the queue is empty.
    ends: Option<[CommandId; 2]>,
}

impl Run {
    /// Appends a command to the queue of a unit, which becomes due.
    pub(super) fn stand(&mut self, unit: usize, id: CommandId) {
        let first = match self.queues[unit].ends {
            Some([first, last]) => {
                self.slot_mut(last).set_follower(unit, id);
                first
            }
            None => id,
        };
        self.queues[unit].ends = Some([first, id]);
        self.due.add(unit);
    }

    pub(super) fn front(&self, unit: usize) -> Option<CommandId> {
        self.queues[unit].ends.map(|[first, _]| first)
    }

    pub(super) fn leave(&mut self, unit: usize) {
        let ends = self.queues[unit].ends.filter(|[first, last]| first != last);
        let rest = ends.map(|[first, last]| [self.slot(first).follower(unit), last]);
        self.queues[unit].ends = rest;
    }
}

impl Slot {
    fn follower(&self, unit: usize) -> CommandId {
        self.pipelined.as_ref().map_or(self.follower, |pipelined| pipelined.followers[unit])
    }

    fn set_follower(&mut self, unit: usize, id: CommandId) {
        match &mut self.pipelined {
            Some(pipelined) => pipelined.followers[unit] = id,
            None => self.follower = id,
        }
    }
}

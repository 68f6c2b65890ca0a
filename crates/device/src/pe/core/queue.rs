//! Commands that stand in line for a unit.

use super::slot::Slot;
use super::{CommandId, Run};

/// The commands that have something to begin, in the order of dispatch. Each slot names the one after its own,
/// so that a queue has no memory of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    /// The first and the last, unless it is empty.
    ends: Option<[CommandId; 2]>,
}

impl Run {
    /// Puts a command last in the queue of a unit, which is due.
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

    /// The first command in the queue of a unit.
    pub(super) fn front(&self, unit: usize) -> Option<CommandId> {
        self.queues[unit].ends.map(|[first, _]| first)
    }

    /// Takes the first command out of the queue of a unit.
    pub(super) fn leave(&mut self, unit: usize) {
        let ends = self.queues[unit].ends.filter(|[first, last]| first != last);
        let rest = ends.map(|[first, last]| [self.slot(first).follower(unit), last]);
        self.queues[unit].ends = rest;
    }
}

impl Slot {
    /// The command after this one in the queue of a unit.
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

//! Units of a core that may be able to proceed.

use super::CommandId;

/// Units whose inputs may have changed since they last ran, and the commands that the other units wait for. A unit that
/// is not due would find nothing new.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// Bit mask of the units that are due.
    now: u8,
    /// Bit mask of the units that are due whenever a command is done.
    often: u8,
    /// Command whose end each unit waits for.
    after: [CommandId; UNITS],
}

pub(super) const LOAD: usize = 0;
/// Compute engine shared by GEMM and MATH, or the separate engine of GEMM.
pub(super) const COMPUTE: usize = 1;
pub(super) const STORE: usize = 2;
/// Separate compute engine of MATH, if there is one.
pub(super) const VECTOR: usize = 3;
pub(super) const SEND: usize = 4;
/// Choice of the port for messages from any of several PEs.
pub(super) const ANY: usize = 5;
pub(super) const RECEIVE: usize = 6;
pub(super) const DISPATCH: usize = 7;
pub(super) const UNITS: usize = 8;

const _: () = assert!(UNITS == u8::BITS as usize, "a bit for each unit");

/// Number that no command has, because there are fewer commands.
const NOTHING: CommandId = CommandId::MAX;

impl Default for Due {
    fn default() -> Self {
        Self { now: u8::MAX, often: 0, after: [NOTHING; UNITS] }
    }
}

impl Due {
    pub(super) fn add(&mut self, unit: usize) {
        self.now |= 1 << unit;
    }

    /// Returns whether a unit is due, and clears it.
    pub(super) fn take(&mut self, unit: usize) -> bool {
        let bit = 1 << unit;
        let is_due = self.now & bit != 0;
        if is_due {
            self.now &= !bit;
            self.often &= !bit;
            self.after[unit] = NOTHING;
        }
        is_due
    }

    /// Makes a unit wait for the end of a command.
    pub(super) fn wait(&mut self, unit: usize, command: CommandId) {
        if self.after[unit] == NOTHING {
            self.after[unit] = command;
        } else {
            self.often |= 1 << unit;
        }
    }

    /// Makes due the units that wait for a completed command.
    pub(super) fn done(&mut self, command: CommandId) {
        let waiting = self.after.iter().enumerate().filter(|(_, after)| **after == command);
        let bits = waiting.fold(0, |bits, (unit, _)| bits | 1 << unit);
        self.now |= bits | self.often;
    }

    pub(super) fn is_empty(self) -> bool {
        self.now == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(units: &mut Due) -> Vec<usize> {
        (0..UNITS).filter(|&unit| units.take(unit)).collect()
    }

    #[test]
    fn a_unit_is_due_when_what_it_waits_for_is_done() {
        let mut units = Due::default();
        assert_eq!(due(&mut units), (0..UNITS).collect::<Vec<_>>());
        units.wait(LOAD, 7);
        units.wait(SEND, 8);
        units.done(6);
        assert!(units.is_empty());
        units.done(8);
        assert_eq!(due(&mut units), [SEND]);
        units.done(8);
        assert!(units.is_empty(), "it has looked since");
        units.done(7);
        assert_eq!(due(&mut units), [LOAD]);
    }

    #[test]
    fn a_unit_that_waits_for_several_commands_looks_whenever_one_is_done() {
        let mut units = Due::default();
        due(&mut units);
        units.wait(RECEIVE, 3);
        units.wait(RECEIVE, 5);
        units.done(4);
        assert_eq!(due(&mut units), [RECEIVE]);
        units.done(5);
        assert!(units.is_empty(), "it has looked since");
    }
}

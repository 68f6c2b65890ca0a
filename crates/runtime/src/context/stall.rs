//! The way back from launches that cannot go on.

use super::{Inner, stopped, told_otherwise};
use crate::error::RuntimeError;

impl Inner {
    /// Stops all launches that are under way after the machine has come to a stop, and those that came after
    /// them and cannot go on either. All of them are told; the first stop is the error.
    pub(super) fn abandon(&self, stalled: RuntimeError) -> Result<(), RuntimeError> {
        let RuntimeError::Stalled(first) = stalled else { return Err(stalled) };
        let mut waiting = first.clone();
        while self.stop_launches(&waiting)? {
            let mut machine = self.machine_mut()?;
            let stop = machine.run();
            let ended = stopped(&machine, stop);
            drop(machine);
            self.settle().or_else(told_otherwise)?;
            match ended {
                Err(RuntimeError::Stalled(next)) => waiting = next,
                _ => break,
            }
        }
        self.tidy()?;
        Err(RuntimeError::Stalled(first))
    }

    /// Stops the programs of all launches that are under way: whether there were any.
    fn stop_launches(&self, waiting: &str) -> Result<bool, RuntimeError> {
        let mut machine = self.machine_mut()?;
        let mut in_flight = self.in_flight.borrow_mut();
        let mut is_any = false;
        for (&launch, flight) in in_flight.iter_mut() {
            if !machine.stop_programs(launch).is_empty() {
                flight.stalled = Some(waiting.to_owned());
                is_any = true;
            }
        }
        Ok(is_any)
    }
}

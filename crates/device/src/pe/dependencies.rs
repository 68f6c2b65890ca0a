//! Dependencies of a command.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use crate::ids::CommandId;

/// Commands that must be done before a command begins. Commands that have left the window are done before it is
/// dispatched, and need not be listed. Cheap to clone.
#[derive(Clone)]
pub struct Dependencies(List);

#[derive(Clone)]
enum List {
    Few(Few),
    Many(Rc<Vec<CommandId>>),
}

/// Up to three commands, stored inline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Few([CommandId; 3]);

/// Number that no command has, because there are fewer commands.
const NONE: CommandId = CommandId::MAX;

const _: () = assert!(size_of::<Dependencies>() <= 16, "commands are copied often");

impl Deref for Few {
    type Target = [CommandId];

    fn deref(&self) -> &[CommandId] {
        let count = self.0.iter().position(|&id| id == NONE).unwrap_or(self.0.len());
        &self.0[..count]
    }
}

impl Dependencies {
    /// Returns the commands, if there are at most three.
    pub(super) fn few(&self) -> Option<Few> {
        match self.0 {
            List::Few(few) => Some(few),
            List::Many(_) => None,
        }
    }
}

impl Default for Dependencies {
    fn default() -> Self {
        Self(List::Few(Few([NONE; 3])))
    }
}

impl From<Few> for Dependencies {
    fn from(few: Few) -> Self {
        Self(List::Few(few))
    }
}

impl From<&[CommandId]> for Dependencies {
    fn from(commands: &[CommandId]) -> Self {
        let mut few = [NONE; 3];
        match few.get_mut(..commands.len()) {
            Some(places) => {
                places.copy_from_slice(commands);
                Self(List::Few(Few(few)))
            }
            None => Self(List::Many(Rc::new(commands.to_vec()))),
        }
    }
}

impl Deref for Dependencies {
    type Target = [CommandId];

    fn deref(&self) -> &[CommandId] {
        match &self.0 {
            List::Few(few) => few,
            List::Many(many) => many,
        }
    }
}

impl fmt::Debug for Dependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_what_they_were_made_from() {
        for count in 0..10 {
            let commands: Vec<CommandId> = (100..100 + count).collect();
            let dependencies = Dependencies::from(&*commands);
            assert_eq!(*dependencies, *commands);
            assert_eq!(dependencies.few().is_some(), count <= 3);
        }
    }
}

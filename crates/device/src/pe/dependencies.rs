//! What a command comes after.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use super::CommandId;

/// How many are kept without memory of their own.
const FEW: usize = 3;

/// The commands that one comes after. Those that have left the window are done before it is dispatched, and
/// need not be named. Cheap to clone.
#[derive(Clone)]
pub struct Dependencies(List);

#[derive(Clone)]
enum List {
    Few(u8, [CommandId; FEW]),
    Many(Rc<Vec<CommandId>>),
}

const _: () = assert!(size_of::<Dependencies>() <= 16, "commands are copied often");

impl Default for Dependencies {
    fn default() -> Self {
        Self(List::Few(0, [0; FEW]))
    }
}

impl From<&[CommandId]> for Dependencies {
    fn from(commands: &[CommandId]) -> Self {
        let mut few = [0; FEW];
        match (few.get_mut(..commands.len()), u8::try_from(commands.len())) {
            (Some(places), Ok(count)) => {
                places.copy_from_slice(commands);
                Self(List::Few(count, few))
            }
            _ => Self(List::Many(Rc::new(commands.to_vec()))),
        }
    }
}

impl Deref for Dependencies {
    type Target = [CommandId];

    fn deref(&self) -> &[CommandId] {
        match &self.0 {
            List::Few(count, few) => &few[..usize::from(*count)],
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
            assert_eq!(*Dependencies::from(&*commands), *commands);
        }
    }
}

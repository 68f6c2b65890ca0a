//! Final check of a pickle: no container contains itself or nests too deeply.

use super::error::Problem;
use super::{Container, PickleError, Value};
use crate::budget::Budget;

/// Progress of the walk through a container.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unseen,
    /// On the path from the root to the current position.
    Open,
    /// Completely visited; the value is its nesting depth, itself included.
    Done(u16),
}

/// A container on the path from the root.
struct Step {
    container: u32,
    next_item: usize,
    height: u16,
}

/// Rejects cycles and nesting beyond `limit` among everything that `root` refers to.
///
/// This is unknown while reading, since a pickle may put a list into another one first and fill it later. The walk
/// visits each container once, however often it is referred to, and keeps its own stack, which is never longer
/// than `limit`.
pub(super) fn check(
    containers: &[Container],
    root: Value,
    limit: u16,
    budget: &Budget,
) -> Result<(), PickleError> {
    let at_root =
        |limit| PickleError { offset: 0, opcode: "container", problem: Problem::Memory(limit) };
    budget.clone().charge_table::<State>(containers.len()).map_err(at_root)?;
    let mut walk =
        Walk { containers, limit, states: vec![State::Unseen; containers.len()], path: vec![] };
    walk.enter(root)?;
    while let Some(step) = walk.path.last_mut() {
        let items = &containers[step.container as usize].items;
        match items.get(step.next_item) {
            Some(&item) => {
                step.next_item += 1;
                walk.enter(item)?;
            }
            None => walk.leave(),
        }
    }
    Ok(())
}

struct Walk<'a> {
    containers: &'a [Container],
    limit: u16,
    states: Vec<State>,
    path: Vec<Step>,
}

impl Walk<'_> {
    fn enter(&mut self, value: Value) -> Result<(), PickleError> {
        let Some(container) = value.container() else { return Ok(()) };
        match self.states[container as usize] {
            State::Open => return Err(self.error(container, Problem::Cycle)),
            State::Done(height) => self.reach(container, height)?,
            State::Unseen => {
                self.reach(container, 1)?;
                self.states[container as usize] = State::Open;
                self.path.push(Step { container, next_item: 0, height: 1 });
            }
        }
        Ok(())
    }

    /// Records that the last container of the path contains a container of this height.
    fn reach(&mut self, container: u32, height: u16) -> Result<(), PickleError> {
        if self.path.len() + usize::from(height) > usize::from(self.limit) {
            return Err(self.error(container, Problem::TooDeep { limit: self.limit }));
        }
        if let Some(parent) = self.path.last_mut() {
            parent.height = parent.height.max(height + 1);
        }
        Ok(())
    }

    fn leave(&mut self) {
        let Some(Step { container, height, .. }) = self.path.pop() else { return };
        self.states[container as usize] = State::Done(height);
        if let Some(parent) = self.path.last_mut() {
            parent.height = parent.height.max(height + 1);
        }
    }

    fn error(&self, container: u32, problem: Problem) -> PickleError {
        let offset = self.containers[container as usize].offset;
        PickleError { offset, opcode: "container", problem }
    }
}

//! Stack and memo operations of the opcodes.

use super::{Container, Machine, Problem, Value};

impl Machine<'_> {
    /// Returns the lowest accessible index of the stack, which is the position of the last mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    /// Returns the index of the first of the last `count` values.
    pub(super) fn last(&self, count: usize) -> Result<usize, Problem> {
        let start = self.stack.len().checked_sub(count).filter(|&start| start >= self.floor());
        start.ok_or(Problem::Nothing { expected: "more values" })
    }

    pub(super) fn top(&self, expected: &'static str) -> Result<Value, Problem> {
        let reachable = &self.stack[self.floor()..];
        reachable.last().copied().ok_or(Problem::Nothing { expected })
    }

    pub(super) fn pop(&mut self, expected: &'static str) -> Result<Value, Problem> {
        let top = self.top(expected)?;
        self.stack.pop();
        Ok(top)
    }

    /// Executes `POP`, which removes a mark if no value lies above it.
    pub(super) fn discard(&mut self) -> Result<(), Problem> {
        if self.stack.len() > self.floor() {
            self.stack.pop();
            return Ok(());
        }
        self.pop_mark().map(|_| ())
    }

    pub(super) fn pop_mark(&mut self) -> Result<usize, Problem> {
        self.marks.pop().ok_or(Problem::Nothing { expected: "a mark" })
    }

    /// Removes and returns the values above the last mark, and removes the mark.
    pub(super) fn pop_items(&mut self) -> Result<Vec<Value>, Problem> {
        let start = self.pop_mark()?;
        self.take_from(start)
    }

    /// Removes and returns the values from `start` up, in a vector without spare capacity.
    ///
    /// `split_off` may return the stack's own buffer. A pickle whose stack was once high could then create small lists
    /// with room for millions of items.
    pub(super) fn take_from(&mut self, start: usize) -> Result<Vec<Value>, Problem> {
        if start < self.stack.len() {
            self.budget.charge_table::<Value>(self.stack.len() - start)?;
        }
        Ok(self.stack.drain(start..).collect())
    }

    /// Moves the values from `start` up to the end of the list below them.
    pub(super) fn append_from(&mut self, start: usize) -> Result<(), Problem> {
        match self.below(start, "a list")? {
            Value::List(list) => self.move_into(list.index(), start),
            other => Err(Problem::Kind { expected: "a list", found: other.kind() }),
        }
    }

    /// Moves the values from `start` up, alternating keys and values, into the dictionary below them.
    pub(super) fn set_from(&mut self, start: usize) -> Result<(), Problem> {
        check_pairs(&self.stack[start..])?;
        match self.below(start, "a dictionary")? {
            Value::Dict(dict) => self.move_into(dict.index(), start),
            other => Err(Problem::Kind { expected: "a dictionary", found: other.kind() }),
        }
    }

    fn below(&self, start: usize, expected: &'static str) -> Result<Value, Problem> {
        let reachable = &self.stack[self.floor()..start];
        reachable.last().copied().ok_or(Problem::Nothing { expected })
    }

    fn move_into(&mut self, container: usize, start: usize) -> Result<(), Problem> {
        let items = &mut self.document.containers[container].items;
        self.budget.reserve(items, self.stack.len() - start)?;
        items.extend(self.stack.drain(start..));
        Ok(())
    }

    pub(super) fn recall(&mut self, index: u64) -> Result<(), Problem> {
        let place = usize::try_from(index).ok().and_then(|index| self.memo.get(index));
        let value = place.copied().flatten().ok_or(Problem::NotMemoized { index })?;
        self.push(value)
    }

    /// Stores a copy of the top of the stack in the memo.
    ///
    /// Python numbers the memo entries consecutively, and filling an entry takes at least one byte. So an index beyond
    /// the number of bytes read so far is an attempt to allocate a large memo.
    pub(super) fn memoize(&mut self, index: u64) -> Result<(), Problem> {
        let top = self.top("a value")?;
        let largest = self.source.offset();
        let place = usize::try_from(index).ok().filter(|&place| place <= largest);
        let place = place.ok_or(Problem::Memo { index, largest })?;
        if place >= self.memo.len() {
            let more = place + 1 - self.memo.len();
            self.budget.reserve(&mut self.memo, more)?;
            self.memo.resize(place + 1, None);
        }
        self.memoized += usize::from(self.memo[place].replace(top).is_none());
        Ok(())
    }
}

pub(super) fn next_index<T>(table: &[T]) -> u32 {
    u32::try_from(table.len()).expect("no table is longer than the count of values, of 32 bits")
}

/// Rejects an odd number of items, and keys that Python cannot hash.
pub(super) fn check_pairs(items: &[Value]) -> Result<(), Problem> {
    if !items.len().is_multiple_of(2) {
        return Err(Problem::Odd { count: items.len() });
    }
    let mut keys = items.iter().step_by(2);
    match keys.find(|key| matches!(key, Value::List(_) | Value::Dict(_))) {
        Some(key) => Err(Problem::Kind { expected: "a key", found: key.kind() }),
        None => Ok(()),
    }
}

/// Every large snapshot would grow with the size of these types.
const _: () = assert!(size_of::<Value>() == 16 && size_of::<Container>() == 32);

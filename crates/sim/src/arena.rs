//! Values in a list whose entries are reused, with keys that stay unique.

/// Index of a value, and the number of times the index was used before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    pub(crate) fn index(self) -> u32 {
        self.index
    }
}

#[derive(Debug)]
pub(crate) struct Arena<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Arena<T> {
    pub(crate) fn insert(&mut self, value: T) -> Key {
        let Some(index) = self.free.pop() else {
            let index = u32::try_from(self.slots.len()).expect("fewer than 2³² at once");
            self.slots.push((0, Some(value)));
            return Key { index, generation: 0 };
        };
        let (generation, slot) = &mut self.slots[index as usize];
        *slot = Some(value);
        Key { index, generation: *generation }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let value = self.slot_mut(key)?.take()?;
        let (generation, _) = &mut self.slots[key.index as usize];
        *generation = generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let (generation, slot) = self.slots.get(key.index as usize)?;
        slot.as_ref().filter(|_| *generation == key.generation)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.slot_mut(key)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|(_, slot)| slot.as_ref())
    }

    fn slot_mut(&mut self, key: Key) -> Option<&mut Option<T>> {
        let (generation, slot) = self.slots.get_mut(key.index as usize)?;
        (*generation == key.generation).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_find_the_next_value_in_its_place() {
        let mut arena = Arena::default();
        let first = arena.insert('a');
        assert_eq!(arena.remove(first), Some('a'));
        let second = arena.insert('b');
        assert_eq!(first.index(), second.index());
        assert_eq!((arena.get(first), arena.get(second)), (None, Some(&'b')));
        assert_eq!(arena.get_mut(first), None);
        assert_eq!(arena.remove(first), None);
        assert_eq!(arena.remove(second), Some('b'));
        assert_eq!(arena.remove(second), None);
    }
}

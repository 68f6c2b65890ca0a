//! Lists of entries in one memory.
//!
//! Places are used again, the one that was left last first, so what is pending lies close together however far
//! apart in time it is.

use super::Entry;

/// A list of entries: the place of the one that was put in last, or [`List::EMPTY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List(u32);

impl List {
    pub(super) const EMPTY: Self = Self(u32::MAX);
}

/// The entries of all lists, each with the rest of its list.
#[derive(Debug)]
pub(super) struct Lists<E> {
    nodes: Vec<(Entry<E>, List)>,
    /// The places that are free, as a list.
    free: List,
}

impl<E> Default for Lists<E> {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: List::EMPTY }
    }
}

impl<E: Copy> Lists<E> {
    #[inline]
    pub(super) fn put(&mut self, list: &mut List, entry: Entry<E>) {
        let node = (entry, *list);
        *list = self.free;
        if let Some(place) = self.nodes.get_mut(list.0 as usize) {
            self.free = std::mem::replace(place, node).1;
        } else {
            *list = List(u32::try_from(self.nodes.len()).expect("fewer than 2³² events at once"));
            self.nodes.push(node);
        }
    }

    /// Takes out the entry that was put in last.
    #[inline]
    pub(super) fn take(&mut self, list: &mut List) -> Option<Entry<E>> {
        let (entry, rest) = self.nodes.get_mut(list.0 as usize)?;
        let (entry, rest) = (*entry, std::mem::replace(rest, self.free));
        self.free = std::mem::replace(list, rest);
        Some(entry)
    }

    pub(super) fn iter(&self, list: List) -> impl Iterator<Item = &Entry<E>> {
        let node = |list: List| self.nodes.get(list.0 as usize);
        std::iter::successors(node(list), move |(_, rest)| node(*rest)).map(|(entry, _)| entry)
    }
}

//! Lists that grow without moving their elements.

/// Number of elements in a chunk.
pub(super) const CHUNK: usize = 128;

/// Append-only list of chunks, whose elements stay in place as it grows.
#[derive(Clone, Debug)]
pub struct Chunks<T> {
    /// Chunks; all but the last are full.
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T> Chunks<T> {
    /// Appends an element.
    pub fn push(&mut self, thing: T) {
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(thing),
            None => self.begin_chunk(thing),
        }
    }

    /// Begins a chunk. The first chunk grows as other lists do, because many lists are short.
    #[cold]
    fn begin_chunk(&mut self, thing: T) {
        let mut chunk = Vec::with_capacity(if self.chunks.is_empty() { 1 } else { CHUNK });
        chunk.push(thing);
        self.chunks.push(chunk);
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns an element; `None` beyond the last.
    pub fn get(&self, number: usize) -> Option<&T> {
        self.chunks.get(number / CHUNK)?.get(number % CHUNK)
    }

    /// Returns the elements from index `from` to the end of its chunk; empty beyond the last element.
    pub(super) fn together(&self, from: usize) -> &[T] {
        let chunk = self.chunks.get(from / CHUNK);
        chunk.and_then(|chunk| chunk.get(from % CHUNK..)).unwrap_or_default()
    }

    /// Returns all elements, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_in_chunks_is_like_any_other() {
        for count in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7] {
            let mut list = Chunks::default();
            (0..count).for_each(|number| list.push(number));
            assert_eq!((list.len(), list.is_empty()), (count, count == 0));
            assert!(list.iter().copied().eq(0..count));
            for number in 0..count + 2 * CHUNK {
                assert_eq!(list.get(number).copied(), (number < count).then_some(number));
                assert_eq!(list.together(number).first(), list.get(number));
            }
        }
    }

    #[test]
    fn what_is_in_it_stays_where_it_is() {
        let mut list = Chunks::default();
        (0..=CHUNK).for_each(|number| list.push(number));
        let place = std::ptr::from_ref(&list.together(CHUNK)[0]);
        (0..10 * CHUNK).for_each(|number| list.push(number));
        assert_eq!(std::ptr::from_ref(&list.together(CHUNK)[0]), place);
    }
}

//! Prefetching: loads run one item ahead of their use.

/// Fetches each item of an iterator when its predecessor is handed out. If items are loads, two are in the TCM: one in
/// use, and one in flight.
#[derive(Debug)]
pub struct Ahead<I: Iterator> {
    rest: I,
    next: Option<I::Item>,
}

/// Returns the items of an iterator, each fetched when its predecessor is handed out.
pub fn ahead<I: Iterator>(mut rest: I) -> Ahead<I> {
    let next = rest.next();
    Ahead { rest, next }
}

impl<I: Iterator> Iterator for Ahead<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let item = self.next.take();
        if item.is_some() {
            self.next = self.rest.next();
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn an_item_is_taken_when_the_one_before_is_handed_out() {
        let taken = Cell::new(0);
        let mut items = ahead((0..3).inspect(|_| taken.set(taken.get() + 1)));
        assert_eq!(taken.get(), 1);
        assert_eq!((items.next(), taken.get()), (Some(0), 2));
        assert_eq!((items.next(), taken.get()), (Some(1), 3));
        assert_eq!((items.next(), items.next()), (Some(2), None));
    }
}

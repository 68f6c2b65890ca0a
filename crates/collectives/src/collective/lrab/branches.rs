//! Combination of the values of a ring by one binary tree, whatever the order of their arrival.

use std::collections::BTreeMap;

/// Complete branches of a binary tree over the places of a ring.
///
/// A branch of level `l` and number `i` combines the existing places from `i · 2ˡ` to `(i + 1) · 2ˡ`, end excluded.
/// Its first operand is the branch of the lower places.
#[derive(Debug)]
pub(super) struct Branches<T> {
    /// Number of places in the ring.
    count: usize,
    /// Branches that wait for their siblings, by level and number.
    waiting: BTreeMap<(u32, usize), T>,
}

impl<T> Branches<T> {
    pub(super) fn new(count: usize) -> Self {
        Self { count, waiting: BTreeMap::new() }
    }

    /// Adds the value of a place and joins the branches that it completes; returns the root once all are joined.
    pub(super) fn add(&mut self, place: usize, value: T, join: impl Fn(&T, &T) -> T) -> Option<T> {
        let (mut level, mut number, mut branch) = (0, place, value);
        while number > 0 || 1 << level < self.count {
            let sibling = number ^ 1;
            if sibling << level < self.count {
                let Some(other) = self.waiting.remove(&(level, sibling)) else {
                    self.waiting.insert((level, number), branch);
                    return None;
                };
                let is_first = number < sibling;
                branch = if is_first { join(&branch, &other) } else { join(&other, &branch) };
            }
            (level, number) = (level + 1, number / 2);
        }
        Some(branch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(count: usize, places: impl Iterator<Item = usize>) -> String {
        let mut branches = Branches::new(count);
        let join = |a: &String, b: &String| format!("({a} {b})");
        let mut last = None;
        places.for_each(|place| last = branches.add(place, place.to_string(), join));
        assert!(branches.waiting.is_empty());
        last.expect("all were added")
    }

    #[test]
    fn the_tree_is_the_same_from_every_place_of_a_ring() {
        let trees = ["0", "(0 1)", "((0 1) 2)", "((0 1) (2 3))", "(((0 1) (2 3)) 4)"];
        for (count, tree) in (1..).zip(trees) {
            for at in 0..count {
                let come = (0..count).map(|step| (at + count - step) % count);
                assert_eq!(whole(count, come), tree);
            }
        }
    }
}

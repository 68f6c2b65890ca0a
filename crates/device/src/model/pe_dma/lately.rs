//! A small cache of recent lookups.

const FEW: usize = 4;

/// Cache of the last few lookups. Few results are in use at once, and each is looked up often.
#[derive(Clone, Debug)]
pub(super) struct Lately<T> {
    things: [Option<T>; FEW],
    /// Index of the entry to replace next.
    next: usize,
}

impl<T> Default for Lately<T> {
    fn default() -> Self {
        Self { things: [const { None }; FEW], next: 0 }
    }
}

impl<T> Lately<T> {
    pub(super) fn find(&self, mut is: impl FnMut(&T) -> bool) -> Option<&T> {
        self.things.iter().flatten().find(|thing| is(thing))
    }

    /// Adds an entry in place of the oldest.
    pub(super) fn keep(&mut self, thing: T) {
        self.things[self.next] = Some(thing);
        self.next = (self.next + 1) % FEW;
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_was_kept_goes_when_there_are_more() {
        let mut lately = Lately::default();
        (0..6).for_each(|thing| lately.keep(thing));
        let kept = |lately: &Lately<i32>| -> Vec<i32> {
            (0..6).filter(|thing| lately.find(|other| other == thing).is_some()).collect()
        };
        assert_eq!(kept(&lately), [2, 3, 4, 5]);
        lately.clear();
        lately.keep(1);
        assert_eq!(kept(&lately), [1]);
    }
}

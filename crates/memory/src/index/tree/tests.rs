//! The tree against a free list in a vector.

use super::page::LONG;
use super::{AddressTree, FreeRange};

/// The simplest possible free list, as a reference.
struct Model(Vec<(u64, u64)>);

impl Model {
    fn give_back(&mut self, start: u64, size: u64) {
        let place = self.0.partition_point(|&(own, _)| own < start);
        self.0.insert(place, (start, size));
        if self.0.get(place + 1).is_some_and(|&(own, _)| own == start + size) {
            self.0[place].1 += self.0.remove(place + 1).1;
        }
        if place > 0 && self.0[place - 1].0 + self.0[place - 1].1 == start {
            self.0[place - 1].1 += self.0.remove(place).1;
        }
    }

    fn take_front(&mut self, place: usize, units: u64) -> u64 {
        let (start, size) = self.0[place];
        self.0[place] = (start + units, size - units);
        self.0.retain(|&(_, size)| size > 0);
        start
    }
}

/// Ranges below and above the size limit of a page, and starting pages that were reused or never existed, give the
/// same results as the model.
#[test]
fn long_ranges_and_stale_pages_make_no_difference() {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let (mut tree, mut model) = (AddressTree::new(), Model(vec![(0, 1 << 50)]));
    tree.insert(FreeRange { start: 0, size: 1 << 50, link: 0 });
    let mut live = Vec::new();
    for step in 0..20_000_u64 {
        let target = if step / 2_500 % 2 == 0 { 1_500 } else { 20 };
        if live.len() < target && random(3) > 0 || live.is_empty() {
            let size = match random(8) {
                0 => LONG - 2 + random(5),
                1 => 2 * LONG - 2 + random(5),
                _ => 1 + random(1000),
            };
            let first = model.0.iter().position(|&(_, own)| own >= size).expect("room");
            let last = model.0.iter().rposition(|&(_, own)| own >= size).expect("room");
            let place = tree.last(size).expect("room");
            assert_eq!(tree.entry(place).start, model.0[last].0);
            let limit = model.0[last].0;
            let below = model.0[..last].iter().rfind(|&&(_, own)| own >= size);
            let found = tree.last_below(limit, size);
            assert_eq!(found.map(|entry| (entry.start, entry.size)), below.copied());
            let place = tree.first(size).expect("room");
            let at = tree.take_front(place, size);
            assert_eq!(at, model.take_front(first, size));
            live.push((at, size, place.page()));
        } else {
            let which = random(live.len() as u64) as usize;
            let (start, size, near) = live.swap_remove(which);
            let near = if random(4) == 0 { random(100) as u32 } else { near };
            let new = FreeRange { start, size, link: 0 };
            let (joined, neighbours) = tree.joined(new);
            let before = model.0.len();
            model.give_back(start, size);
            assert!(model.0.contains(&(joined.start, joined.size)));
            assert_eq!(model.0.len(), before + 1 - neighbours);
            if random(2) == 0 {
                tree.give_back(new, near);
            } else {
                let wanted = if random(8) == 0 { LONG - 2 + random(5) } else { random(1000) };
                let first = model.0.iter().find(|&&(_, own)| own >= wanted).expect("room");
                let place = tree.first_with(new, near, wanted).expect("room");
                assert_eq!(tree.entry(place).start, first.0);
            }
        }
        if step % 500 == 0 {
            let ranges: Vec<_> = tree.iter().map(|entry| (entry.start, entry.size)).collect();
            assert_eq!(ranges, model.0);
        }
        assert_eq!(tree.len(), model.0.len());
        assert_eq!(Some(tree.longest()), model.0.iter().map(|&(_, size)| size).max());
    }
}

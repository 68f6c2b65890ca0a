//! The seed's `_FreeList`, step by step: the reference for our free list.

/// Free ranges as `(start, size)`, sorted by start and searched from the front.
#[derive(Clone, Debug)]
pub(crate) struct SeedList {
    pub(crate) free: Vec<(u64, u64)>,
    pub(crate) used: u64,
}

impl SeedList {
    pub(crate) fn new(capacity: u64) -> Self {
        Self { free: vec![(0, capacity)], used: 0 }
    }

    pub(crate) fn allocate(&mut self, size: u64) -> Option<u64> {
        let at = self.free.iter().position(|&(_, free)| free >= size)?;
        let (start, free) = self.free[at];
        if free == size {
            self.free.remove(at);
        } else {
            self.free[at] = (start + size, free - size);
        }
        self.used += size;
        Some(start)
    }

    pub(crate) fn free(&mut self, offset: u64, size: u64) {
        self.used -= size;
        let (mut offset, mut size) = (offset, size);
        let mut at = self.free.partition_point(|&(start, _)| start < offset);
        if at > 0 && self.free[at - 1].0 + self.free[at - 1].1 == offset {
            at -= 1;
            let (start, before) = self.free.remove(at);
            (offset, size) = (start, before + size);
        }
        if at < self.free.len() && offset + size == self.free[at].0 {
            size += self.free.remove(at).1;
        }
        self.free.insert(at, (offset, size));
    }
}

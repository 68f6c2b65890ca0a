//! Contents of memory in data mode: exact to the byte, and sparse.
//!
//! A value becomes visible when its write reaches the memory. Bytes that were never written read as zero, and can be
//! distinguished from zeros that were written.

use std::collections::BTreeMap;

use crate::shared_memory::DealtCube;

/// Page size of this store, in bytes; it does not affect the simulated machine.
const PAGE: usize = 4096;

/// Contents of one memory.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    /// End of each written range by its start; ranges neither touch nor overlap.
    written: BTreeMap<u64, u64>,
    /// Memory of another owner that holds the contents instead of the pages.
    shared: Option<DealtCube>,
}

impl Contents {
    /// Makes memory of another owner the contents.
    pub(crate) fn share(&mut self, memory: DealtCube) {
        *self = Self { shared: Some(memory), ..Self::default() };
    }

    /// Writes bytes at an address.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        if let Some(shared) = &self.shared {
            return shared.write(address, bytes);
        }
        let mut at = address;
        for piece in pieces(address, bytes.len()) {
            let page = self.pages.entry(at / PAGE as u64).or_insert_with(|| Box::new([0; PAGE]));
            let into = offset(at);
            let source = usize::try_from(at - address).expect("within the bytes");
            page[into..into + piece].copy_from_slice(&bytes[source..source + piece]);
            at += piece as u64;
        }
        self.note(address, at);
    }

    /// Returns the bytes of a range; bytes that were never written are zero.
    pub fn read(&self, address: u64, bytes: usize) -> Vec<u8> {
        if let Some(shared) = &self.shared {
            return shared.read(address, bytes);
        }
        let mut read = Vec::with_capacity(bytes);
        let mut at = address;
        for piece in pieces(address, bytes) {
            match self.pages.get(&(at / PAGE as u64)) {
                Some(page) => read.extend_from_slice(&page[offset(at)..][..piece]),
                None => read.resize(read.len() + piece, 0),
            }
            at += piece as u64;
        }
        read
    }

    /// Returns the first address in a range that was never written. Shared memory counts as written, because its owner
    /// writes it as well.
    pub fn unwritten(&self, address: u64, bytes: u64) -> Option<u64> {
        if self.shared.is_some() {
            return None;
        }
        let end = address + bytes;
        let known = self.written.range(..=address).next_back();
        match known.map(|(_, &until)| until).filter(|&until| until > address) {
            Some(until) if until >= end => None,
            Some(until) => Some(until),
            None => (bytes > 0).then_some(address),
        }
    }

    /// Removes the contents of a range, as when its memory is freed.
    pub fn forget(&mut self, address: u64, bytes: u64) {
        let end = address + bytes;
        let touched: Vec<_> = self
            .written
            .range(..end)
            .rev()
            .take_while(|&(_, &until)| until > address)
            .map(|(&from, &until)| (from, until))
            .collect();
        for (from, until) in touched {
            self.written.remove(&from);
            if from < address {
                self.written.insert(from, address);
            }
            if until > end {
                self.written.insert(end, until);
            }
        }
        let (first, last) = (address.div_ceil(PAGE as u64), end / PAGE as u64);
        if first < last {
            let kept = self.pages.split_off(&last);
            self.pages.split_off(&first);
            self.pages.extend(kept);
        }
    }

    /// Returns the size of the stored pages, in bytes.
    pub fn footprint(&self) -> usize {
        self.pages.len() * PAGE
    }

    fn note(&mut self, mut from: u64, mut until: u64) {
        let touching: Vec<_> = self
            .written
            .range(..=until)
            .rev()
            .take_while(|&(_, &end)| end >= from)
            .map(|(&start, &end)| (start, end))
            .collect();
        for (start, end) in touching {
            self.written.remove(&start);
            (from, until) = (from.min(start), until.max(end));
        }
        self.written.insert(from, until);
    }
}

fn offset(address: u64) -> usize {
    usize::try_from(address % PAGE as u64).expect("less than a page")
}

/// Splits a range at page boundaries and returns the lengths of its pieces.
fn pieces(address: u64, bytes: usize) -> impl Iterator<Item = usize> {
    let mut left = bytes;
    let mut room = PAGE - offset(address);
    std::iter::from_fn(move || {
        let piece = left.min(std::mem::replace(&mut room, PAGE));
        left -= piece;
        (piece > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, Vec<u8>),
        Forget(u64, u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let place = 0..20_000_u64;
        let write = (place.clone(), proptest::collection::vec(any::<u8>(), 1..6000));
        let step = prop_oneof![
            3 => write.prop_map(|(at, bytes)| Step::Write(at, bytes)),
            1 => (place, 1..9000_u64).prop_map(|(at, bytes)| Step::Forget(at, bytes)),
        ];
        proptest::collection::vec(step, 1..30)
    }

    proptest! {
        #[test]
        fn it_holds_what_a_plain_array_holds(steps in steps(), at in 0..26_000_u64, len in 1..3000_u64) {
            let mut contents = Contents::default();
            let mut plain = vec![None; 30_000];
            for step in steps {
                match step {
                    Step::Write(at, bytes) => {
                        contents.write(at, &bytes);
                        for (place, byte) in plain.iter_mut().skip(usize::try_from(at).unwrap()).zip(bytes) {
                            *place = Some(byte);
                        }
                    }
                    Step::Forget(at, bytes) => {
                        contents.forget(at, bytes);
                        let (at, bytes) = (usize::try_from(at).unwrap(), usize::try_from(bytes).unwrap());
                        plain[at..at + bytes].fill(None);
                    }
                }
            }
            let range = usize::try_from(at).unwrap()..usize::try_from(at + len).unwrap();
            let read = contents.read(at, range.len());
            for (byte, expected) in read.iter().zip(&plain[range.clone()]) {
                prop_assert!(expected.is_none_or(|expected| expected == *byte));
            }
            let hole = plain[range].iter().position(Option::is_none).map(|place| at + place as u64);
            prop_assert_eq!(contents.unwritten(at, len), hole);
        }
    }
}

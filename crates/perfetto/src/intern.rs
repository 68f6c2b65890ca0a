//! Interned strings: written once and referred to by number.

use std::collections::BTreeMap;

use super::field;
use super::wire::MessageBuffer;

/// Strings of one kind, numbered from one in the order of their first use.
#[derive(Debug, Default)]
pub(super) struct Interner {
    iids: BTreeMap<Box<str>, u64>,
    texts: Vec<Box<str>>,
}

impl Interner {
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Returns the number of `text`; assigns a new one at the first use.
    pub(super) fn iid(&mut self, text: &str) -> u64 {
        if let Some(&iid) = self.iids.get(text) {
            return iid;
        }
        self.texts.push(text.into());
        let iid = self.texts.len() as u64;
        self.iids.insert(text.into(), iid);
        iid
    }

    /// Writes all strings after the first `known`, each as a message in the field `number`.
    pub(super) fn encode_since(&self, known: usize, number: u32, data: &mut MessageBuffer) {
        for (text, iid) in self.texts.iter().zip(1..).skip(known) {
            data.message(number, |entry| {
                entry.uint(field::INTERNED_IID, iid);
                entry.text(field::INTERNED_NAME, text);
            });
        }
    }
}

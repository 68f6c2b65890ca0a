//! A PE's MMU: translation of virtual addresses, and its latency.

use std::collections::BTreeMap;

use cubeyard_memory::Bytes;
use cubeyard_memory::address::PhysAddr;
use cubeyard_memory::page_table::{MapError, PageTable};
use cubeyard_sim::Span;

use crate::message::{Mapping, Rows};
use crate::request::PeRef;
use crate::shared_memory::Dealt;
use crate::topology::MmuSpec;

/// MMU of a PE, `PE_MMU`. Stateless in time: pure address translation.
#[derive(Clone, Debug)]
pub struct Mmu {
    spec: MmuSpec,
    table: PageTable,
    /// Memory that the machine shares with its owner, which needs no mappings, and the PE that asks for places.
    shared: Vec<(Dealt, PeRef)>,
    tlb: Option<Box<Tlb>>,
    counts: MmuCounts,
}

/// Counters of an MMU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmuCounts {
    /// Number of translated accesses.
    pub translations: u64,
    /// Number of accesses to unmapped addresses.
    pub faults: u64,
    /// Number of page lookups that hit the TLB.
    pub tlb_hits: u64,
    /// Number of page lookups that missed the TLB.
    pub tlb_misses: u64,
}

/// Physical ranges of a range of virtual addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Physical ranges, in the order of the virtual addresses.
    pub pieces: Vec<(PhysAddr, u64)>,
    /// Duration of the translation.
    pub span: Span,
}

/// Part of an access that lies in one memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Physical address of the first byte.
    pub to: PhysAddr,
    /// Number of bytes to move.
    pub bytes: u64,
    /// Layout of the bytes, if they are not contiguous.
    pub rows: Option<Rows>,
}

impl Piece {
    /// Returns the distance from the first byte to the end of the last in memory, in bytes.
    pub(super) fn extent(&self) -> u64 {
        self.rows.map_or(self.bytes, |rows| rows.extent(self.bytes))
    }
}

/// Access to an unmapped address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Virtual address without a mapping.
    pub address: u64,
    /// Duration of the failed translation.
    pub span: Span,
}

impl Mmu {
    /// Creates an MMU without mappings.
    pub fn new(spec: MmuSpec) -> Self {
        let tlb = spec.tlb_entries.map(|entries| Box::new(Tlb::new(entries)));
        let (table, shared) = (PageTable::default(), Vec::new());
        Self { spec, table, shared, tlb, counts: MmuCounts::default() }
    }

    /// Adds shared memory, whose places follow from a rule.
    pub(crate) fn share(&mut self, memory: Dealt, pe: PeRef) {
        self.shared.push((memory, pe));
    }

    /// Adds all mappings, or none if one of them fails.
    pub fn map(&mut self, mappings: &[Mapping]) -> Result<(), MapError> {
        for (done, mapping) in mappings.iter().enumerate() {
            if let Err(error) = self.table.map(mapping.from, Bytes::new(mapping.bytes), mapping.to)
            {
                self.unmap(&mappings[..done]).expect("they were mapped just now");
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes mappings. A missing mapping is an error, but the others are still removed.
    pub fn unmap(&mut self, mappings: &[Mapping]) -> Result<(), MapError> {
        let mut result = Ok(());
        for mapping in mappings {
            let unmapped = self.table.unmap(mapping.from, Bytes::new(mapping.bytes));
            if let Some(tlb) = &mut self.tlb {
                let page = self.spec.page.get();
                tlb.forget(mapping.from / page, (mapping.from + mapping.bytes - 1) / page);
            }
            result = result.and(unmapped);
        }
        result
    }

    /// Translates a range of virtual addresses.
    pub fn translate(&mut self, address: u64, bytes: u64) -> Result<Translation, Fault> {
        self.counts.translations += 1;
        let span = self.spec.tlb_overhead + self.look_up(address, bytes);
        let mut pieces: Vec<(PhysAddr, u64)> = Vec::new();
        let mut at = address;
        while at < address + bytes {
            let Some((to, left)) = self.place(at) else {
                self.counts.faults += 1;
                return Err(Fault { address: at, span });
            };
            let piece = left.min(address + bytes - at);
            match pieces.last_mut() {
                Some((from, length)) if from.to_bits() + *length == to.to_bits() => {
                    *length += piece;
                }
                _ => pieces.push((to, piece)),
            }
            at += piece;
        }
        Ok(Translation { pieces, span })
    }

    /// Translates rows of virtual addresses, in the order of the moved data. Rows stay one piece if they have the same
    /// pitch in one memory as in the virtual range.
    pub fn translate_rows(
        &mut self,
        address: u64,
        bytes: u64,
        rows: Option<Rows>,
    ) -> Result<(Vec<Piece>, Span), Fault> {
        let whole = |(to, bytes)| Piece { to, bytes, rows: None };
        let Some(rows) = rows else {
            let Translation { pieces, span } = self.translate(address, bytes)?;
            return Ok((pieces.into_iter().map(whole).collect(), span));
        };
        if let Some(mapping) = self.mapping(address)
            && let Some((piece, span)) = self.translate_within(&mapping, address, bytes, Some(rows))
        {
            return Ok((vec![piece], span));
        }
        let (mut pieces, mut span) = (Vec::new(), Span::ZERO);
        for (offset, bytes) in rows.segments(0, bytes) {
            let row = self.translate(address + offset, bytes)?;
            span = span.max(self.spec.tlb_overhead) + (row.span - self.spec.tlb_overhead);
            row.pieces.into_iter().for_each(|piece| join(&mut pieces, piece, rows));
        }
        Ok((pieces, span))
    }

    /// Translates an access within one mapping; `None` if it extends beyond the mapping, or if there is a TLB.
    pub fn translate_within(
        &mut self,
        mapping: &Mapping,
        address: u64,
        bytes: u64,
        rows: Option<Rows>,
    ) -> Option<(Piece, Span)> {
        let into = address.checked_sub(mapping.from)?;
        let left = mapping.bytes.checked_sub(into)?;
        if self.tlb.is_some() || bytes == 0 {
            return None;
        }
        let to = PhysAddr::from_bits(mapping.to.to_bits() + into).ok()?;
        let piece = Piece { to, bytes, rows };
        (piece.extent() <= left).then(|| {
            self.counts.translations += 1;
            (piece, self.spec.tlb_overhead)
        })
    }

    /// Returns the mapping of an address, unless it lies in shared memory; without any effect on time or counters.
    pub fn mapping(&self, address: u64) -> Option<Mapping> {
        let (from, bytes, to) = self.table.mapping(address)?;
        Some(Mapping { from, bytes: bytes.get(), to })
    }

    /// Returns the physical address, and the number of contiguous bytes from there on, without any effect on time or
    /// counters.
    pub fn place(&self, address: u64) -> Option<(PhysAddr, u64)> {
        let mapped = self.table.translate(address).map(|(to, left)| (to, left.get()));
        mapped.or_else(|| {
            self.shared.iter().find_map(|(memory, pe)| memory.borrow_mut().place(address, *pe))
        })
    }

    /// Returns the duration of a translation without TLB misses.
    pub fn overhead(&self) -> Span {
        self.spec.tlb_overhead
    }

    /// Returns whether an access to an unmapped address is an error.
    pub fn is_strict(&self) -> bool {
        self.spec.strict
    }

    /// Returns the counts of translations, faults and TLB lookups.
    pub fn counts(&self) -> MmuCounts {
        self.counts
    }

    /// Returns the number of mappings.
    pub fn mappings(&self) -> usize {
        self.table.len()
    }

    fn page(&self) -> u64 {
        self.spec.page.get()
    }

    /// Looks up the pages of a range in the TLB, and returns the total latency of the misses.
    fn look_up(&mut self, address: u64, bytes: u64) -> Span {
        let (first, last) = (address / self.page(), (address + bytes - 1) / self.page());
        let Some(tlb) = &mut self.tlb else { return Span::ZERO };
        let misses = (first..=last).filter(|&page| !tlb.touch(page)).count() as u64;
        self.counts.tlb_misses += misses;
        self.counts.tlb_hits += last - first + 1 - misses;
        self.spec.tlb_miss * misses
    }
}

/// Adds a part of a row to the pieces; extends the last piece if the part continues its rows.
fn join(pieces: &mut Vec<Piece>, (to, bytes): (PhysAddr, u64), rows: Rows) {
    if bytes == rows.bytes
        && let Some(last) = pieces.last_mut()
        && last.rows.is_some()
        && to.to_bits() == last.to.to_bits() + last.bytes / rows.bytes * rows.pitch
    {
        last.bytes += bytes;
        return;
    }
    let rows = (bytes == rows.bytes).then_some(rows);
    pieces.push(Piece { to, bytes, rows });
}

#[derive(Clone, Debug)]
struct Tlb {
    entries: usize,
    /// Number of the last use of each page; uses are counted.
    used: BTreeMap<u64, u64>,
    /// Page of each use, by the number of the use.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
}

impl Tlb {
    fn new(entries: u32) -> Self {
        Self { entries: entries as usize, used: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// Marks a page as used, and returns whether it was in the TLB.
    fn touch(&mut self, page: u64) -> bool {
        self.uses += 1;
        let before = self.used.insert(page, self.uses);
        if let Some(before) = before {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.uses, page);
        if self.used.len() > self.entries
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.used.remove(&oldest);
        }
        before.is_some()
    }

    fn forget(&mut self, first: u64, last: u64) {
        let gone: Vec<_> =
            self.used.range(first..=last).map(|(&page, &used)| (page, used)).collect();
        for (page, used) in gone {
            self.used.remove(&page);
            self.by_use.remove(&used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tlb_drops_the_page_that_was_used_longest_ago() {
        let mut tlb = Tlb::new(2);
        let held: Vec<_> = [1, 2, 1, 3, 1, 2].map(|page| tlb.touch(page)).to_vec();
        assert_eq!(held, [false, false, true, false, true, false]);
    }
}

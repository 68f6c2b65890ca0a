//! Times at which the PEs and the PCIe links of the machine are free. Work takes them whole.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::trial::{self, Part};
pub use crate::trial::{Direction, Link, Pe};

/// Parts of the machine that work takes for itself.
#[derive(Clone, Copy, Debug)]
pub enum Claim<'a> {
    /// PEs in a list.
    Pes(&'a [Pe]),
    /// All PEs of a SIP.
    Sip(u32),
    /// Directions of PCIe links.
    Links(&'a [Link]),
}

/// Times up to which the parts of the machine are busy, in picoseconds. A part that is not listed has had no work.
struct Busy {
    sips: BTreeMap<u32, Sip>,
    links: BTreeMap<Link, u64>,
}

static BUSY: Mutex<Busy> = Mutex::new(Busy { sips: BTreeMap::new(), links: BTreeMap::new() });

/// Times of the PEs of a SIP. Most work takes all of them, which is one number.
#[derive(Default)]
struct Sip {
    /// Time up to which every PE is busy.
    all: u64,
    /// Time up to which some PE is busy.
    latest: u64,
    /// Later times of single PEs, by cube and PE.
    later: BTreeMap<(u32, u32), u64>,
}

impl Sip {
    fn free(&self, cube: u32, pe: u32) -> u64 {
        self.later.get(&(cube, pe)).map_or(self.all, |time| self.all.max(*time))
    }

    fn keep(&mut self, cube: u32, pe: u32, end: u64) {
        self.later.insert((cube, pe), end);
        self.latest = self.latest.max(end);
    }

    fn keep_all(&mut self, end: u64) {
        *self = Self { all: end, latest: end, later: BTreeMap::new() };
    }
}

/// Parts that no other work can take at the same time.
pub(crate) struct Taken<'a> {
    busy: MutexGuard<'static, Busy>,
    claim: Claim<'a>,
}

impl<'a> Taken<'a> {
    /// Takes parts. The launches of other threads wait in real time until they are released.
    pub(crate) fn new(claim: Claim<'a>) -> Self {
        Self { busy: BUSY.lock().unwrap_or_else(PoisonError::into_inner), claim }
    }

    /// Returns the time at which all of them are free.
    pub(crate) fn free(&self) -> u64 {
        match self.claim {
            Claim::Pes(pes) => pes.iter().map(|pe| self.pe(*pe)).max(),
            Claim::Sip(sip) => Some(self.sip(sip)),
            Claim::Links(links) => links.iter().map(|link| self.link(*link)).max(),
        }
        .unwrap_or(0)
    }

    fn pe(&self, (sip, cube, pe): Pe) -> u64 {
        let real = self.busy.sips.get(&sip).map_or(0, |sip| sip.free(cube, pe));
        let tried = trial::time(Part::Pe((sip, cube, pe))).max(trial::time(Part::Sip(sip)));
        real.max(tried)
    }

    fn sip(&self, sip: u32) -> u64 {
        let real = self.busy.sips.get(&sip).map_or(0, |sip| sip.latest);
        real.max(trial::time(Part::Sip(sip))).max(trial::latest_pe(sip))
    }

    fn link(&self, link: Link) -> u64 {
        let real = self.busy.links.get(&link).copied().unwrap_or(0);
        real.max(trial::time(Part::Link(link)))
    }

    /// Keeps all of them busy until `end`, and releases them.
    pub(crate) fn keep(mut self, end: u64) {
        let Busy { sips, links } = &mut *self.busy;
        match self.claim {
            Claim::Pes(pes) => {
                for &(sip, cube, pe) in pes {
                    if !trial::raise(Part::Pe((sip, cube, pe)), end) {
                        sips.entry(sip).or_default().keep(cube, pe, end);
                    }
                }
            }
            Claim::Sip(sip) => {
                if !trial::raise(Part::Sip(sip), end) {
                    sips.entry(sip).or_default().keep_all(end);
                }
            }
            Claim::Links(taken) => {
                for link in taken {
                    if !trial::raise(Part::Link(*link), end) {
                        links.insert(*link, end);
                    }
                }
            }
        }
    }
}

//! Recordings kept for reuse by equal launches.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use cubeyard_runtime::{BoundArgument, Site};

use crate::kernel::{Kernel, WeakKernel};
use crate::program::Recording;

/// Default maximum number of steps in all kept recordings.
const MOST_STEPS: usize = 1 << 22;

/// The recordings of a launcher, by kernel and by everything else that they depend on.
///
/// The recordings of a kernel are kept as long as the kernel or a clone of it is alive. Above a total limit, the least
/// recently used ones are dropped.
#[derive(Debug)]
pub(super) struct Recordings {
    /// Recordings by the identity of the kernel, which is not reused while it is a key here.
    kernels: BTreeMap<usize, OfKernel>,
    /// Number of steps in all recordings, and its limit.
    steps: usize,
    limit: usize,
    /// Logical clock, which counts every lookup.
    uses: u64,
}

#[derive(Debug)]
struct OfKernel {
    kernel: WeakKernel,
    recordings: BTreeMap<String, Kept>,
}

#[derive(Debug)]
struct Kept {
    recording: Recording,
    /// Times of creation and last use, on the logical clock.
    made: u64,
    used: u64,
    /// The tensors against which the recording's accesses were last checked.
    live: Rc<Vec<Range<u64>>>,
}

impl Default for Recordings {
    fn default() -> Self {
        Self { kernels: BTreeMap::new(), steps: 0, limit: MOST_STEPS, uses: 0 }
    }
}

impl Recordings {
    pub(super) fn limit(self, steps: usize) -> Self {
        Self { limit: steps, ..self }
    }

    /// Returns the recording of a kernel for a PE of a launch: a kept one, or a new one. The addresses of a kept
    /// recording are checked again, because tensors may have been freed.
    pub(super) fn find(
        &mut self,
        kernel: &Kernel,
        site: &Site,
        arguments: &[BoundArgument],
        make: impl FnOnce() -> Result<Recording, String>,
    ) -> Result<Recording, String> {
        self.uses += 1;
        let key = key(site, arguments);
        let of_kernel = self.kernels.get_mut(&kernel.identity());
        if let Some(kept) = of_kernel.and_then(|of_kernel| of_kernel.recordings.get_mut(&key)) {
            kept.check(site)?;
            kept.used = self.uses;
            return Ok(kept.recording.clone());
        }
        let recording = make()?;
        self.keep(kernel, key, recording.clone(), &site.live);
        Ok(recording)
    }

    fn keep(
        &mut self,
        kernel: &Kernel,
        key: String,
        recording: Recording,
        live: &Rc<Vec<Range<u64>>>,
    ) {
        if !self.kernels.contains_key(&kernel.identity()) {
            self.forget_kernels();
        }
        self.steps += recording.tape().len();
        let of_kernel = self.kernels.entry(kernel.identity()).or_insert_with(|| OfKernel {
            kernel: kernel.downgrade(),
            recordings: BTreeMap::new(),
        });
        let (made, used) = (self.uses, self.uses);
        of_kernel.recordings.insert(key, Kept { recording, made, used, live: Rc::clone(live) });
    }

    /// Drops the recordings of kernels that no longer exist.
    fn forget_kernels(&mut self) {
        self.kernels.retain(|_, of_kernel| {
            let stays = of_kernel.kernel.is_alive();
            if !stays {
                self.steps -= of_kernel.recordings.values().map(Kept::steps).sum::<usize>();
            }
            stays
        });
    }

    /// Drops the least recently used recordings until the rest is within the limit.
    pub(super) fn trim(&mut self) {
        if self.steps <= self.limit {
            return;
        }
        self.forget_kernels();
        let mut kept: Vec<_> = self.kept().map(|kept| (kept.used, kept.steps())).collect();
        kept.sort_unstable();
        let mut surplus = self.steps.saturating_sub(self.limit);
        let gone = kept.iter().take_while(|(_, steps)| {
            let goes = surplus > 0;
            surplus = surplus.saturating_sub(*steps);
            goes
        });
        if let Some(&(last, _)) = gone.last() {
            self.forget_until(last);
        }
    }

    /// Drops the recordings whose last use is not after `used`.
    fn forget_until(&mut self, used: u64) {
        for of_kernel in self.kernels.values_mut() {
            of_kernel.recordings.retain(|_, kept| {
                let stays = kept.used > used;
                self.steps -= if stays { 0 } else { kept.steps() };
                stays
            });
        }
    }

    fn kept(&self) -> impl Iterator<Item = &Kept> {
        self.kernels.values().flat_map(|of_kernel| of_kernel.recordings.values())
    }

    /// Returns all recordings in the order in which they were made.
    pub(super) fn all(&self) -> Vec<Recording> {
        let mut kept: Vec<_> = self.kept().collect();
        kept.sort_unstable_by_key(|kept| kept.made);
        kept.into_iter().map(|kept| kept.recording.clone()).collect()
    }
}

impl Kept {
    fn steps(&self) -> usize {
        self.recording.tape().len()
    }

    /// Checks the addresses again, unless the tensors are unchanged since the last check.
    fn check(&mut self, site: &Site) -> Result<(), String> {
        if *self.live != *site.live {
            self.recording.check_live(&site.live)?;
            self.live = Rc::clone(&site.live);
        }
        Ok(())
    }
}

/// Returns a key of everything that a recording depends on, except the kernel.
fn key(site: &Site, arguments: &[BoundArgument]) -> String {
    let Site { pe, index, count, group, .. } = site;
    format!("{pe} {index:?} {count:?} {group} {arguments:?}")
}

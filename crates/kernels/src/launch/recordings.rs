//! Recordings that are kept for launches that are alike.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use cubeyard_runtime::{BoundArgument, Site};

use crate::kernel::{Kernel, WeakKernel};
use crate::program::Recording;

/// Steps that are kept of all recordings together, if nothing is said.
const MOST_STEPS: usize = 1 << 22;

/// The recordings of a launcher, by kernel and by what else they depend on.
///
/// Those of a kernel are kept as long as the kernel or a clone of it is alive, and all together have a limit:
/// beyond it, those that were not used for longest are forgotten.
#[derive(Debug)]
pub(super) struct Recordings {
    /// By the identity of the kernel. An identity is not used again as long as it is here.
    kernels: BTreeMap<usize, OfKernel>,
    /// Steps of all recordings, and the most that are kept.
    steps: usize,
    limit: usize,
    /// How often a recording was made or used.
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
    /// When it was made, and last used.
    made: u64,
    used: u64,
    /// The tensors that its accesses were last checked against.
    live: Rc<Vec<Range<u64>>>,
}

impl Default for Recordings {
    fn default() -> Self {
        Self { kernels: BTreeMap::new(), steps: 0, limit: MOST_STEPS, uses: 0 }
    }
}

impl Recordings {
    /// Keeps no more than so many steps.
    pub(super) fn limit(self, steps: usize) -> Self {
        Self { limit: steps, ..self }
    }

    /// The recording of a kernel for a PE of a launch: one that is kept, or the one that is made now. The
    /// addresses of one that is kept are checked again: tensors come and go.
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

    /// Forgets the recordings of kernels that are gone.
    fn forget_kernels(&mut self) {
        self.kernels.retain(|_, of_kernel| {
            let stays = of_kernel.kernel.is_alive();
            if !stays {
                self.steps -= of_kernel.recordings.values().map(Kept::steps).sum::<usize>();
            }
            stays
        });
    }

    /// Forgets what was not used for longest, until the rest is within the limit.
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

    /// Forgets what was not used after this.
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

    /// All that is kept, in the order in which it was made.
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

    /// Checks the addresses again, unless the tensors are those that they were checked against.
    fn check(&mut self, site: &Site) -> Result<(), String> {
        if *self.live != *site.live {
            self.recording.check_live(&site.live)?;
            self.live = Rc::clone(&site.live);
        }
        Ok(())
    }
}

/// All that a recording depends on besides its kernel.
fn key(site: &Site, arguments: &[BoundArgument]) -> String {
    let Site { pe, index, count, group, .. } = site;
    format!("{pe} {index:?} {count:?} {group} {arguments:?}")
}

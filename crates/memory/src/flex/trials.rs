//! Trials: each remedy is tried on a replica of the allocator before a report names it.

mod replica;
mod settings;
mod streams;

use tracing::dispatcher::{self, Dispatch};

use super::config::FlexConfig;
use super::error::{OutOfMemory, RegionLimit};
use super::remedy::{Remedy, RemedyBasis, RemedyStep, Tried};
use super::still::{Still, StillBlock, StillState};
use super::{FlexAllocator, VirtualAddress};
use crate::Bytes;
use replica::Figures;

impl OutOfMemory {
    /// Returns the remedies under which the request fits. The first call tries them on replicas of the allocator as it
    /// was when the request failed; no lock is held. The result is empty if no remedy helps, and if none was tried: with
    /// more than 10,000 live blocks, and in a report to a callback.
    pub fn remedies(&self) -> &[Remedy] {
        self.tried().map_or(&[], |tried| &tried.remedies)
    }

    pub(super) fn tried(&self) -> Option<&Tried> {
        let still = self.still.as_deref()?;
        // The steps of a replica do not belong into the log of the allocator.
        let quiet =
            || dispatcher::with_default(&Dispatch::none(), || Trials::run(still, self.limit));
        Some(still.tried.get_or_init(quiet))
    }
}

/// The trials for one still.
struct Trials<'a> {
    still: &'a Still,
    limit: RegionLimit,
    tried: Tried,
}

impl<'a> Trials<'a> {
    fn run(still: &'a Still, limit: RegionLimit) -> Tried {
        let tried = Tried { remedies: Vec::new(), count: 0, unjudged: None };
        let mut trials = Self { still, limit, tried };
        let outcome = still.on_layout(trials.config(), |_, _| true, |_| ());
        // If the request fits as it is, a change to the allocator proves nothing.
        if !trials.step(RemedyStep::Retry, outcome) {
            trials.try_steps();
            trials.try_freeing();
            trials.try_settings();
        }
        trials.tried
    }

    /// Records the outcome of a trial, and returns whether the request fitted.
    fn note(&mut self, step: RemedyStep, basis: RemedyBasis, outcome: Option<Figures>) -> bool {
        self.tried.count += 1;
        let remedy =
            outcome.map(|Figures { reserved, largest }| Remedy { step, basis, reserved, largest });
        self.tried.remedies.extend(remedy);
        outcome.is_some()
    }

    fn step(&mut self, step: RemedyStep, outcome: Option<Figures>) -> bool {
        self.note(step, RemedyBasis::Layout, outcome)
    }

    fn config(&self) -> FlexConfig {
        self.still.config.clone()
    }

    /// Tries what can be done to the allocator as it is.
    fn try_steps(&mut self) {
        let still = self.still;
        if still.is_pending() {
            let stays = |_: &_, block: &StillBlock| block.state != StillState::Pending;
            let outcome = still.on_layout(self.config(), stays, |_| ());
            self.step(RemedyStep::Synchronize, outcome);
        }
        let mut bytes = Bytes::ZERO;
        let trim = |replica: &FlexAllocator| bytes = replica.trim();
        let outcome = still.on_layout(self.config(), |_, _| true, trim);
        let trimmed = self.step(RemedyStep::Trim { bytes }, outcome);
        let compacted = self.try_compaction(false);
        if !trimmed && !compacted {
            self.try_compaction(true);
        }
        if let RegionLimit::Launches(_) = self.limit {
            let entries = still.device.entries_without_launches;
            let outcome = still.on_layout_of(entries, self.config(), |_, _| true, |_| ());
            self.step(RemedyStep::DropLaunches, outcome);
        }
        self.try_limit();
    }

    /// Tries higher limits of the request's pool.
    fn try_limit(&mut self) {
        let still = self.still;
        let Some((pool, limits)) = still.higher_limits() else { return };
        for limit in limits {
            let raise = |replica: &FlexAllocator| {
                let pool = replica.shared.pools.get(pool.id);
                pool.inspect(|pool| pool.set_limit(Some(limit)));
            };
            let outcome = still.on_layout(self.config(), |_, _| true, raise);
            let (pool, name) = (pool.id, pool.name.clone());
            if self.step(RemedyStep::RaiseLimit { pool, name, limit }, outcome) {
                return;
            }
        }
    }

    fn try_compaction(&mut self, trim: bool) -> bool {
        let mut bytes = Bytes::ZERO;
        let compact = |replica: &FlexAllocator| {
            let plan = replica.compact();
            bytes = plan.moves().map(|step| step.size).sum();
            plan.commit();
            if trim {
                replica.trim();
            }
        };
        let outcome = self.still.on_layout(self.config(), |_, _| true, compact);
        // Without a move, the request was merely tried again.
        let outcome = outcome.filter(|_| !bytes.is_zero());
        self.step(RemedyStep::Compact { bytes, trim }, outcome)
    }

    /// Tries to free adjacent blocks, the fewest bytes first.
    fn try_freeing(&mut self) {
        let still = self.still;
        for window in still.windows() {
            let (region, bytes) = (window.region.slot, window.bytes);
            let offsets: Vec<_> = window.blocks.iter().map(|block| block.offset).collect();
            let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
            let outcome = still.on_layout(
                self.config(),
                |at, block| at.slot != region || block.offset < first || block.offset > last,
                |_| (),
            );
            let region_id = window.region.id;
            let blocks = offsets.into_iter().map(|offset| VirtualAddress { region_id, offset });
            if self.step(RemedyStep::Free { blocks: blocks.collect(), bytes }, outcome) {
                return;
            }
        }
    }

    /// Tries other settings. A setting is tried on the blocks as they lie if it would have left them there, and growable
    /// regions also for lack of a history. Otherwise the blocks are placed anew. That is conclusive only if the present
    /// settings fail in the same way: if not, the order in which blocks were freed matters, and only a history has it.
    fn try_settings(&mut self) {
        let still = self.still;
        let (limits, growth) = (settings::limits(still, self.limit), settings::growth(still));
        let mut anew = settings::policies(still);
        let (mut others, mut pairs) = (Vec::new(), settings::pairs(still, &[]));
        let recorded = still.history.is_some();
        if recorded {
            pairs = settings::pairs(still, &growth);
        }
        if still.at_ease && !recorded { &mut others } else { &mut anew }.extend(limits);
        if recorded { &mut anew } else { &mut others }.extend(growth);
        others.into_iter().for_each(|setting| self.try_on_layout(setting));
        self.tried.unjudged = self.undecided();
        if self.tried.unjudged.is_some() {
            return;
        }
        let fitting = anew.iter().filter(|setting| self.try_anew(setting)).count();
        if fitting == 0 {
            pairs.iter().for_each(|setting| _ = self.try_anew(setting));
        }
    }

    /// Returns why a trial with the blocks placed anew would prove nothing.
    fn undecided(&self) -> Option<&'static str> {
        let still = self.still;
        match () {
            () if still.config.region.thread_home => Some(THREADS),
            () if still.history.is_some() && !still.is_reproduced() => Some(NOT_REPRODUCED),
            () if still.placed_anew(&still.config).is_none() => None,
            () if still.history.is_some() => Some(NOT_REPRODUCED),
            () => Some(NO_HISTORY),
        }
    }

    fn try_on_layout(&mut self, setting: String) {
        let mut config = self.config();
        let outcome = config
            .update(&setting)
            .ok()
            .and_then(|()| self.still.on_layout(config, |_, _| true, |_| ()));
        self.step(RemedyStep::Configure(setting), outcome);
    }

    fn try_anew(&mut self, setting: &str) -> bool {
        let mut config = self.config();
        let placed = config.update(setting).ok().and_then(|()| self.still.placed_anew(&config));
        let history = self.still.history.as_ref();
        let basis = history.map_or(RemedyBasis::LiveBlocks, |it| RemedyBasis::History(it.len()));
        self.note(RemedyStep::Configure(setting.to_owned()), basis, placed)
    }
}

const THREADS: &str = "the region of a block depends on its thread, which is not recorded";
const NOT_REPRODUCED: &str = "the history, replayed, does not lead to the present blocks";
const NO_HISTORY: &str = "placed anew, the live blocks leave room for the request under the present settings, too; \
                          only a history (`history:N`) tells how the free ranges came about";

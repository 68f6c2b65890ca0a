//! The tags of an allocator, their bytes and their budgets.

use crate::Bytes;
use crate::policy::{Request, TagId};
use crate::sync::{Mutex, lock};

/// Limits of the bytes of a tag's blocks.
///
/// - **Soft**: when an allocation takes the bytes of the tag from at most `soft` to more than `soft`, subscribers get the
///   event [`Action::BudgetExceeded`](super::Action::BudgetExceeded) and the callbacks ([`on_pressure`](super::FlexAllocator::on_pressure)) are called, once, after the
///   block was placed. The next time is after the bytes have been at most `soft` again. A budget that is set below the
///   present bytes makes no event.
/// - **Hard**: a request that would take the bytes above `hard` is refused with [`AllocateError::Budget`](super::AllocateError::Budget). Before that,
///   the callbacks are called once, and may free blocks of the tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Bytes above which subscribers and callbacks are notified; `None` for none.
    pub soft: Option<Bytes>,
    /// Bytes above which requests are refused; `None` for no limit.
    pub hard: Option<Bytes>,
}

/// Figures of one tag. Sizes of blocks are rounded up to the granule, as in all statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TagReport {
    /// Number of the tag.
    pub id: TagId,
    /// Name of the tag.
    pub name: String,
    /// Budget of the tag.
    pub budget: Budget,
    /// Bytes of the tag's live allocations.
    pub allocated: Bytes,
    /// Highest value of `allocated` since the last reset.
    pub peak: Bytes,
    /// Number of the tag's live allocations.
    pub blocks: u64,
}

/// A budget that a request exceeds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "tag `{name}` is over its {} budget of {budget}: {allocated} are allocated, and {requested} ({} B) were requested; \
     free {} of the tag, or raise the budget to {}",
    if *.is_hard { "hard" } else { "soft" }, .rounded.get(), self.excess(), self.needed()
)]
#[non_exhaustive]
pub struct BudgetExceeded {
    /// Number of the tag.
    pub tag: TagId,
    /// Name of the tag.
    pub name: String,
    /// Whether the budget is the hard one, which refuses; the soft one only notifies.
    pub is_hard: bool,
    /// Budget in bytes.
    pub budget: Bytes,
    /// Bytes of the tag's allocations without the request, and of other threads' requests under way.
    pub allocated: Bytes,
    /// Number of bytes requested.
    pub requested: Bytes,
    /// Number of bytes requested, rounded up to the granule.
    pub rounded: Bytes,
}

impl BudgetExceeded {
    /// Returns the smallest budget under which the request would be accepted.
    pub fn needed(&self) -> Bytes {
        self.allocated.checked_add(self.rounded).unwrap_or(Bytes::MAX)
    }

    /// Returns the bytes by which the request exceeds the budget.
    pub fn excess(&self) -> Bytes {
        self.needed().saturating_sub(self.budget)
    }
}

/// A refused operation on tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TagError {
    /// The allocator has 65,535 tags, the maximum. Use fewer names.
    #[error("the allocator has 65535 tags, and no number is left for another")]
    TooMany,
    /// The allocator has no tag of this number. Use the number that [`tag`](super::FlexAllocator::tag) has returned.
    #[error("the allocator has no {0}")]
    Unknown(TagId),
}

/// All tags, in the order of their numbers; the first has number 1.
#[derive(Debug, Default)]
pub(crate) struct Tags(Mutex<Vec<TagState>>);

#[derive(Debug)]
struct TagState {
    name: String,
    budget: Budget,
    /// Bytes of placed blocks, and of requests that are being placed.
    charged: u128,
    allocated: Bytes,
    peak: Bytes,
    blocks: u64,
    /// Whether the soft budget was exceeded, and the bytes have not been within it since.
    above: bool,
}

impl TagState {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            budget: Budget::default(),
            charged: 0,
            allocated: Bytes::ZERO,
            peak: Bytes::ZERO,
            blocks: 0,
            above: false,
        }
    }

    fn is_above(&self) -> bool {
        self.budget.soft.is_some_and(|soft| self.allocated > soft)
    }

    fn exceeded(&self, tag: TagId, is_hard: bool, rounded: Bytes) -> BudgetExceeded {
        let charged = Bytes::new(u64::try_from(self.charged).unwrap_or(u64::MAX));
        let (budget, others) = if is_hard {
            (self.budget.hard, charged)
        } else {
            (self.budget.soft, self.allocated - rounded)
        };
        let (name, requested) = (self.name.clone(), rounded);
        let budget = budget.unwrap_or(Bytes::MAX);
        BudgetExceeded { tag, name, is_hard, budget, allocated: others, requested, rounded }
    }

    fn report(&self, id: TagId) -> TagReport {
        let Self { budget, allocated, peak, blocks, .. } = *self;
        TagReport { id, name: self.name.clone(), budget, allocated, peak, blocks }
    }
}

impl Tags {
    pub(super) fn register(&self, name: &str) -> Result<TagId, TagError> {
        let mut tags = lock(&self.0);
        let known = tags.iter().position(|tag| tag.name == name);
        let at = known.unwrap_or(tags.len());
        let number = u16::try_from(at + 1).map_err(|_| TagError::TooMany)?;
        if known.is_none() {
            tags.push(TagState::new(name));
        }
        Ok(TagId::new(number))
    }

    fn with<T>(&self, tag: TagId, act: impl FnOnce(&mut TagState) -> T) -> Option<T> {
        let at = usize::from(tag.get()).checked_sub(1)?;
        lock(&self.0).get_mut(at).map(act)
    }

    pub(super) fn set_budget(&self, tag: TagId, budget: Budget) -> Option<()> {
        self.with(tag, |state| {
            state.budget = budget;
            state.above = state.is_above();
        })
    }

    /// Charges a request; changes nothing if the hard budget refuses it. Returns `None` if the tag is unknown.
    pub(super) fn charge(
        &self,
        request: &Request,
        bytes: Bytes,
    ) -> Option<Result<(), BudgetExceeded>> {
        self.with(request.tag, |state| {
            let charged = state.charged + u128::from(bytes.get());
            if state.budget.hard.is_some_and(|hard| charged > u128::from(hard.get())) {
                let exceeded = state.exceeded(request.tag, true, bytes);
                return Err(BudgetExceeded { requested: request.size, ..exceeded });
            }
            state.charged = charged;
            Ok(())
        })
    }

    /// Charges the growth of a block; changes nothing if the hard budget refuses it. The error is the budget, and the
    /// bytes that it does not allow.
    pub(crate) fn charge_growth(&self, tag: TagId, more: Bytes) -> Result<(), (Bytes, Bytes)> {
        let charge = |state: &mut TagState| {
            let charged = state.charged + u128::from(more.get());
            match state.budget.hard {
                Some(hard) if charged > u128::from(hard.get()) => {
                    Err((hard, Bytes::new(u64::try_from(charged).unwrap_or(u64::MAX))))
                }
                _ => {
                    state.charged = charged;
                    Ok(())
                }
            }
        };
        self.with(tag, charge).unwrap_or(Ok(()))
    }

    /// Counts growth that was charged before. Returns the bytes of the tag if they are now above its soft budget, and
    /// were not before.
    pub(crate) fn count_growth(&self, tag: TagId, more: Bytes) -> Option<Bytes> {
        self.with(tag, |state| {
            state.allocated += more;
            state.peak = state.peak.max(state.allocated);
            let crossed = state.is_above() && !state.above;
            state.above = state.is_above();
            crossed.then_some(state.allocated)
        })?
    }

    /// Counts the end that a block has given up.
    pub(crate) fn cut(&self, tag: TagId, less: Bytes) {
        self.with(tag, |state| {
            state.charged -= u128::from(less.get());
            state.allocated -= less;
            state.above &= state.is_above();
        });
    }

    /// Takes back the charge of a request that was not placed.
    pub(crate) fn discharge(&self, tag: TagId, bytes: Bytes) {
        self.with(tag, |state| state.charged -= u128::from(bytes.get()));
    }

    /// Counts a placed block that was charged before. Returns the soft budget if the block takes the tag above it.
    pub(super) fn count(&self, tag: TagId, bytes: Bytes) -> Option<BudgetExceeded> {
        self.with(tag, |state| {
            state.allocated += bytes;
            state.blocks += 1;
            state.peak = state.peak.max(state.allocated);
            let crossed = state.is_above() && !state.above;
            state.above = state.is_above();
            crossed.then(|| state.exceeded(tag, false, bytes))
        })?
    }

    /// Counts a block that its owner has freed.
    pub(crate) fn free(&self, tag: TagId, bytes: Bytes) {
        self.with(tag, |state| {
            state.charged -= u128::from(bytes.get());
            state.allocated -= bytes;
            state.blocks -= 1;
            state.above &= state.is_above();
        });
    }

    pub(super) fn report(&self, tag: TagId) -> Option<TagReport> {
        self.with(tag, |state| state.report(tag))
    }

    pub(super) fn reports(&self) -> Vec<TagReport> {
        let tags = lock(&self.0);
        let numbers = (1..=u16::MAX).map(TagId::new);
        numbers.zip(&*tags).map(|(id, state)| state.report(id)).collect()
    }

    /// Returns the names of all tags, in the order of their numbers.
    pub(crate) fn names(&self) -> Vec<String> {
        lock(&self.0).iter().map(|tag| tag.name.clone()).collect()
    }

    pub(crate) fn reset_peaks(&self) {
        lock(&self.0).iter_mut().for_each(|tag| tag.peak = tag.allocated);
    }
}

//! Pools: regions that only some requests use, with statistics, a limit and a release of their own.

use std::fmt;

use super::error::{AllocateError, RegionReport};
use super::pools::{PoolReport, PoolState, current};
use super::slots::{Shared, Slot};
use super::{Allocation, FlexAllocator, Pooling};
use crate::Bytes;
use crate::policy::{PoolId, Request};
use crate::stats::Stats;
use crate::sync::Arc;

/// Description of a [`Pool`]: a name for reports, and an optional limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a description creates no pool"]
pub struct PoolSpec {
    /// Name in reports and snapshots. Names need not be unique.
    pub name: String,
    /// Maximum number of bytes that the pool's regions reserve; `None` for no limit of its own.
    pub limit: Option<Bytes>,
}

impl PoolSpec {
    /// Describes a pool without a limit.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), limit: None }
    }

    /// Sets the maximum number of bytes that the pool's regions reserve.
    pub fn limit(mut self, limit: Bytes) -> Self {
        self.limit = Some(limit);
        self
    }
}

/// A pool of an allocator: blocks of its requests lie in its own regions, and in no others. A clone is another handle to
/// the same pool. A handle also keeps the allocator.
///
/// When the last handle is dropped, live blocks stay valid. Each of the pool's regions is released as soon as it is
/// empty, whatever the configuration says about releases.
///
/// ```
/// # use std::sync::Arc;
/// # use cubeyard_memory::{Bytes, FlexAllocator, device::{Card, CardSpec}, flex::PoolSpec};
/// let allocator = FlexAllocator::new(Arc::new(Card::new(CardSpec::physical(Bytes::gib(16)))));
/// let graph = allocator.pool(PoolSpec::new("graph").limit(Bytes::gib(4)));
/// let weights = allocator.allocate(Bytes::mib(300)).unwrap();
/// let scratch = graph.allocate(Bytes::mib(10)).unwrap();
/// assert_ne!(scratch.address().region_id, weights.address().region_id);
/// assert_eq!(graph.stats().allocated(), Bytes::mib(10));
/// assert_eq!(graph.stats().reserved(), Bytes::gib(4));
/// assert!(graph.allocate(Bytes::gib(4)).is_err()); // its limit is reached
/// drop((scratch, graph));
/// assert_eq!(allocator.stats().reserved(), Bytes::gib(12)); // its region was released
/// ```
#[derive(Clone)]
pub struct Pool {
    /// Closes the pool when the last handle is dropped; `None` for the pool of a stream, which stays. Dropped before the
    /// allocator.
    _end: Option<Arc<End>>,
    allocator: FlexAllocator,
    state: Arc<PoolState>,
}

/// The end of a pool, when the last handle is dropped.
struct End {
    shared: Arc<Shared>,
    state: Arc<PoolState>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.shared.close_pool(&self.state);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = &self.state;
        f.debug_struct("Pool")
            .field("id", &state.id)
            .field("name", &state.name)
            .finish_non_exhaustive()
    }
}

impl FlexAllocator {
    /// Creates a pool. The allocator itself is the default pool, to which all other requests go.
    pub fn pool(&self, spec: PoolSpec) -> Pool {
        let state = self.shared.pools.create(spec.name, spec.limit);
        let end = End { shared: Arc::clone(&self.shared), state: Arc::clone(&state) };
        Pool { allocator: self.clone(), state, _end: Some(Arc::new(end)) }
    }

    /// Returns the pool of a stream, if the configuration has `pools:stream`.
    pub fn stream_pool(&self, stream: u32) -> Option<Pool> {
        let each = self.config().pools == Pooling::Stream;
        let state = each.then(|| self.shared.pools.of_stream(stream))?;
        Some(Pool { allocator: self.clone(), state, _end: None })
    }

    /// Returns the figures of all pools at one moment, the default pool first. A closed pool is listed as long as it has
    /// regions. The sums over the pools are the allocator's figures.
    pub fn pools(&self) -> Vec<PoolReport> {
        let (all, stats) = self.shared.stats_with_pools(&self.slots);
        let figure = |quantity| {
            let others: u64 = all.iter().map(|(_, stats)| current(stats, quantity)).sum();
            current(&stats, quantity) - others
        };
        let resting: Bytes = all.iter().map(|(_, stats)| stats.paused()).sum();
        let default = PoolReport::new(PoolId::DEFAULT, "default", figure);
        let default = PoolReport { paused: stats.paused() - resting, ..default };
        let others = all.iter().map(|(pool, stats)| PoolReport::with(pool, stats));
        std::iter::once(default).chain(others).collect()
    }

    /// Returns the pool of a request, or the pool of its stream if each stream has one.
    pub(super) fn pool_for(&self, request: &Request) -> Result<PoolId, AllocateError> {
        if request.pool != PoolId::DEFAULT {
            let pool = self.shared.pools.get(request.pool);
            return pool.map(|pool| pool.id).ok_or(AllocateError::UnknownPool(request.pool));
        }
        Ok(match self.config().pools {
            Pooling::One => PoolId::DEFAULT,
            Pooling::Stream => self.shared.pools.of_stream(request.stream).id,
        })
    }

    /// Returns the figures of a request's pool, unless it is the default pool.
    pub(super) fn pool_report(&self, request: &Request) -> Option<PoolReport> {
        self.shared.pools.get(request.pool).map(|state| PoolReport::of(&state))
    }
}

impl Pool {
    /// Returns the number of the pool, for [`Request::pool`].
    pub fn id(&self) -> PoolId {
        self.state.id
    }

    /// Returns the name of the pool.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Returns the allocator of the pool.
    pub fn allocator(&self) -> &FlexAllocator {
        &self.allocator
    }

    /// Returns the maximum number of bytes that the pool's regions reserve; `None` without a limit.
    pub fn limit(&self) -> Option<Bytes> {
        self.state.limit()
    }

    /// Sets the limit. A pool that already has more keeps its memory, and gets no more until it is below the limit.
    pub fn set_limit(&self, limit: Option<Bytes>) {
        self.state.set_limit(limit);
    }

    /// Allocates a block of at least `size` bytes for a tensor.
    pub fn allocate(&self, size: Bytes) -> Result<Allocation, AllocateError> {
        self.allocate_for(&Request::new(size))
    }

    /// Allocates a block for a request, whose own pool is disregarded.
    pub fn allocate_for(&self, request: &Request) -> Result<Allocation, AllocateError> {
        self.allocator.allocate_for(&Request { pool: self.state.id, ..*request })
    }

    /// Returns the statistics of the pool. Its counters are the events of this pool's requests and regions; waits for
    /// streams are counted for the allocator alone.
    pub fn stats(&self) -> Stats {
        self.allocator.shared.update_pools(&self.allocator.slots);
        self.state.tally.stats()
    }

    /// Returns the figures of the pool.
    pub fn report(&self) -> PoolReport {
        self.allocator.shared.update_pools(&self.allocator.slots);
        PoolReport::of(&self.state)
    }

    /// Sets the peaks of the pool to the current figures.
    pub fn reset_peak_stats(&self) {
        self.allocator.shared.update_pools(&self.allocator.slots);
        self.state.tally.reset_peaks();
    }

    /// Sets the accumulated figures and the counters of the pool to zero.
    pub fn reset_accumulated_stats(&self) {
        self.allocator.shared.update_pools(&self.allocator.slots);
        self.state.tally.reset_accumulated();
    }

    /// Returns the figures of the pool's regions, oldest first.
    pub fn regions(&self) -> Vec<RegionReport> {
        self.allocator.reports(|slot| slot.domain().is_in(self.state.id))
    }

    /// Returns the pool's idle memory to the device, regions and granules, and returns the number of bytes; see
    /// [`FlexAllocator::trim`].
    pub fn trim(&self) -> Bytes {
        let shared = &self.allocator.shared;
        shared.poll_all();
        let bytes = shared.trim_pool(&self.state);
        self.allocator.unlock_regions();
        shared.deliver();
        bytes
    }
}

impl Shared {
    /// Closes a pool whose last handle is gone: its idle regions are released now, the others when they are empty.
    fn close_pool(&self, pool: &PoolState) {
        pool.close();
        self.collect_posts();
        self.poll_all();
        self.release_wanting();
        self.deliver();
    }

    fn trim_pool(&self, pool: &PoolState) -> Bytes {
        self.collect_posts();
        let Some(_turn) = self.take_turn() else {
            pool.want_trim();
            self.release_wanting();
            return Bytes::ZERO;
        };
        self.give_back(&self.slots_of(pool.id), true, true)
    }

    /// Returns the slots with regions of a pool.
    pub(super) fn slots_of(&self, pool: PoolId) -> Vec<Arc<Slot>> {
        let mut slots = self.slots();
        slots.retain(|slot| !slot.is_vacant() && slot.domain().is_in(pool));
        slots
    }
}

//! State of pools: their limits and counts, and the table of an allocator's pools.

use std::collections::BTreeMap;
use std::fmt;

use super::config::FlexConfig;
use crate::Bytes;
use crate::policy::{Kind, PoolId, Request};
use crate::stats::{Pool, Quantity, Stats, Tally};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock};

/// The blocks that a region accepts: of one pool, and of one kind if that kind has separate regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Domain(u64);

/// Number of low bits of a domain that hold the kind.
const KIND_BITS: u32 = 8;

impl Domain {
    /// The default pool, without separate regions for kinds.
    pub(crate) const DEFAULT: Self = Self(0);

    pub(crate) fn new(pool: PoolId, kind: Option<Kind>) -> Self {
        let kind = kind.map_or(0, |kind| kind as u64 + 1);
        Self(u64::from(pool.get()) << KIND_BITS | kind)
    }

    /// Returns the domain of a request.
    #[inline]
    pub(crate) fn of(request: &Request, config: &FlexConfig) -> Self {
        // Most configurations have no such kinds, and this is checked for every block.
        if config.own_regions.is_empty() {
            return Self(u64::from(request.pool.get()) << KIND_BITS);
        }
        let own = config.own_regions.contains(&request.kind);
        Self::new(request.pool, own.then_some(request.kind))
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn is_in(self, pool: PoolId) -> bool {
        self.0 >> KIND_BITS == u64::from(pool.get())
    }
}

/// Value of [`PoolState::limit`] for a pool without a limit.
const NO_LIMIT: u64 = u64::MAX;

/// A pool other than the default one.
#[derive(Debug)]
pub(crate) struct PoolState {
    pub(crate) id: PoolId,
    pub(crate) name: String,
    limit: AtomicU64,
    /// Bytes of the pool's memory, and of memory that is being acquired or committed for it.
    held: AtomicU64,
    /// Whether the last handle is gone; idle regions are then released at once.
    closed: AtomicBool,
    /// Whether a trim was requested inside a call to the device.
    trim_wanted: AtomicBool,
    pub(crate) tally: Arc<Tally>,
}

impl PoolState {
    pub(crate) fn new(id: PoolId, name: String, limit: Option<Bytes>) -> Self {
        Self {
            id,
            name,
            limit: AtomicU64::new(limit.map_or(NO_LIMIT, Bytes::get)),
            held: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            trim_wanted: AtomicBool::new(false),
            tally: Arc::default(),
        }
    }

    pub(crate) fn limit(&self) -> Option<Bytes> {
        Some(self.limit.load(Ordering::Acquire)).filter(|&limit| limit != NO_LIMIT).map(Bytes::new)
    }

    pub(crate) fn set_limit(&self, limit: Option<Bytes>) {
        self.limit.store(limit.map_or(NO_LIMIT, Bytes::get), Ordering::Release);
    }

    /// Returns the bytes that the pool may still acquire or commit; `None` without a limit.
    pub(crate) fn left(&self) -> Option<Bytes> {
        let held = Bytes::new(self.held.load(Ordering::Acquire));
        self.limit().map(|limit| limit.saturating_sub(held))
    }

    /// Returns whether the limit leaves no room for `size` more bytes.
    pub(crate) fn refuses(&self, size: Bytes) -> bool {
        self.left().is_some_and(|left| left < size)
    }

    /// Counts memory that is about to be acquired or committed; refused above the limit.
    pub(crate) fn take(&self, size: Bytes) -> bool {
        let limit = self.limit.load(Ordering::Acquire);
        let more = |held: u64| held.checked_add(size.get()).filter(|&held| held <= limit);
        // Nothing needs no room, also if the limit was lowered below the memory that the pool has.
        size.is_zero() || self.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Counts memory regardless of the limit.
    pub(crate) fn hold(&self, size: Bytes) {
        self.held.fetch_add(size.get(), Ordering::AcqRel);
    }

    /// Counts memory that was returned to the device, or was not provided.
    pub(crate) fn put_back(&self, size: Bytes) {
        self.held.fetch_sub(size.get(), Ordering::AcqRel);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn want_trim(&self) {
        self.trim_wanted.store(true, Ordering::SeqCst);
    }

    fn regions(&self) -> u64 {
        self.tally.stats().get(Quantity::Segment, Pool::All).current
    }
}

/// The pools of an allocator besides its default pool.
#[derive(Debug, Default)]
pub(crate) struct Pools(Mutex<Listed>);

#[derive(Debug, Default)]
struct Listed {
    /// Pools in the order of their ids. A closed pool is listed as long as it has regions.
    pools: Vec<Arc<PoolState>>,
    /// Pools of streams, if each stream has one.
    streams: BTreeMap<u32, Arc<PoolState>>,
    created: u32,
}

impl Listed {
    fn create(&mut self, name: String, limit: Option<Bytes>) -> Arc<PoolState> {
        self.created = self.created.checked_add(1).expect("there are fewer than 2^32 pools");
        let pool = Arc::new(PoolState::new(PoolId::new(self.created), name, limit));
        self.pools.push(Arc::clone(&pool));
        pool
    }
}

impl Pools {
    pub(crate) fn create(&self, name: String, limit: Option<Bytes>) -> Arc<PoolState> {
        lock(&self.0).create(name, limit)
    }

    /// Returns the pool of a stream, which exists from its first request on.
    pub(crate) fn of_stream(&self, stream: u32) -> Arc<PoolState> {
        let mut listed = lock(&self.0);
        if let Some(pool) = listed.streams.get(&stream) {
            return Arc::clone(pool);
        }
        let pool = listed.create(format!("stream {stream}"), None);
        listed.streams.insert(stream, Arc::clone(&pool));
        pool
    }

    /// Returns a pool that has not been closed.
    pub(crate) fn get(&self, id: PoolId) -> Option<Arc<PoolState>> {
        let listed = lock(&self.0);
        let at = listed.pools.binary_search_by_key(&id, |pool| pool.id).ok()?;
        Some(Arc::clone(&listed.pools[at])).filter(|pool| !pool.is_closed())
    }

    /// Returns all pools, closed ones included as long as they have regions.
    pub(crate) fn all(&self) -> Vec<Arc<PoolState>> {
        lock(&self.0).pools.clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).created == 0
    }

    /// Enters a pool of another allocator under its id, for a replica.
    pub(crate) fn enter(&self, pool: PoolState) {
        let mut listed = lock(&self.0);
        listed.created = listed.created.max(pool.id.get());
        listed.pools.push(Arc::new(pool));
    }

    /// Removes the closed pools without regions, and returns whether closed pools are left.
    pub(crate) fn forget_closed(&self) -> bool {
        let (mut gone, mut left) = (Vec::new(), false);
        for pool in self.all().iter().filter(|pool| pool.is_closed()) {
            if pool.regions() == 0 {
                gone.push(pool.id);
            } else {
                left = true;
            }
        }
        lock(&self.0).pools.retain(|pool| !gone.contains(&pool.id));
        left
    }

    /// Returns the pools whose idle memory is to be returned: closed ones, and those with a deferred trim.
    pub(crate) fn take_wanting(&self) -> Vec<PoolId> {
        let pools = self.all();
        let wanting = |pool: &&Arc<PoolState>| {
            pool.trim_wanted.swap(false, Ordering::SeqCst) || pool.is_closed()
        };
        pools.iter().filter(wanting).map(|pool| pool.id).collect()
    }
}

/// Figures of one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolReport {
    /// Number of the pool.
    pub id: PoolId,
    /// Name of the pool; `default` for the default pool.
    pub name: String,
    /// Limit of the reserved bytes, if the pool has one.
    pub limit: Option<Bytes>,
    /// Whether the last handle was dropped while blocks were live.
    pub is_closed: bool,
    /// Number of live allocations.
    pub blocks: u64,
    /// Number of regions.
    pub regions: u64,
    /// Bytes of live allocations, rounded up to the granule.
    pub allocated: Bytes,
    /// Bytes of regions, or of the memory committed to them.
    pub reserved: Bytes,
    /// Bytes of live allocations, and of freed blocks that a stream may still access.
    pub active: Bytes,
    /// Bytes of active blocks as requested.
    pub requested: Bytes,
    /// Bytes of paused blocks, which are neither allocated nor active.
    pub paused: Bytes,
}

impl PoolReport {
    pub(super) fn new(id: PoolId, name: &str, figure: impl Fn(Quantity) -> u64) -> Self {
        Self {
            id,
            name: name.to_owned(),
            limit: None,
            is_closed: false,
            blocks: figure(Quantity::Allocation),
            regions: figure(Quantity::Segment),
            allocated: Bytes::new(figure(Quantity::AllocatedBytes)),
            reserved: Bytes::new(figure(Quantity::ReservedBytes)),
            active: Bytes::new(figure(Quantity::ActiveBytes)),
            requested: Bytes::new(figure(Quantity::RequestedBytes)),
            paused: Bytes::ZERO,
        }
    }

    pub(super) fn of(state: &PoolState) -> Self {
        Self::with(state, &state.tally.stats())
    }

    pub(super) fn with(pool: &PoolState, stats: &Stats) -> Self {
        let report = Self::new(pool.id, &pool.name, |quantity| current(stats, quantity));
        let (limit, is_closed) = (pool.limit(), pool.is_closed());
        Self { limit, is_closed, paused: stats.paused(), ..report }
    }
}

impl fmt::Display for PoolReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, blocks, allocated, reserved, .. } = self;
        write!(f, "pool `{name}`: {blocks} blocks, {allocated} allocated, {reserved} reserved")?;
        self.limit.map_or(Ok(()), |limit| write!(f, " of at most {limit}"))
    }
}

pub(super) fn current(stats: &Stats, quantity: Quantity) -> u64 {
    stats.get(quantity, Pool::All).current
}

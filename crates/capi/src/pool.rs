//! Pools: regions that only some blocks use.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{Pool, PoolId, PoolSpec};
use cubeyard_memory::policy::Request;

use crate::Front;
use crate::argument;
use crate::block::{CAddress, CBlock, CRequest};
use crate::call::call;
use crate::figures;
use crate::status::{Failure, Status};

/// The constant `CUBEYARD_NO_LIMIT` of the header.
const NO_LIMIT: u64 = u64::MAX;

/// Converts a limit of the header.
pub(crate) fn limit(bytes: u64) -> Option<Bytes> {
    (bytes != NO_LIMIT).then_some(Bytes::new(bytes))
}

/// Converts a limit to the header's.
pub(crate) fn limit_number(limit: Option<Bytes>) -> u64 {
    limit.map_or(NO_LIMIT, Bytes::get)
}

/// Pools of the caller, by their numbers.
#[derive(Default)]
pub(crate) struct Pools(Mutex<BTreeMap<u32, Pool>>);

impl Pools {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u32, Pool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a pool, and returns its number.
    fn insert(&self, pool: Pool) -> u32 {
        let number = pool.id().get();
        self.all().insert(number, pool);
        number
    }

    /// Returns another handle to a pool, so that the device can be called while no lock is held.
    fn get(&self, number: u32) -> Result<Pool, Failure> {
        self.all().get(&number).cloned().ok_or_else(|| unknown(number))
    }

    /// Removes a pool. Dropping it may call the device, so no lock is held then.
    fn remove(&self, number: u32) -> Result<Pool, Failure> {
        self.all().remove(&number).ok_or_else(|| unknown(number))
    }

    pub(crate) fn clear(&self) {
        let pools = std::mem::take(&mut *self.all());
        drop(pools);
    }
}

fn unknown(number: u32) -> Failure {
    let message = format!("the allocator has no pool {number}: it was destroyed, or is another's");
    Failure::new(Status::Stale, message)
}

/// # Safety
/// The same as for [`Front::of`].
unsafe fn pool_of(allocator: *const Front, pool: u32) -> Result<Pool, Failure> {
    // SAFETY: the caller guarantees the same.
    unsafe { Front::of(allocator) }?.pools.get(pool)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_pool_create(
    allocator: *const Front,
    name: *const c_char,
    bytes: u64,
    pool: *mut u32,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator and a string.
        let (front, name) = unsafe { (Front::of(allocator)?, argument::text(name, "name")?) };
        argument::place(pool, "pool")?;
        let spec = PoolSpec { limit: limit(bytes), ..PoolSpec::new(name) };
        let number = front.pools.insert(front.allocator.pool(spec));
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(pool, "pool", number) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_pool_destroy(allocator: *const Front, pool: u32) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        front.refuse_reentrance()?;
        front.pools.remove(pool).map(drop)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_allocate_in(
    allocator: *const Front,
    pool: u32,
    tag: u32,
    request: *const CRequest,
    block: *mut CBlock,
    address: *mut CAddress,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator and a request.
        let (front, request) =
            unsafe { (Front::of(allocator)?, argument::read(request, "request")?) };
        let (pool, tag) = (PoolId::new(pool), argument::tag(tag)?);
        let request = Request { pool, tag, ..request.request()? };
        // SAFETY: the header requires writable pointers.
        unsafe { front.allocate(&request, block, address) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_pool_limit(allocator: *const Front, pool: u32, bytes: u64) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        unsafe { pool_of(allocator, pool) }?.set_limit(limit(bytes));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_pool_stat(
    allocator: *const Front,
    pool: u32,
    key: *const c_char,
    value: *mut i64,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator, a string and a writable pointer.
        unsafe { figures::write_stat(&pool_of(allocator, pool)?.stats(), key, value) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_pool_trim(
    allocator: *const Front,
    pool: u32,
    released: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let pool = front.pools.get(pool)?;
        argument::place_if(released, "released")?;
        front.refuse_reentrance()?;
        // SAFETY: the header requires NULL or a writable pointer.
        unsafe { argument::write_if(released, "released", pool.trim().get()) }
    })
}

//! Thread home: each thread has its own region, so that threads do not wait for each other.

use super::load_balancing::MostFree;
use super::{Rank, RegionPolicy};

/// After the thread's own region, the others are tried in the order of load balancing.
pub(super) static THREAD_HOME: RegionPolicy = RegionPolicy {
    name: "thread-home",
    summary: "each thread's own region first; threads do not contend",
    order: MostFree::order,
    first: MostFree::first,
    thread_home: true,
};

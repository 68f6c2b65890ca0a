//! Thread home: each thread has a region of its own, so that threads do not wait for each other.

use super::{RegionPolicy, load_balancing};

/// After a thread's own region, the others are tried as load balancing does.
pub(super) static THREAD_HOME: RegionPolicy = RegionPolicy {
    name: "thread-home",
    summary: "each thread's own region first; threads do not contend",
    order: load_balancing::order,
    thread_home: true,
};

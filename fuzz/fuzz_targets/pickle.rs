//! Any bytes as a pickle, and as a snapshot: each gives an error or a consistent result.

#![no_main]

use cubeyard_memory::Bytes;
use cubeyard_pickle::{self as pickle, Limits};
use cubeyard_replay::trace::{rmm, snapshot};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = pickle::read(bytes, &Limits::default());
    for trace in snapshot::read("fuzz", bytes, Bytes::gib(1)).unwrap_or_default() {
        // Panics where a free has no allocation.
        rmm::write(&trace, std::io::sink()).expect("a sink takes everything");
    }
});

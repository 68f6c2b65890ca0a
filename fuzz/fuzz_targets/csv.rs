//! Any bytes as a log of RMM: a valid log is written and read back unchanged.

#![no_main]

use cubeyard_memory::Bytes;
use cubeyard_replay::trace::rmm;
use libfuzzer_sys::fuzz_target;

/// Memory for reading any input.
const LIMIT: Bytes = Bytes::gib(1);

fuzz_target!(|bytes: &[u8]| {
    let Ok(trace) = rmm::read("fuzz", bytes, LIMIT) else { return };
    let mut written = Vec::new();
    rmm::write(&trace, &mut written).expect("memory takes everything");
    assert_eq!(rmm::read("fuzz", &written, LIMIT), Ok(trace));
});

//! The readers of traces on files that other programs have written.

mod damaged;
pub(crate) mod python;
mod recorded;
mod scripts;
mod watched;

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use cubeyard_memory::Bytes;
use cubeyard_replay::trace::{Event, Trace};
use flate2::read::GzDecoder;

/// Memory limit that suffices for any recorded file.
pub(crate) const LIMIT: Bytes = Bytes::gib(1);

/// Returns a file of `testdata/traces`, decompressed.
pub(crate) fn recorded_file(name: &str) -> Vec<u8> {
    let path = traces_folder().join(name);
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    GzDecoder::new(file).read_to_end(&mut bytes).expect("a gzip file");
    bytes
}

pub(crate) fn traces_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces")
}

/// Returns the peak of live bytes.
///
/// Also checks that numbers are dense, that times do not decrease, and that nothing is freed twice.
fn peak_requested(trace: &Trace) -> Bytes {
    let mut live: Vec<Option<Bytes>> = Vec::new();
    let (mut now, mut peak, mut latest) = (Bytes::ZERO, Bytes::ZERO, 0);
    for event in &trace.events {
        let time_us = match *event {
            Event::Allocate(allocate) => {
                assert_eq!(allocate.id.index(), live.len(), "numbers are given in order");
                live.push(Some(allocate.size));
                now += allocate.size;
                allocate.time_us
            }
            Event::Free { id, time_us } => {
                now -= live[id.index()].take().expect("an allocation is freed once");
                time_us
            }
        };
        assert!(latest <= time_us, "time goes on");
        (peak, latest) = (peak.max(now), time_us);
    }
    assert_eq!(live.len(), trace.allocations as usize);
    peak
}

//! Any bytes as a pattern of transfers: refused with a short message, or run to its end.

#![no_main]

use std::sync::OnceLock;

use cubeyard_device::machine::Machine;
use cubeyard_device::probe::Pattern;
use cubeyard_device::topology::Topology;
use libfuzzer_sys::fuzz_target;

fn small() -> &'static Topology {
    static SMALL: OnceLock<Topology> = OnceLock::new();
    SMALL.get_or_init(|| {
        Topology::read("small", "sips: {count: 1}\ncubes: {w: 2, h: 1}\n").expect("a machine")
    })
}

fuzz_target!(|bytes: &[u8]| {
    let pattern = match Pattern::read("fuzz", bytes, small()) {
        Ok(pattern) => pattern,
        Err(error) => {
            assert!(error.to_string().len() < 10_000, "a message is short");
            return;
        }
    };
    let much: u64 = pattern.transfers().iter().map(|transfer| transfer.bytes).sum();
    if much < 1 << 20 {
        let report = pattern.run(&mut Machine::new(small().clone()));
        let report = report.expect("without buffers that can be full, nothing stands still");
        let unloaded = report.transfers.iter().map(|transfer| transfer.measured.unloaded.total());
        let took = report.transfers.iter().map(|transfer| transfer.measured.latency);
        assert!(
            took.zip(unloaded).all(|(took, unloaded)| took >= unloaded),
            "nothing is faster among others"
        );
    }
});

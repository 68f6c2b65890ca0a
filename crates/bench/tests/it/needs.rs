//! Estimates of a run's host memory, before anything is built.

use crate::small::small;
use cubeyard_bench::{
    Bench, BenchError, Needs, RunConfig, Values, catalogue, check_memory, find, run,
};
use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;
use cubeyard_tl::launch::Mode;

fn config(set: &[&str], data: bool) -> RunConfig {
    let set = set.iter().map(|&text| text.to_owned()).collect();
    let (topology, mode, sips) = (Topology::embedded(), Mode::Recorded, Vec::new());
    RunConfig { topology, set, data, mode, sips, ops: true }
}

fn needs(bench: &dyn Bench, config: &RunConfig) -> Needs {
    let values = Values::new(bench.name(), &bench.parameters(), &config.set).unwrap();
    let sips = if bench.spans_sips() { config.topology.sips().count() as u64 } else { 1 };
    bench.needs(&values, &config.topology, sips)
}

/// A run that fits must not be refused: each counted command is real.
#[test]
fn no_bench_does_less_than_was_estimated() {
    let mut counted = 0;
    for bench in catalogue() {
        let config = RunConfig { set: small(&*bench), ..config(&[], bench.needs_data()) };
        let estimated = needs(&*bench, &config).commands;
        let run = run(&*bench, &config).unwrap();
        let done = run.log.unwrap().ops().records().len() as f64;
        assert!(estimated <= done, "{}: {estimated} of {done}", bench.name());
        counted += usize::from(estimated > done / 40.0);
    }
    assert!(counted >= 10, "{counted} benches have an estimate of their commands");
}

#[track_caller]
fn refused(name: &str, set: &[&str], data: bool) -> Bytes {
    let bench = find(name).unwrap();
    match check_memory(&*bench, &config(set, data), Bytes::gib(2)) {
        Err(BenchError::TooLarge(error)) => {
            assert!(BenchError::from(error).is_exhausted());
            error.bytes
        }
        other => panic!("{name} {set:?}: {other:?}"),
    }
}

/// Each of these runs took all memory of the host, or requested more and was aborted.
#[test]
fn what_cannot_fit_is_known_from_its_parameters() {
    let attention = ["heads=65536", "sequence=1048576", "head-dim=1024"];
    assert!(refused("flash-attention", &attention, true) > Bytes::gib(1 << 20));
    assert!(refused("copy", &["bytes=4294967296", "cubes=16"], true) > Bytes::gib(1 << 10));
    let blocks = ["block=1", "elements=4000000", "cubes=16"];
    assert!(refused("vector-add", &blocks, false) > Bytes::gib(4));
}

/// Tensors are held in data mode alone, and the limit itself is enough.
#[test]
fn the_limit_is_exact_and_time_alone_needs_no_elements() {
    let (copy, set) = (find("copy").unwrap(), ["bytes=1048576", "block=1048576"]);
    let bytes = needs(&*copy, &config(&set, true)).bytes(true);
    assert!(check_memory(&*copy, &config(&set, true), bytes).is_ok());
    let less = Bytes::new(bytes.get() - 1);
    assert!(check_memory(&*copy, &config(&set, true), less).is_err());
    assert!(check_memory(&*copy, &config(&set, false), Bytes::mib(1)).is_ok());
}

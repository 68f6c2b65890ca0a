//! Every bench, with its numbers checked.

use crate::long_tests;
use crate::small::small;
use cubeyard_bench::{Bench, RunConfig, catalogue, run};
use cubeyard_device::topology::Topology;
use cubeyard_tl::launch::Mode;

fn config(bench: &dyn Bench, data: bool, mode: Mode) -> RunConfig {
    let (topology, set) = (Topology::embedded(), small(bench));
    RunConfig { topology, set, data, mode, sips: Vec::new(), ops: false }
}

#[test]
fn every_bench_computes_what_its_reference_says() {
    for bench in catalogue() {
        let run = run(&*bench, &config(&*bench, true, Mode::Recorded)).unwrap();
        let check = run.report.check.expect("with data there is a check");
        assert!(check.passed(), "{}: {check:?}", bench.name());
        assert!(run.findings.is_empty(), "{}: {:?}", bench.name(), run.findings);
        assert!(run.report.share() <= 1.0, "{} is faster than it can be", bench.name());
    }
}

#[test]
fn recorded_and_live_take_the_same_time_with_data_and_without() {
    let benches = catalogue().into_iter().filter(|bench| !bench.needs_data());
    for bench in long_tests::members(benches, 3) {
        let time = |data, mode| run(&*bench, &config(&*bench, data, mode)).unwrap().report.kernel;
        let recorded = time(false, Mode::Recorded);
        assert_eq!(time(false, Mode::Live), recorded, "{}", bench.name());
        assert_eq!(time(true, Mode::Recorded), recorded, "{}", bench.name());
    }
}

#[test]
fn parameters_are_written_with_hyphens_and_an_old_name_suggests_the_new_one() {
    let mut seen = 0;
    for bench in catalogue() {
        for parameter in bench.parameters() {
            let name = parameter.name;
            assert!(!name.contains('_'), "{}: {name}", bench.name());
            if name.contains('-') {
                let set = vec![format!("{}=1", name.replace('-', "_"))];
                let error =
                    run(&*bench, &RunConfig { set, ..config(&*bench, false, Mode::Recorded) });
                let error = error.expect_err("an old name").to_string();
                assert!(error.ends_with(&format!("; the nearest is `{name}`")), "{error}");
                seen += 1;
            }
        }
    }
    assert!(seen > 10, "{seen}");
}

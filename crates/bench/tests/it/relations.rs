//! Relations between runs that must hold for every bench, shape and machine: neither data nor a record of the run
//! changes a time or the order of events.

use cubeyard_bench::report::RunReport;
use cubeyard_bench::{RunConfig, RunLog, catalogue, find, run};
use cubeyard_device::topology::Topology;
use cubeyard_sim::Span;
use cubeyard_tl::launch::Mode;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use crate::long_tests::cases;

/// A bench with its parameters, on a machine given by the lines that differ from the default.
#[derive(Clone, Debug)]
struct Case {
    bench: String,
    set: Vec<String>,
    machine: Vec<String>,
}

/// Results of a run that must not depend on its mode.
#[derive(Debug, PartialEq)]
struct Seen {
    kernel: Span,
    host: Span,
    /// Order of all events. With data there are more of them: those at which bytes move.
    order: u64,
    /// Every operation of every PE, with its times and the cause of its start, if they were recorded.
    operations: String,
}

impl Case {
    /// Runs the case; returns an error if the shape does not fit the machine.
    fn run(&self, data: bool, mode: Mode, ops: bool) -> Result<Seen, String> {
        let topology = Topology::read("the case", &self.machine.join("\n")).unwrap();
        let set = self.set.clone();
        let config = RunConfig { topology, set, data, mode, sips: Vec::new(), ops };
        let run = run(&*find(&self.bench).unwrap(), &config).map_err(|error| error.to_string())?;
        let records = |log: &RunLog| format!("{:?}", log.ops().records());
        let operations = run.log.as_ref().map_or_else(String::new, records);
        let RunReport { kernel, host, .. } = run.report;
        Ok(Seen { kernel, host, order: run.order_hash, operations })
    }

    /// Runs the case as [`run`](Self::run) does; returns the results without the order of events.
    fn timed(&self, data: bool, mode: Mode) -> Result<Seen, String> {
        Ok(Seen { order: 0, ..self.run(data, mode, true)? })
    }
}

/// Shapes of a bench: of each parameter some values, small ones, so that a case takes milliseconds.
fn shapes(bench: &str) -> &'static [(&'static str, &'static [u64])] {
    match bench {
        "block-sparse" => &[("m", &[128, 256]), ("k", &[128]), ("n", &[32, 64]), ("block", &[32])],
        "copy" => &[("bytes", &[256, 5000, 65_536]), ("block", &[1024, 65_536])],
        "ddp" => &[("elements", &[512, 5000])],
        "flash-attention" => {
            &[("sequence", &[64, 96]), ("head-dim", &[32]), ("block-q", &[32]), ("block-k", &[32])]
        }
        "gemm" => &[("m", &[16, 40, 64]), ("k", &[16, 64, 100]), ("n", &[16, 50])],
        "gemm-multi" => &[("m", &[64, 75]), ("k", &[33, 64]), ("n", &[64, 83])],
        "gqa-decode" => &[("context", &[64, 100]), ("head-dim", &[32])],
        "layer-norm" | "rms-norm" | "softmax" => &[("rows", &[64, 70]), ("columns", &[64, 300])],
        "moe" => &[("tokens", &[32, 64]), ("features", &[32]), ("hidden", &[64])],
        "qkv" => &[("shrink", &[64, 32]), ("tokens", &[8, 20])],
        "sequence-attention" => &[("context", &[128, 256]), ("head-dim", &[32])],
        "tp-mlp" => &[("tokens", &[8]), ("features", &[64, 128]), ("hidden", &[128, 256])],
        "transformer-layer" => &[
            ("batch", &[2]),
            ("context", &[16]),
            ("hidden", &[32]),
            ("ffn", &[64]),
            ("heads", &[16]),
            ("kv-heads", &[8]),
            ("head-dim", &[8]),
        ],
        "vector-add" => &[("elements", &[1000, 4096, 20_000]), ("block", &[512, 4096])],
        other => panic!("{other}: expected shapes for each bench"),
    }
}

/// Lines of a topology file that give memory, links or engines a state, or change their behaviour.
const MACHINES: [&str; 9] = [
    "hbm: {rows: {banks: 4, row_bytes: 1 KiB, activate_ns: 14, precharge_ns: 14}}",
    "hbm: {rows: {banks: 2, row_bytes: 512, activate_ns: 20, precharge_ns: 9, refresh: {interval_ns: 1500, takes_ns: 90}}}",
    "hbm: {turn_around_ns: 7, rows: {banks: 1, row_bytes: 2 KiB, activate_ns: 5, precharge_ns: 30}}",
    "hbm: {turn_around_ns: 12.5}",
    "buffers: {flits: 4096}",
    "buffers: {flits: 64, arbiter: round_robin}",
    "serial_nodes: ends",
    "pe: {mmu: {tlb_entries: 2}, core: {window: 3, compute_engines: separate}}",
    "pe: {core: {dma_read_engines: 2, dma_write_engines: 2}}",
];

/// Returns the lines of a machine: at most one of each key.
fn machine(number: usize, more: Vec<&'static str>) -> Vec<String> {
    let small = ["sips: {count: 1}\ncubes: {w: 1, h: 1}", "cubes: {w: 2, h: 1}"][number];
    let mut lines: Vec<String> = vec![small.to_owned()];
    for line in more {
        let key = line.split(':').next().unwrap();
        if !lines.iter().any(|line| line.starts_with(key)) {
            lines.push(line.to_owned());
        }
    }
    lines
}

fn case() -> impl Strategy<Value = Case> {
    let names: Vec<String> = catalogue().iter().map(|bench| bench.name().to_owned()).collect();
    let machines = (0..2_usize, subsequence(MACHINES.to_vec(), 1..=4).prop_shuffle());
    let parts = (select(names), prop::collection::vec(any::<Index>(), 7), machines, 0..3_u64);
    parts.prop_map(|(bench, picks, (number, more), pes)| {
        let shape = shapes(&bench).iter().zip(&picks);
        let mut set: Vec<String> =
            shape.map(|((name, values), pick)| format!("{name}={}", pick.get(values))).collect();
        let parameters = find(&bench).unwrap().parameters();
        if parameters.iter().any(|parameter| parameter.name == "pes") {
            set.push(format!("pes={}", 1 << pes));
        }
        Case { bench, set, machine: machine(number, more) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    /// Inputs did not travel without data, so that rows of the HBM were closed, or the last access to a channel was not
    /// a write, when the kernels began.
    #[test]
    fn time_and_order_depend_neither_on_data_nor_on_a_record(case in case()) {
        let needs_data = find(&case.bench).unwrap().needs_data();
        let modes = if needs_data { vec![true] } else { vec![true, false] };
        for data in modes {
            let alone = case.run(data, Mode::Recorded, false);
            let watched = case.run(data, Mode::Recorded, true);
            let unseen = watched.map(|seen| Seen { operations: String::new(), ..seen });
            prop_assert_eq!(alone, unseen, "with a record, data: {}", data);
        }
        if !needs_data {
            let with = case.timed(true, Mode::Recorded);
            prop_assert_eq!(&case.timed(false, Mode::Recorded), &with, "without data");
            prop_assert_eq!(&case.timed(false, Mode::Live), &with, "live, without data");
        }
    }
}

/// A product of two matrices of 512 bytes took 99.4 ns with data and 111.4 ns without.
#[test]
fn a_row_that_was_opened_by_an_input_is_open_without_data_too() {
    let rows = "{banks: 16, row_bytes: 1 KiB, activate_ns: 14, precharge_ns: 14}";
    let machine = vec![format!("hbm: {{rows: {rows}, turn_around_ns: 8}}")];
    let set = ["m=16", "k=16", "n=16"].map(str::to_owned).to_vec();
    let case = Case { bench: "gemm".to_owned(), set, machine };
    let [with, without] = [true, false].map(|data| case.timed(data, Mode::Recorded).unwrap());
    assert_eq!(with, without);
}

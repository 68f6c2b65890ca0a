//! A PE and its commands, compared with a model that follows the rules literally.

mod program;
mod reference;

use std::collections::BTreeMap;

use cubeyard_device::log::{Log, TransferKind};
use cubeyard_device::machine::{Machine, MachineBuilder};
use cubeyard_device::message::{Direction, RequestId};
use cubeyard_device::pe::CoreReport;
use cubeyard_device::request::{PeRef, Request};
use cubeyard_device::topology::Topology;
use cubeyard_sim::Stop;
use proptest::prelude::*;

use crate::long_tests::cases;
use program::{Compute, Part, Pipe, Spec, Step, Steps, Task, TaskWork, access_of, programs, specs};

fn topology(spec: Spec) -> Topology {
    let [reads, writes] = spec.engines;
    let (cycles, overhead) = (spec.dispatch / 1000, spec.overhead / 1000);
    let compute = if spec.separate { "separate" } else { "shared" };
    let text = format!(
        "pe:\n  core:\n    dispatch_cycles: {cycles}\n    scheduler_overhead_ns: {overhead}\n    window: {}\n    \
         dma_read_engines: {reads}\n    dma_write_engines: {writes}\n    compute_engines: {compute}\n",
        spec.window
    );
    Topology::read("a test", &text).unwrap()
}

/// Duration of each access in picoseconds.
type Taken = BTreeMap<(usize, usize, usize), u64>;

fn key(id: usize, part: Part) -> (usize, usize, usize) {
    match part {
        Part::Load(index) => (id, 0, index),
        Part::Store(index) => (id, 1, index),
    }
}

/// Runs a program on one PE of the machine; returns its duration and the duration of each access.
fn run(spec: Spec, steps: &[Step]) -> (u64, Taken, CoreReport) {
    let mut machine = Machine::new(topology(spec));
    machine.keep_ops();
    let (launch, pe) = launch(&mut machine, steps);
    let report = machine.view().core_report(launch, pe).expect("it has ended");
    let ops = machine.view().ops();
    let accesses = ops.records().iter().filter_map(|record| {
        let part = access_of(record.part, record.unit)?;
        Some((key(record.command as usize, part), (record.end - record.start).ps()))
    });
    ((report.ended - report.started).ps(), accesses.collect(), report)
}

fn launch(machine: &mut Machine, steps: &[Step]) -> (RequestId, PeRef) {
    let pe = machine.view().pe("sip0.cube0.pe0").unwrap();
    let work = cubeyard_sim::Span::ZERO;
    let body = Request::KernelLaunch { kernel: "random".into(), on: pe.into(), work };
    let launch = machine.submit(body).unwrap();
    let address = machine.view().hbm_address(pe, 0).unwrap().to_bits();
    let program = Steps { steps: steps.iter().cloned().collect(), address };
    machine.load(launch, pe, Box::new(program));
    assert_eq!(machine.run(), Stop::Idle);
    (launch, pe)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_log_without_programs_keeps_the_commands_of_a_launch(
        spec in specs(),
        steps in programs(true),
    ) {
        let logs = [Log::default(), Log::without_programs()].map(|log| {
            let mut machine = MachineBuilder::new(topology(spec)).watched(log);
            let (launch, _) = launch(&mut machine, &steps);
            let records = machine.view().log().transfers().iter().map(|record| {
                (record.kind, record.begun, record.delivered)
            });
            (records.collect::<Vec<_>>(), machine.view().stages(launch))
        });
        let [(all, _), (kept, stages)] = logs;
        let of_command = all.into_iter().filter(|(kind, ..)| *kind == TransferKind::Command);
        prop_assert_eq!(kept, of_command.collect::<Vec<_>>());
        prop_assert!(stages.is_some(), "they are told from commands");
    }
}

/// Returns the duration of a read on an idle machine, in picoseconds.
fn alone(bytes: u64) -> u64 {
    let mut machine = Machine::new(Topology::embedded());
    let from = machine.view().pe("sip0.cube0.pe0").unwrap();
    let address = machine.view().hbm_address(from, 0).unwrap().to_bits();
    let read = Request::VirtualDma { from, direction: Direction::Read, address, bytes };
    let read = machine.submit(read).unwrap();
    machine.run();
    machine.completion(read).unwrap().latency().ps()
}

/// Returns the duration of each access of a program on an idle machine.
fn each_alone(steps: &[Step]) -> BTreeMap<u64, u64> {
    let bytes = steps.iter().filter_map(|step| match step {
        Step::Task(Task {
            work: TaskWork::Load(bytes) | TaskWork::Pipeline(Pipe { bytes, .. }),
            ..
        }) => Some(*bytes),
        _ => None,
    });
    bytes.map(|bytes| (bytes, alone(bytes))).collect()
}

fn bytes_of(steps: &[Step], id: usize) -> u64 {
    let task = steps.iter().filter_map(|step| match step {
        Step::Task(task) => Some(task),
        _ => None,
    });
    match task.clone().nth(id).unwrap().work {
        TaskWork::Load(bytes) | TaskWork::Store(bytes) | TaskWork::Pipeline(Pipe { bytes, .. }) => {
            bytes
        }
        TaskWork::Compute(_) => unreachable!("it makes no access"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(100)))]

    /// Accesses of several engines delay each other, which other tests check. Here each access takes its measured
    /// duration, and the rules determine its start.
    #[test]
    fn any_program_takes_as_long_as_the_rules_say(spec in specs(), steps in programs(true)) {
        let (time, taken, _) = run(spec, &steps);
        let expected = reference::time(spec, &steps, &|id, part| taken[&key(id, part)]);
        prop_assert_eq!(time, expected);
    }

    /// With one engine and no writes accesses do not overlap, so no measured duration is needed.
    #[test]
    fn a_program_that_only_reads_is_known_beforehand(spec in specs(), steps in programs(false)) {
        let spec = Spec { engines: [1, 1], ..spec };
        let alone = each_alone(&steps);
        let expected = reference::time(spec, &steps, &|id, _| alone[&bytes_of(&steps, id)]);
        prop_assert_eq!(run(spec, &steps).0, expected);
    }
}

const PLAIN: Spec =
    Spec { dispatch: 1000, overhead: 1000, window: 4, engines: [1, 1], separate: false };

fn compute(ns: u64, after: &[usize]) -> Step {
    computation(true, ns, after)
}

fn computation(math: bool, ns: u64, after: &[usize]) -> Step {
    let work = TaskWork::Compute(Compute { math, count: 1, each: [0, ns * 1000, 0] });
    Step::Task(Task { work, after: after.to_vec(), computes_after: Vec::new() })
}

fn load(bytes: u64) -> Step {
    Step::Task(Task { work: TaskWork::Load(bytes), after: Vec::new(), computes_after: Vec::new() })
}

#[test]
fn by_hand_commands_without_dma() {
    // Dispatched at 1, issued at 2, done at 12; the next is issued at 3 and waits for the unit until 12.
    assert_eq!(run(PLAIN, &[compute(10, &[])]).0, 12_000);
    assert_eq!(run(PLAIN, &[compute(10, &[]), compute(5, &[0])]).0, 17_000);
    // With a window of one the second is dispatched at 12 and issued at 13.
    let one = Spec { window: 1, ..PLAIN };
    assert_eq!(run(one, &[compute(10, &[]), compute(5, &[])]).0, 18_000);
    // Three strips of 2, 5 and 1: the second stage sets the pace.
    let strips = TaskWork::Compute(Compute { math: true, count: 3, each: [2000, 5000, 1000] });
    let strips = Step::Task(Task { work: strips, after: Vec::new(), computes_after: Vec::new() });
    assert_eq!(run(PLAIN, &[strips]).0, (2 + 2 + 3 * 5 + 1) * 1000);
    // Calls that are no commands.
    assert_eq!(run(PLAIN, &[Step::Calls(7)]).0, 7000);
}

/// Times of old parts are dropped, unless a part still waits for them.
#[test]
fn a_long_pipeline_in_two_engines_takes_as_long_as_the_rules_say() {
    for (steps, loads, stores, epilogue) in [(3, 2, true, 9), (1, 1, false, 40), (2, 0, true, 1)] {
        let computation = |math, ns: u64| Compute { math, count: 2, each: [500, ns * 700, 300] };
        let (compute, epilogue) = (computation(false, 10), Some(computation(true, epilogue)));
        let pipe = Pipe { outs: 60, steps, loads, ahead: 2, stores, bytes: 700, compute, epilogue };
        let work = TaskWork::Pipeline(pipe);
        let program = [Step::Task(Task { work, after: Vec::new(), computes_after: Vec::new() })];
        for separate in [false, true] {
            let spec = Spec { separate, ..PLAIN };
            let (time, taken, _) = run(spec, &program);
            let expected = reference::time(spec, &program, &|id, part| taken[&key(id, part)]);
            assert_eq!(time, expected, "{pipe:?}, separate: {separate}");
        }
    }
}

/// Issued at 2 and 3. One engine takes 10 and 5; two overlap, unless one waits for the other.
#[test]
fn by_hand_two_engines() {
    let two = Spec { separate: true, ..PLAIN };
    let [product, sum] = [false, true].map(|math| computation(math, 10, &[]));
    let pair = [product.clone(), sum];
    assert_eq!((run(PLAIN, &pair).0, run(two, &pair).0), (22_000, 13_000));
    assert_eq!(run(two, &[product.clone(), computation(true, 10, &[0])]).0, 22_000);
    assert_eq!(run(two, &[product.clone(), product]).0, 22_000);
}

/// Three output tiles of a product of 10 each with an epilogue of 8: a shared engine alternates, and an engine of
/// its own takes each epilogue during the product of the next tile. With epilogues of 13 the product of the third
/// tile waits until the first has left its registers, at 25, and the epilogues set the pace.
#[test]
fn by_hand_a_pipeline_in_two_engines() {
    let computation = |math, ns: u64| Compute { math, count: 1, each: [0, ns * 1000, 0] };
    let time = |spec: Spec, epilogue| {
        let pipe = Pipe {
            outs: 3,
            steps: 1,
            loads: 0,
            ahead: 1,
            stores: false,
            bytes: 1,
            compute: computation(false, 10),
            epilogue: Some(computation(true, epilogue)),
        };
        let work = TaskWork::Pipeline(pipe);
        run(spec, &[Step::Task(Task { work, after: Vec::new(), computes_after: Vec::new() })]).0
    };
    let two = Spec { separate: true, ..PLAIN };
    assert_eq!((time(PLAIN, 8), time(two, 8)), (2000 + 3 * 18_000, 2000 + 3 * 10_000 + 8000));
    assert_eq!(time(two, 13), 2000 + 10_000 + 3 * 13_000);
}

#[test]
fn by_hand_a_load_and_what_uses_it() {
    let load_takes = alone(4096);
    let used = [load(4096), compute(10, &[0])];
    assert_eq!(run(PLAIN, &used).0, 2000 + load_takes + 10_000);
    // One engine: the second load begins when the answer of the first is there.
    assert_eq!(run(PLAIN, &[load(4096), load(4096)]).0, 2000 + 2 * load_takes);
}

/// `PE_CPU` considered the oldest command in the window done, so a kernel continued without the value that it waited
/// for.
#[test]
fn a_wait_for_the_oldest_command_of_the_window_waits() {
    let mut steps = vec![compute(100, &[])];
    steps.extend((1..4).map(|_| compute(1, &[])));
    steps.extend([Step::Wait(0), Step::Calls(200)]);
    // Issued at 2 and done at 102; then 200 calls.
    assert_eq!(run(PLAIN, &steps).0, 302_000);
}

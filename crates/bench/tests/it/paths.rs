//! The critical path of every bench, its timeline and its trace.

use cubeyard_bench::report::{RunReport, SliceKind, Step};
use cubeyard_bench::{
    Bench, BenchError, Lab, Needs, Outcome, Parameter, Run, RunConfig, Values, catalogue, run,
};
use cubeyard_device::topology::Topology;
use cubeyard_runtime::RingConfig;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Split;
use cubeyard_sim::Span;
use cubeyard_tl::Port;
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::Mode;
use expect_test::expect;

use crate::lab::{around, burst, kernel, ring};
use crate::small::small;

/// A bench with two launches of a tiled product with A in the TCM.
struct Product;

impl Bench for Product {
    fn name(&self) -> &'static str {
        "product"
    }

    fn summary(&self) -> &'static str {
        "C = A × B, twice"
    }

    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    fn needs(&self, _: &Values, _: &Topology, _: u64) -> Needs {
        Needs::default()
    }

    fn run(&self, lab: &Lab, _: &Values) -> Result<Outcome, BenchError> {
        let one = lab.placement(Split::Replicate, Split::Replicate, 1, 1);
        let a = lab.context.rand(&[32, 192], DType::F16, 1)?.to(&one)?;
        let b = lab.context.rand(&[192, 64], DType::F16, 2)?.to(&one)?;
        let c = lab.context.empty(&[32, 64], DType::F32)?.to(&one)?;
        let kernel = Kernel::new("product", |tl, args| {
            Box::pin(async move {
                let a = tl.load(&args.tensor(0).local());
                tl.gemm(&a, &args.tensor(1).local()).store(&args.tensor(2).local());
            })
        });
        for _ in 0..2 {
            lab.launch(&kernel, vec![&a, &b, &c], Vec::new(), 1, 1)?;
        }
        Ok(Outcome::default())
    }
}

/// PEs of a ring that pass tiles on.
struct Passing {
    kernel: Kernel,
    pes: u32,
    slots: u32,
}

impl Bench for Passing {
    fn name(&self) -> &'static str {
        "passing"
    }

    fn summary(&self) -> &'static str {
        "tiles that go around"
    }

    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    fn needs(&self, _: &Values, _: &Topology, _: u64) -> Needs {
        Needs::default()
    }

    fn run(&self, lab: &Lab, _: &Values) -> Result<Outcome, BenchError> {
        let pes = u64::from(self.pes);
        let rows = lab.placement(Split::Replicate, Split::RowWise, 1, pes);
        let x = lab.context.rand(&[pes, 64], DType::F32, 1)?.to(&rows)?;
        let y = lab.context.empty(&[pes, 64], DType::F32)?.to(&rows)?;
        let config = RingConfig { slots: self.slots, ..RingConfig::default() };
        let _channels = lab.context.connect(&ring(self.pes), &config)?;
        // Twice, so that the second comes after all that the first has left in the ports.
        for _ in 0..2 {
            lab.launch(&self.kernel, vec![&x, &y], Vec::new(), 1, pes)?;
        }
        Ok(Outcome::default())
    }
}

#[test]
fn a_path_goes_on_at_the_pe_that_a_message_came_from() {
    let mut crossed = 0;
    for (kernel, pes, slots) in
        [(around(), 2, 4), (around(), 8, 1), (burst(), 2, 1), (burst(), 2, 8)]
    {
        for mode in [Mode::Recorded, Mode::Live] {
            let bench = Passing { kernel: kernel.clone(), pes, slots };
            let report = run(&bench, &config(false, mode, true)).unwrap().report;
            check_steps(&report);
            for step in
                report.critical.iter().filter(|step| step.what.contains("on its way to sip"))
            {
                assert_eq!(step.kind, SliceKind::Message, "{step:?}");
                assert!(step.why.contains(" on sip0.cube0.pe"), "{step:?}");
                crossed += 1;
            }
        }
    }
    assert!(crossed > 50, "only {crossed} messages");
}

#[test]
fn a_message_is_explained_from_its_sending_to_its_taking() {
    let bench = Passing { kernel: around(), pes: 3, slots: 4 };
    let report = run(&bench, &config(false, Mode::Recorded, true)).unwrap().report;
    let half = report.critical.len() / 2;
    expect![[r#"
        0.00 + 1.00 PE_CPU: dispatch of load f32[1, 64] on sip0.cube0.pe1 (the launch began)
        1.00 + 1.00 PE_CPU: the scheduler passes on load f32[1, 64] on sip0.cube0.pe1 (its overhead for each command)
        2.00 + 14.02 DMA read: load f32[1, 64] on sip0.cube0.pe1 (it was dispatched then; 4.02 ns overhead, 2 ns serialisation, 8 ns memory)
        16.02 + 1.00 message: send f32[1, 64] to E on sip0.cube0.pe1 (it comes after load f32[1, 64])
        17.02 + 15.55 message: the message on its way to sip0.cube0.pe2 (after send f32[1, 64] to E on sip0.cube0.pe1)
        32.57 + 0.50 message: receive f32[1, 64] from W on sip0.cube0.pe2 (it came after send f32[1, 64] to E on sip0.cube0.pe1)
        33.07 + 1.00 PE_CPU: dispatch of add f32[1, 64] on sip0.cube0.pe2 (PE_CPU waited for receive f32[1, 64] from W)
        34.07 + 1.00 PE_CPU: dispatch of send f32[1, 64] to E on sip0.cube0.pe2 (one call after the other)
        35.07 + 1.00 PE_CPU: the scheduler passes on send f32[1, 64] to E on sip0.cube0.pe2 (its overhead for each command)
        36.07 + 1.00 message: send f32[1, 64] to E on sip0.cube0.pe2 (it was dispatched then)
        37.07 + 18.56 message: the message on its way to sip0.cube0.pe0 (after send f32[1, 64] to E on sip0.cube0.pe2)
        55.63 + 0.50 message: receive f32[1, 64] from W (it came after send f32[1, 64] to E on sip0.cube0.pe2)
        56.13 + 1.00 PE_CPU: dispatch of add f32[1, 64] (PE_CPU waited for receive f32[1, 64] from W)
        57.13 + 1.00 PE_CPU: the scheduler passes on add f32[1, 64] (its overhead for each command)
        58.13 + 1.00 TCM read: operands of add f32[1, 64] (it was dispatched then)
        59.13 + 0.25 MATH: add f32[1, 64] (after TCM read: operands of add f32[1, 64])
        59.38 + 0.50 TCM write: results of add f32[1, 64] (after MATH: add f32[1, 64])
        59.88 + 14.02 DMA write: store f32[1, 64] (it comes after results of add f32[1, 64]; 4.02 ns overhead, 2 ns serialisation, 8 ns memory)
    "#]].assert_eq(&report.critical[..half].iter().map(line).collect::<String>());
}

/// The first PE sends three messages, and the second adds them up.
fn stream() -> Kernel {
    kernel("stream", |tl, args| {
        let own = args.tensor(0).local();
        let mut sum = tl.load(&own);
        if tl.program_id(0) == 0 {
            (0..3).for_each(|_| tl.send(Port::E, &sum));
            return;
        }
        for _ in 0..3 {
            sum = &sum + &tl.recv(Port::W, &own.ty().shape, own.ty().dtype);
        }
        tl.store(&args.tensor(1).local(), &sum);
    })
}

#[test]
fn a_sender_without_a_slot_is_explained_by_who_took_the_last_message() {
    let bench = Passing { kernel: stream(), pes: 2, slots: 1 };
    let report = run(&bench, &config(false, Mode::Recorded, true)).unwrap().report;
    check_steps(&report);
    let half = report.critical.len() / 2;
    expect![[r#"
        0.00 + 1.00 PE_CPU: dispatch of load f32[1, 64] on sip0.cube0.pe0 (the launch began)
        1.00 + 1.00 PE_CPU: the scheduler passes on load f32[1, 64] on sip0.cube0.pe0 (its overhead for each command)
        2.00 + 14.02 DMA read: load f32[1, 64] on sip0.cube0.pe0 (it was dispatched then; 4.02 ns overhead, 2 ns serialisation, 8 ns memory)
        16.02 + 1.00 message: send f32[1, 64] to E on sip0.cube0.pe0 (it comes after load f32[1, 64])
        17.02 + 6.52 message: the message on its way to sip0.cube0.pe1 (after send f32[1, 64] to E on sip0.cube0.pe0)
        23.54 + 0.50 message: receive f32[1, 64] from W (it came after send f32[1, 64] to E on sip0.cube0.pe0)
        24.04 + 4.21 message: the credit for a slot on its way to sip0.cube0.pe0 (after receive f32[1, 64] from W on sip0.cube0.pe1)
        28.25 + 1.00 message: send f32[1, 64] to E on sip0.cube0.pe0 (a slot was free after receive f32[1, 64] from W on sip0.cube0.pe1)
        29.25 + 6.52 message: the message on its way to sip0.cube0.pe1 (after send f32[1, 64] to E on sip0.cube0.pe0)
        35.77 + 0.50 message: receive f32[1, 64] from W (it came after send f32[1, 64] to E on sip0.cube0.pe0)
        36.27 + 4.21 message: the credit for a slot on its way to sip0.cube0.pe0 (after receive f32[1, 64] from W on sip0.cube0.pe1)
        40.48 + 1.00 message: send f32[1, 64] to E on sip0.cube0.pe0 (a slot was free after receive f32[1, 64] from W on sip0.cube0.pe1)
        41.48 + 6.52 message: the message on its way to sip0.cube0.pe1 (after send f32[1, 64] to E on sip0.cube0.pe0)
        48.00 + 0.50 message: receive f32[1, 64] from W (it came after send f32[1, 64] to E on sip0.cube0.pe0)
        48.50 + 1.00 PE_CPU: dispatch of add f32[1, 64] (PE_CPU waited for receive f32[1, 64] from W)
        49.50 + 1.00 PE_CPU: the scheduler passes on add f32[1, 64] (its overhead for each command)
        50.50 + 1.00 TCM read: operands of add f32[1, 64] (it was dispatched then)
        51.50 + 0.25 MATH: add f32[1, 64] (after TCM read: operands of add f32[1, 64])
        51.75 + 0.50 TCM write: results of add f32[1, 64] (after MATH: add f32[1, 64])
        52.25 + 14.02 DMA write: store f32[1, 64] (it comes after results of add f32[1, 64]; 4.02 ns overhead, 2 ns serialisation, 8 ns memory)
    "#]].assert_eq(&report.critical[..half].iter().map(line).collect::<String>());
}

/// Formats a step for the snapshots.
fn line(step: &Step) -> String {
    let (at, took, kind) = (step.start.ns(), step.span().ns(), step.kind.name());
    format!("{at:.2} + {took:.2} {kind}: {} ({})\n", step.what, step.remark())
}

fn config(data: bool, mode: Mode, ops: bool) -> RunConfig {
    let (topology, set, sips) = (Topology::embedded(), Vec::new(), Vec::new());
    RunConfig { topology, set, data, mode, sips, ops }
}

#[test]
fn a_tiled_product_is_explained_tile_by_tile_and_launch_by_launch() {
    let report = run(&Product, &config(false, Mode::Recorded, true)).unwrap().report;
    check_steps(&report);
    let half = report.critical.len() / 2;
    let shown: String = report.critical[..half].iter().map(line).collect();
    expect![[r#"
        0.00 + 1.00 PE_CPU: dispatch of load f16[32, 192] (the launch began)
        1.00 + 1.00 PE_CPU: the scheduler passes on load f16[32, 192] (its overhead for each command)
        2.00 + 61.02 DMA read: load f16[32, 192] (it was dispatched then; 4.02 ns overhead, 49 ns serialisation, 8 ns memory)
        63.02 + 39.02 DMA read: gemm f32[32, 64]: B[0:64, 0:32] (DMA read was busy: load f16[32, 192]; 4.02 ns overhead, 17 ns serialisation, 8 ns memory, 10 ns for rows apart)
        102.04 + 39.02 DMA read: gemm f32[32, 64]: B[64:128, 0:32] (DMA read was busy: gemm f32[32, 64]: B[0:64, 0:32]; 4.02 ns overhead, 17 ns serialisation, 8 ns memory, 10 ns for rows apart)
        141.06 + 39.02 DMA read: gemm f32[32, 64]: B[128:192, 0:32] (DMA read was busy: gemm f32[32, 64]: B[64:128, 0:32]; 4.02 ns overhead, 17 ns serialisation, 8 ns memory, 10 ns for rows apart)
        180.08 + 39.02 DMA read: gemm f32[32, 64]: B[0:64, 32:64] (DMA read was busy: gemm f32[32, 64]: B[128:192, 0:32]; 4.02 ns overhead, 17 ns serialisation, 8 ns memory, 10 ns for rows apart)
        219.10 + 39.02 DMA read: gemm f32[32, 64]: B[64:128, 32:64] (DMA read was busy: gemm f32[32, 64]: B[0:64, 32:64]; 4.02 ns overhead, 17 ns serialisation, 8 ns memory, 10 ns for rows apart)
        258.12 + 64.00 DMA read: gemm f32[32, 64]: B[128:192, 32:64] (DMA read was busy: gemm f32[32, 64]: B[64:128, 32:64]; 4.02 ns overhead, 17 ns serialisation, 8 ns memory, 10 ns for rows apart, 24.98 ns behind others)
        322.12 + 16.00 TCM read: operands of gemm f32[32, 64]: tile (0, 1), step 2 (after DMA read: gemm f32[32, 64]: B[128:192, 32:64])
        338.12 + 16.38 GEMM: gemm f32[32, 64]: tile (0, 1), step 2 (after TCM read: operands of gemm f32[32, 64]: tile (0, 1), step 2)
        354.50 + 8.00 TCM write: results of gemm f32[32, 64]: tile (0, 1), step 2 (after GEMM: gemm f32[32, 64]: tile (0, 1), step 2)
        362.50 + 41.02 DMA write: gemm f32[32, 64]: C[0:32, 32:64] (after TCM write: results of gemm f32[32, 64]: tile (0, 1), step 2; 4.02 ns overhead, 9 ns serialisation, 16 ns memory, 12 ns for rows apart)
    "#]].assert_eq(&shown);
    // Between the launches is the host, and the second takes as long as the first.
    let [(_, first), (_, second)] = report.launches.as_slice() else { panic!() };
    let between = &report.critical[half];
    assert_eq!(between.what, "the host hears of the end and launches what comes next");
    assert_eq!((first, between.start), (second, *first));
    assert_eq!(report.kernel, *first + between.span() + *second);
    expect!["DMA read (70 % of the critical path, 8 % of that behind other traffic), above all of `gemm f32[32, 64]` at paths.rs:48 (57 %)"].assert_eq(&report.limited_by);
}

/// A bench that states no work was compared only with the time of its calls, so it seemed to reach 1.6 % of its bound.
#[test]
fn a_bench_that_states_no_work_is_bounded_by_what_it_did() {
    let report = run(&Product, &config(false, Mode::Recorded, false)).unwrap().report;
    let bound = |name: &str| report.bounds.iter().find(|bound| bound.resource == name);
    // 32 × 192 and 192 × 64 elements of f16 are read, and 32 × 64 of f32 written, twice, at 256 GB/s.
    let bytes = 2 * (2 * (32 * 192 + 192 * 64) + 4 * 32 * 64);
    assert_eq!(bound("the HBM of a PE").unwrap().span, Span::from_ps(bytes * 1000 / 256));
    // Two by three tiles of 131,072 operations at 8 TFLOP/s, twice.
    assert_eq!(bound("GEMM").unwrap().span, Span::from_ps(2 * 6 * 131_072 / 8));
    assert!(bound("dispatch by PE_CPU").is_some());
    assert!(report.share() > 0.3 && report.share() <= 1.0, "{}", report.share());
}

/// Matrix and vector work take turns in one engine: a product seemed to wait for a matrix unit that did an `arange`.
#[test]
fn the_unit_that_was_busy_is_the_one_that_worked() {
    let bench = catalogue().into_iter().find(|bench| bench.name() == "flash-attention").unwrap();
    let config = RunConfig { set: small(&*bench), ..config(false, Mode::Recorded, true) };
    let report = run(&*bench, &config).unwrap().report;
    let busy = report.critical.iter().filter_map(|step| step.why.split_once(" was busy: "));
    let mut seen = 0;
    for (unit, what) in busy.filter(|(unit, _)| ["GEMM", "MATH"].contains(unit)) {
        let is_product = what.starts_with("dot") || what.starts_with("gemm");
        assert_eq!(unit, if is_product { "GEMM" } else { "MATH" }, "{what}");
        seen += 1;
    }
    assert!(seen > 0, "the units of the engine meet on the path");
}

/// Returns all benches, or a third of them, and the one above.
fn benches() -> Vec<Box<dyn Bench>> {
    let product: Box<dyn Bench> = Box::new(Product);
    crate::long_tests::members(catalogue(), 3).chain([product]).collect()
}

/// Returns a run of each bench in every mode.
fn runs() -> impl Iterator<Item = (String, Run)> {
    benches().into_iter().flat_map(|bench| {
        let needs = bench.needs_data();
        let modes = if needs { vec![Mode::Live] } else { vec![Mode::Recorded, Mode::Live] };
        let run = move |mode| {
            let config = RunConfig { set: small(&*bench), ..config(needs, mode, true) };
            (bench.name().to_owned(), run(&*bench, &config).unwrap())
        };
        modes.into_iter().map(run)
    })
}

/// Checks that the steps follow each other from the start to the end.
#[track_caller]
fn check_steps(report: &RunReport) {
    let (name, mut at) = (&report.bench, Span::ZERO);
    for step in &report.critical {
        assert_eq!(step.start, at, "{name}: {step:?}");
        assert!(step.end > step.start, "{name}: {step:?}");
        assert!(!step.what.is_empty() && !step.why.is_empty(), "{name}: {step:?}");
        check_access(name, step);
        at = step.end;
    }
    assert_eq!(at, report.kernel, "{name}");
}

#[test]
fn the_steps_of_every_bench_follow_each_other_and_are_its_time_together() {
    let mut count = 0;
    for (name, Run { report, .. }) in runs() {
        check_steps(&report);
        count += report.critical.len();
        let parts: Span = report.breakdown.iter().map(|(_, span)| *span).sum();
        assert_eq!(parts, report.kernel, "{name}");
        assert!(report.limited_by.contains(" %"), "{name}: {}", report.limited_by);
    }
    assert!(count > 100, "only {count} steps");
}

#[track_caller]
fn check_access(name: &str, step: &Step) {
    let Some(access) = step.access else { return };
    let alone = [access.overhead, access.serialisation, access.service, access.rows];
    let alone: Span = alone.into_iter().sum();
    assert_eq!(alone + access.waiting, step.span(), "{name}: {step:?}");
}

#[test]
fn the_lanes_of_every_bench_lie_within_its_time_and_hold_its_path() {
    for (name, Run { report, .. }) in runs() {
        assert!(!report.lanes.is_empty(), "{name}");
        for slice in report.lanes.iter().flat_map(|lane| &lane.slices) {
            assert!(slice.start <= slice.end && slice.end <= report.kernel, "{name}: {slice:?}");
        }
        let places = report.lanes.iter().map(|lane| lane.name.split(' ').next());
        let places: std::collections::BTreeSet<_> = places.collect();
        assert!((1..=8).contains(&places.len()), "{name}: {places:?}");
        let ends = report.lanes.iter().flat_map(|lane| &lane.slices).map(|slice| slice.end);
        assert_eq!(ends.max(), Some(report.kernel), "{name}");
    }
}

#[test]
fn without_operations_a_report_has_neither_path_nor_lanes_and_the_same_time() {
    for bench in benches() {
        let small = small(&*bench);
        let config = |ops| RunConfig {
            set: small.clone(),
            ..config(bench.needs_data(), Mode::Recorded, ops)
        };
        let of = |ops| run(&*bench, &config(ops)).unwrap();
        let (with, without) = (of(true), of(false));
        assert!(with.log.is_some() && without.log.is_none());
        assert!(without.report.critical.is_empty() && without.report.lanes.is_empty());
        assert_eq!(without.report.kernel, with.report.kernel, "{}", bench.name());
        assert!(!without.report.limited_by.is_empty(), "{}", bench.name());
    }
}

#[test]
fn traces_are_the_same_each_time() {
    for (name, run) in runs().take(4) {
        let bytes = run.log.as_ref().unwrap().write_trace(Vec::new()).unwrap();
        let again = run.log.as_ref().unwrap().write_trace(Vec::new()).unwrap();
        assert_eq!(bytes, again, "{name}");
        assert!(bytes.len() > 1000, "{name}");
    }
}

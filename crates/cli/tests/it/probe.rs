//! `cubeyard probe`: cases, invariants, patterns, explanations, traces, and errors.

use expect_test::expect;
use serde_json::Value;

use crate::{Sandbox, json, refused};

/// A read inside a cube, and a write of the host that crosses its route.
const TWO: &str = "\
transfers:
  - {op: read, from: sip0.cube0.pe1, to: sip0.cube0.pe0.hbm, bytes: 16384, at_ns: 0}
  - {op: write, from: host, to: sip0.cube3.pe2.hbm, bytes: 1048576}
";

const CASES: [&str; 18] = [
    "h2d-near",
    "h2d-middle",
    "h2d-far",
    "d2h-near",
    "d2h-middle",
    "d2h-far",
    "pe-dma-local",
    "pe-dma-same-half",
    "pe-dma-cross-half",
    "pe-dma-cross-cube-near",
    "pe-dma-cross-cube-far",
    "pe-dma-remote-sip",
    "pe-write-local",
    "pe-write-same-half",
    "pe-write-cross-half",
    "pe-write-cross-cube-near",
    "pe-write-cross-cube-far",
    "pe-write-remote-sip",
];

fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object[key].as_array().unwrap_or_else(|| panic!("a list `{key}` in {object}"))
}

/// Returns a time of the output, in picoseconds. The output has nanoseconds with three decimals.
#[expect(clippy::cast_possible_truncation, reason = "rounded, and far below 2⁶³")]
fn ps(object: &Value, key: &str) -> i64 {
    let ns = object[key].as_f64().unwrap_or_else(|| panic!("a number `{key}` in {object}"));
    let ps = (ns * 1000.0).round();
    assert!((ps / 1000.0 - ns).abs() < 1e-9, "{key}: {ns} ns is no number of picoseconds");
    ps as i64
}

/// Returns the parts of a latency that do not depend on other traffic, and the wait.
fn parts_ps(measured: &Value) -> (i64, i64) {
    let breakdown = &measured["breakdown"];
    let alone = ["overhead_ns", "wire_ns", "serialisation_ns", "service_ns"];
    (alone.iter().map(|part| ps(breakdown, part)).sum(), ps(breakdown, "wait_ns"))
}

#[track_caller]
fn check_sum(measured: &Value) {
    let (alone, wait) = parts_ps(measured);
    assert_eq!(alone, ps(measured, "formula_ns"), "{measured}");
    assert_eq!(alone + wait, ps(measured, "latency_ns"), "{measured}");
}

/// Checks that the steps follow each other without a gap and add up to the latency.
#[track_caller]
fn check_steps(transfer: &Value, made_ps: i64) {
    let mut at = made_ps;
    for step in list(transfer, "explain") {
        assert_eq!(ps(step, "start_ns"), at, "{step}");
        at += ps(step, "duration_ns");
        assert!(!step["where"].as_str().unwrap().is_empty(), "{step}");
    }
    assert_eq!(at - made_ps, ps(transfer, "latency_ns"));
}

#[test]
fn the_parts_of_every_case_sum_to_its_latency_which_is_the_formulas() {
    let sandbox = Sandbox::new("probe-json");
    let report = json(sandbox.run(&["probe", "--format", "json"]));
    let names: Vec<_> = list(&report, "cases").iter().map(|case| case["name"].clone()).collect();
    assert_eq!(names, CASES);
    for case in list(&report, "cases") {
        assert_eq!(case["bytes"], 32 << 10);
        let sweep = list(case, "sweep");
        let sizes: Vec<_> = sweep.iter().map(|size| size["bytes"].as_u64().unwrap()).collect();
        assert_eq!(sizes, [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20]);
        for measured in sweep.iter().chain([case]) {
            check_sum(measured);
            assert_eq!(ps(measured, "latency_ns"), ps(measured, "formula_ns"));
            assert!((0.0..=1.0).contains(&measured["utilisation"].as_f64().unwrap()));
        }
        check_route(case);
    }
}

/// Checks that the route of the data has the right end, marks the slowest link and adds up.
fn check_route(case: &Value) {
    let hops = list(case, "route");
    let speed = |hop: &Value| hop["bandwidth_gbs"].as_f64().unwrap();
    let slowest = hops.iter().map(speed).fold(f64::INFINITY, f64::min);
    let mut passed = 0;
    for hop in hops {
        let parts = ["serialisation_ns", "wire_ns", "overhead_ns"];
        passed += parts.iter().map(|part| ps(hop, part)).sum::<i64>();
        assert_eq!(ps(hop, "cumulative_ns"), passed);
        assert_eq!(hop["bottleneck"], (speed(hop) - slowest).abs() < f64::EPSILON);
    }
    let last = hops.last().unwrap()["node"].as_str().unwrap();
    let end = match case["category"].as_str().unwrap() {
        "h2d" | "pe-write" => {
            let (cube, pe) = case["to"].as_str().unwrap().rsplit_once(".pe").unwrap();
            format!("{cube}.hbm_ctrl.pe{}", pe.strip_suffix(".hbm").unwrap())
        }
        "d2h" => "sip0.io0.pcie_ep".to_owned(),
        _ => "sip0.cube0.pe0.pe_dma".to_owned(),
    };
    assert_eq!(last, end);
}

#[test]
fn all_invariants_hold_on_the_default_machine() {
    let sandbox = Sandbox::new("probe-invariants");
    let report = json(sandbox.run(&["probe", "--format", "json"]));
    let claims: Vec<_> = list(&report, "invariants")
        .iter()
        .map(|invariant| {
            assert_eq!(invariant["holds"], true, "{invariant}");
            invariant["claim"].as_str().unwrap()
        })
        .collect();
    assert_eq!(
        claims,
        [
            "host writes take longer the farther they go",
            "host reads take longer the farther they go",
            "DMA takes longer the farther it goes in a SIP",
            "DMA writes take longer the farther they go in a SIP",
            "device to host is not below host to device",
            "the nearest other cube is below the farthest",
            "each latency is what the closed form says",
        ]
    );
}

#[test]
fn the_table_of_the_default_machine() {
    let sandbox = Sandbox::new("probe-table");
    let run = sandbox.run(&["probe"]);
    assert_eq!(run.stderr, "");
    let table = run.result();
    assert!(!table.contains('\u{1b}'), "colours are for terminals");
    for case in CASES {
        assert_eq!(table.matches(&format!("{case}: ")).count(), 1, "the route of {case}");
    }
    assert_eq!((table.matches('✓').count(), table.matches('✗').count()), (7, 0));
    let rows: Vec<_> = table.lines().take(20).collect();
    expect![[r#"
        32.00 KiB each alone on a fresh machine, in ns
          case                      to                   formula  actual   GB/s  used
          h2d-near                  sip0.cube0.pe0.hbm    289.54  289.54  113.2  88 %
          h2d-middle                sip0.cube2.pe0.hbm    366.69  366.69   89.4  70 %
          h2d-far                   sip0.cube15.pe0.hbm   405.26  405.26   80.9  63 %
          d2h-near                  sip0.cube0.pe0.hbm    309.57  309.57  105.9  83 %
          d2h-middle                sip0.cube2.pe0.hbm    442.87  442.87   74.0  58 %
          d2h-far                   sip0.cube15.pe0.hbm   509.52  509.52   64.3  50 %
          pe-dma-local              sip0.cube0.pe0.hbm    141.02  141.02  232.4  91 %
          pe-dma-same-half          sip0.cube0.pe1.hbm    146.04  146.04  224.4  88 %
          pe-dma-cross-half         sip0.cube0.pe7.hbm    191.22  191.22  171.4  67 %
          pe-dma-cross-cube-near    sip0.cube1.pe0.hbm    322.67  322.67  101.6  79 %
          pe-dma-cross-cube-far     sip0.cube15.pe7.hbm   706.12  706.12   46.4  36 %
          pe-dma-remote-sip         sip1.cube0.pe0.hbm    696.64  696.64   47.0  37 %
          pe-write-local            sip0.cube0.pe0.hbm    141.02  141.02  232.4  91 %
          pe-write-same-half        sip0.cube0.pe1.hbm    146.04  146.04  224.4  88 %
          pe-write-cross-half       sip0.cube0.pe7.hbm    191.22  191.22  171.4  67 %
          pe-write-cross-cube-near  sip0.cube1.pe0.hbm    332.67  332.67   98.5  77 %
          pe-write-cross-cube-far   sip0.cube15.pe7.hbm   696.12  696.12   47.1  37 %
          pe-write-remote-sip       sip1.cube0.pe0.hbm    696.64  696.64   47.0  37 %
    "#]]
    .assert_eq(&(rows.join("\n") + "\n"));
}

#[test]
fn one_case_is_the_same_alone_and_among_all() {
    let sandbox = Sandbox::new("probe-case");
    let all = json(sandbox.run(&["probe", "--format", "json", "--case", "all"]));
    for case in list(&all, "cases") {
        let name = case["name"].as_str().unwrap();
        let alone = json(sandbox.run(&["probe", "--format", "json", "--case", name]));
        assert_eq!(list(&alone, "cases"), std::slice::from_ref(case));
    }
}

#[test]
fn the_steps_of_every_case_sum_to_its_latency() {
    let sandbox = Sandbox::new("probe-explain");
    let report = json(sandbox.run(&["probe", "--format", "json", "--explain"]));
    assert_eq!(list(&report, "cases").len(), CASES.len());
    list(&report, "cases").iter().for_each(|case| check_steps(case, 0));
}

#[test]
fn small_machines_have_fewer_cases_and_hold_as_well() {
    let sandbox = Sandbox::new("probe-small");
    for (machine, cases) in [
        ("sips: {count: 1}", 16),
        ("sips: {count: 1}\ncubes: {w: 2, h: 1}", 14),
        ("sips: {count: 1}\ncubes: {w: 1, h: 1}", 8),
        ("sips: {count: 1}\ncubes: {w: 1, h: 1}\npe: {routers: [r0c0]}", 4),
    ] {
        sandbox.write("machine.yaml", machine);
        let run = sandbox.run(&["probe", "--topology", "machine.yaml", "--format", "json"]);
        assert_eq!(list(&json(run), "cases").len(), cases, "{machine}");
    }
}

/// Routers of 100 ns are valid input, but break an invariant: the other half of a PE's cube is farther away than the
/// next cube.
#[test]
fn an_invariant_that_fails_is_shown_and_ends_with_code_1() {
    let sandbox = Sandbox::new("probe-fails");
    sandbox.write("slow.yaml", "routers: {overhead_ns: 100}\n");
    let run = sandbox.run(&["probe", "--topology", "slow.yaml"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    let joined = run.stdout.replace("\n  ", " ");
    let failed: Vec<_> = joined.lines().filter(|line| line.contains('✗')).collect();
    assert_eq!(
        failed,
        [
            "✗ DMA takes longer the farther it goes in a SIP: \
             337.02 ns ≤ 538.04 ns ≤ 2347.22 ns ≤ 1579.67 ns ≤ 9803.12 ns",
            "✗ DMA writes take longer the farther they go in a SIP: \
             337.02 ns ≤ 538.04 ns ≤ 2347.22 ns ≤ 1606.67 ns ≤ 9803.12 ns"
        ]
    );
    let run = sandbox.run(&["probe", "--topology", "slow.yaml", "--format", "json"]);
    assert_eq!(run.code, Some(1));
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let fails = |invariant: &&Value| invariant["holds"] == false;
    assert_eq!(list(&report, "invariants").iter().filter(fails).count(), 2);
}

#[test]
fn a_pattern_gives_the_makespan_and_each_transfer() {
    let sandbox = Sandbox::new("probe-pattern");
    sandbox.write("two.yaml", TWO);
    let report = json(sandbox.run(&["probe", "--pattern", "two.yaml", "--format", "json"]));
    let [read, write] = list(&report, "transfers") else { panic!("{report}") };
    assert_eq!((&read["op"], &read["from"]), (&"read".into(), &"sip0.cube0.pe1".into()));
    assert_eq!((&write["op"], &write["to"]), (&"write".into(), &"sip0.cube3.pe2.hbm".into()));
    for transfer in [read, write] {
        check_sum(transfer);
        assert!(ps(&transfer["breakdown"], "wait_ns") > 0, "they are in each other's way");
    }
    // Both start at once, so the longer one is the makespan.
    assert_eq!(ps(read, "latency_ns"), 105_040);
    assert_eq!(ps(write, "latency_ns"), 8_348_805);
    assert_eq!(ps(&report, "makespan_ns"), 8_348_805);
    let names = |transfer| -> Vec<String> {
        list(transfer, "route").iter().map(|hop| hop["node"].as_str().unwrap().into()).collect()
    };
    assert_eq!(names(read), ["sip0.cube0.r0c0", "sip0.cube0.r0c1", "sip0.cube0.pe1.pe_dma"]);
    assert_eq!(names(write).len(), 42);
    assert_eq!(names(write).last().unwrap(), "sip0.cube3.hbm_ctrl.pe2");
    assert_eq!(read["held_up"]["behind"], 1);
    assert_eq!(write["held_up"]["behind"], 0);
    assert_eq!(read["held_up"]["link"], "sip0.cube0.r0c0 → sip0.cube0.r0c1");
}

#[test]
fn a_pattern_as_a_table() {
    let sandbox = Sandbox::new("probe-pattern-table");
    sandbox.write("two.yaml", TWO);
    let table = sandbox.run(&["probe", "--pattern", "two.yaml"]).result();
    assert!(!table.contains('\u{1b}'), "colours are for terminals");
    let rows: Vec<_> = table.lines().take(4).collect();
    expect![[r#"
        2 transfers in 8348.805 ns
             op     from            to                      bytes    at   actual
          0  read   sip0.cube0.pe1  sip0.cube0.pe0.hbm  16.00 KiB  0.00   105.04
          1  write  host            sip0.cube3.pe2.hbm   1.00 MiB  0.00  8348.81
    "#]]
    .assert_eq(&(rows.join("\n") + "\n"));
}

#[test]
fn a_transfer_without_an_offset_lies_behind_the_one_before_it_to_the_same_memory() {
    let sandbox = Sandbox::new("probe-offsets");
    let transfer = |rest: &str| format!("- {{op: read, from: host, {rest}}}\n");
    let hbm = "to: sip0.cube0.pe0.hbm, bytes:";
    let text = [
        transfer(&format!("{hbm} 1000")),
        transfer("to: sip0.cube0.sram, bytes: 5"),
        transfer(&format!("{hbm} 1 KiB, offset: 1 MiB")),
        transfer(&format!("{hbm} 256, offset: 0")),
        transfer(&format!("{hbm} 4 KiB")),
        transfer(&format!("{hbm} 1")),
        transfer("to: sip0.cube0.hbm_ctrl.pe0, bytes: 1"),
        transfer("to: sip0.cube0.sram, bytes: 5"),
    ];
    sandbox.write("offsets.yaml", format!("transfers:\n{}", text.concat()));
    let report = json(sandbox.run(&["probe", "--pattern", "offsets.yaml", "--format", "json"]));
    let offsets: Vec<_> =
        list(&report, "transfers").iter().map(|it| it["offset"].as_u64().unwrap()).collect();
    // The fifth lies behind the fourth, though the third went further; each begins with a burst.
    assert_eq!(offsets, [0, 0, 1 << 20, 0, 256, 256 + 4096, 4352 + 256, 256]);
}

#[test]
fn the_makespan_runs_from_the_first_request() {
    let sandbox = Sandbox::new("probe-late");
    let at = |ns: &str| {
        let text = format!(
            "transfers:\n  - {{op: write, from: sip1.cube2.m_cpu, to: sip1.cube2.sram, bytes: 64, at_ns: {ns}}}\n"
        );
        sandbox.write("late.yaml", text);
        json(sandbox.run(&["probe", "--pattern", "late.yaml", "--format", "json", "--explain"]))
    };
    let (early, late) = (at("0"), at("1234.567"));
    assert_eq!(early["makespan_ns"], late["makespan_ns"]);
    let [transfer] = list(&late, "transfers") else { panic!("{late}") };
    assert_eq!(ps(transfer, "at_ns"), 1_234_567);
    check_steps(transfer, 1_234_567);
    check_steps(&list(&early, "transfers")[0], 0);
}

#[test]
fn a_pattern_of_nothing_takes_no_time() {
    let sandbox = Sandbox::new("probe-nothing");
    sandbox.write("nothing.yaml", "transfers: []\n");
    let report = json(sandbox.run(&["probe", "--pattern", "nothing.yaml", "--format", "json"]));
    assert_eq!((ps(&report, "makespan_ns"), list(&report, "transfers").len()), (0, 0));
}

#[test]
fn explained_transfers_name_the_other_one_and_change_nothing() {
    let sandbox = Sandbox::new("probe-pattern-explain");
    sandbox.write("two.yaml", TWO);
    let arguments = ["probe", "--pattern", "two.yaml", "--format", "json"];
    let mut explained = json(sandbox.run(&[&arguments[..], &["--explain"]].concat()));
    let mut behind = Vec::new();
    for transfer in explained["transfers"].as_array_mut().unwrap() {
        check_steps(transfer, 0);
        let steps = list(transfer, "explain").iter();
        behind.push(steps.filter_map(|step| step["behind"].as_u64()).collect::<Vec<_>>());
        transfer.as_object_mut().unwrap().remove("explain");
    }
    assert!(!behind[0].is_empty() && behind[0].iter().all(|&other| other == 1), "{behind:?}");
    assert_eq!(explained, json(sandbox.run(&arguments)));
    let table = sandbox.run(&["probe", "--pattern", "two.yaml", "--explain"]).result();
    assert!(table.contains("transfer 0, step by step") && table.contains("105.04 ns in all"));
    assert!(table.contains("behind transfer 1"));
}

#[test]
fn a_trace_is_written_beside_the_same_result() {
    let sandbox = Sandbox::new("probe-trace");
    sandbox.write("two.yaml", TWO);
    let plain = sandbox.run(&["probe", "--pattern", "two.yaml"]).result();
    let run = sandbox.run(&["probe", "--pattern", "two.yaml", "--trace", "a.pftrace"]);
    assert_eq!(run.stderr, "wrote a.pftrace: open it at ui.perfetto.dev; it shows 1 ps as 1 ns\n");
    assert_eq!(run.result(), plain);
    let run = sandbox.run(&["probe", "--pattern", "two.yaml", "--trace", "b.pftrace", "--quiet"]);
    assert_eq!(run.stderr, "");
    let bytes = std::fs::read(sandbox.path("a.pftrace")).unwrap();
    assert_eq!(bytes, std::fs::read(sandbox.path("b.pftrace")).unwrap());
    // A trace is a row of packets: field 1, with a length.
    assert_eq!(bytes[0], 0x0a);
    assert!(bytes.len() > 1000);
    let name = b"sip0.cube0.hbm_ctrl.pe0 bursts";
    assert!(bytes.windows(name.len()).any(|window| window == name));
    let case = ["probe", "--case", "d2h-far", "--trace", "case.pftrace", "-q"];
    sandbox.run(&case).result();
    assert_eq!(std::fs::read(sandbox.path("case.pftrace")).unwrap()[0], 0x0a);
}

#[test]
fn a_trace_that_cannot_be_written() {
    let sandbox = Sandbox::new("probe-trace-refused");
    sandbox.write("two.yaml", TWO);
    sandbox.write("taken", "");
    let mut messages = String::new();
    for path in ["absent/x.pftrace", ".", "taken/x.pftrace"] {
        let run = sandbox.run(&["probe", "--pattern", "two.yaml", "--trace", path]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
        messages += &run.stderr;
    }
    expect![[r#"
        error: absent/x.pftrace: cannot be written: there is no folder absent
          help: create the folder
        error: .: cannot be written: it is a folder
          help: name a file
        error: taken/x.pftrace: cannot be written: taken is not a folder
          help: name another file
    "#]]
    .assert_eq(&messages);
    let left: Vec<_> = std::fs::read_dir(sandbox.path(".")).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

/// A failed trace was removed by its name, even if the name was a device, and the reason was not reported.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_and_a_device_is_not_removed() {
    let sandbox = Sandbox::new("probe-trace-full");
    sandbox.write("two.yaml", TWO);
    std::os::unix::fs::symlink("/dev/full", sandbox.path("full")).unwrap();
    refused(
        &sandbox.run(&["probe", "--pattern", "two.yaml", "--trace", "full"]),
        &expect![[r#"
            error: full: cannot be written: the trace could not be written: No space left on device (os error 28)
              help: name another file with --trace
        "#]],
    );
    assert!(sandbox.path("full").exists());
}

#[test]
fn cases_that_cannot_be_chosen() {
    let sandbox = Sandbox::new("probe-cases-refused");
    refused(
        &sandbox.run(&["probe", "--case", "pe-dma-locale"]),
        &expect![[r#"
            error: --case: expected one of all, h2d-near, h2d-middle, h2d-far, d2h-near, d2h-middle, d2h-far, pe-dma-local, pe-dma-same-half, pe-dma-cross-half, pe-dma-cross-cube-near, pe-dma-cross-cube-far, pe-dma-remote-sip, pe-write-local, pe-write-same-half, pe-write-cross-half, pe-write-cross-cube-near, pe-write-cross-cube-far, pe-write-remote-sip; found pe-dma-locale
        "#]],
    );
    refused(
        &sandbox.run(&["probe", "--trace", "x.pftrace"]),
        &expect![[r#"
            error: --trace: expected one case, found 18
              help: choose it with --case NAME
        "#]],
    );
    assert!(!sandbox.path("x.pftrace").exists());
    sandbox.write("two.yaml", TWO);
    let run = sandbox.run(&["probe", "--pattern", "two.yaml", "--case", "h2d-far"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
}

#[test]
fn patterns_that_are_refused() {
    let sandbox = Sandbox::new("probe-refused");
    let mut messages = String::new();
    let mut refuse = |bytes: &[u8]| {
        sandbox.write("bad.yaml", bytes);
        let run = sandbox.run(&["probe", "--pattern", "bad.yaml"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
        let (message, help) = run.stderr.split_once('\n').unwrap();
        assert!(help.starts_with("  help: a transfer looks like {op: read"), "{help}");
        messages.extend([message, "\n"]);
    };
    for transfer in [
        "op: read, from: host, to: sip0.cube0.pe0.hbm, bytes: 64, at: 3",
        "op: read, from: host, to: sip0.cube0.pe0.hbm, byte: 64",
        "op: read, from: host, to: sip0.cube0.pe0.hbm",
        "from: host, to: sip0.cube0.pe0.hbm, bytes: 64",
        "op: raed, from: host, to: sip0.cube0.pe0.hbm, bytes: 64",
        "op: read, from: host, to: sip0.cube99.pe0.hbm, bytes: 64",
        "op: read, from: sip0.cub0.pe1, to: sip0.cube0.pe0.hbm, bytes: 64",
        "op: read, from: hots, to: sip0.cube0.pe0.hbm, bytes: 64",
        "op: read, from: host, to: [sip0], bytes: 64",
        "op: read, from: host, to: sip0.cube0.pe0, bytes: 64",
        "op: read, from: host, to: host, bytes: 64",
        "op: read, from: sip0.cube0.r0c0, to: sip0.cube0.pe0.hbm, bytes: 64",
        "op: read, from: sip0.cube0.pe0.hbm, to: sip0.cube0.pe0.hbm, bytes: 64",
        "op: read, from: host, to: sip0.cube0.pe0.hbm, bytes: 0",
        "op: read, from: host, to: sip0.cube0.pe0.hbm, bytes: -4",
        "op: read, from: host, to: sip0.cube0.pe0.hbm, bytes: 64, at_ns: -1",
        "op: read, from: host, to: sip0.cube0.pe0.hbm, bytes: 64, at_ns: soon",
        "op: read, from: host, to: sip0.cube0.pe0.hbm, bytes: 7 GiB",
        "op: read, from: host, to: sip0.cube0.sram, bytes: 64, offset: 32 MiB",
        "op: read, from: host, to: sip0.cube0.sram, bytes: 64, offset: 18446744073709551615",
        "op: read, from: host, to: sip0.cube0.sram, bytes: 64, offset: -1",
        "op: read, op: read, from: host, to: sip0.cube0.sram, bytes: 64",
    ] {
        refuse(format!("# a comment\ntransfers:\n  - {{{transfer}}}\n").as_bytes());
    }
    for text in [
        &b""[..],
        b"transfers:\n",
        b"transfers: 3\n",
        b"transfers: [3]\n",
        b"transfer: []\n",
        b"- 1\n",
        b"transfers: [\n",
        b"transfers: &a []\n",
        b"\x89PNG\r\n\x1a\n\xff",
        b"\x00\x01",
    ] {
        refuse(text);
    }
    expect![[r#"
        error: bad.yaml:3: transfers[0]: expected a known key, found `at`; the nearest is `op`
        error: bad.yaml:3: transfers[0]: expected a known key, found `byte`; the nearest is `bytes`
        error: bad.yaml:3: transfers[0]: expected the key `bytes`, found none
        error: bad.yaml:3: transfers[0]: expected the key `op`, found none
        error: bad.yaml:3: transfers[0].op: expected one of read, write, found raed; the nearest is `read`
        error: bad.yaml:3: transfers[0].to: expected a node of the machine, found sip0.cube99.pe0.hbm; the nearest is `sip0.cube9.pe0.hbm`
        error: bad.yaml:3: transfers[0].from: expected a node of the machine, found sip0.cub0.pe1; the nearest is `sip0.cube0.pe1`
        error: bad.yaml:3: transfers[0].from: expected a node of the machine, found hots; the nearest is `host`
        error: bad.yaml:3: transfers[0].to: expected the name of a node, found a list of 1
        error: bad.yaml:3: transfers[0].to: expected a memory: the HBM of a PE or the SRAM of a cube, found sip0.cube0.pe0; the nearest is `sip0.cube0.pe0.hbm`
        error: bad.yaml:3: transfers[0].to: expected a node of the machine, found host; the nearest is `sip0.cube0.sram`
        error: bad.yaml:3: transfers[0].from: expected an initiator: host, a PE or an m_cpu, found sip0.cube0.r0c0; the nearest is `sip0.cube0.pe0`
        error: bad.yaml:3: transfers[0].from: expected an initiator: host, a PE or an m_cpu, found sip0.cube0.pe0.hbm; the nearest is `sip0.cube0.pe0`
        error: bad.yaml:3: transfers[0].bytes: expected a number of bytes above 0, such as 256, 64 KiB or 48 GiB, found 0
        error: bad.yaml:3: transfers[0].bytes: expected a number of bytes above 0, such as 256, 64 KiB or 48 GiB, found -4
        error: bad.yaml:3: transfers[0].at_ns: expected a number of nanoseconds from 0 to 1000000000, found -1
        error: bad.yaml:3: transfers[0].at_ns: expected a number of nanoseconds from 0 to 1000000000, found soon
        error: bad.yaml:3: transfers[0].to: expected a range within the 6442450944 bytes of the memory, found 7516192768 bytes at offset 0
        error: bad.yaml:3: transfers[0].offset: expected a range within the 33554432 bytes of the memory, found 64 bytes at offset 33554432
        error: bad.yaml:3: transfers[0].offset: expected a range within the 33554432 bytes of the memory, found 64 bytes at offset 18446744073709551615
        error: bad.yaml:3: transfers[0].offset: expected a number of bytes from 0 up, found -1
        error: bad.yaml:3: transfers[0].op: expected the key once, found it in line 3, too
        error: bad.yaml:1: expected the key `transfers`, found none
        error: bad.yaml:1: transfers: expected a list of transfers, found nothing
        error: bad.yaml:1: transfers: expected a list of transfers, found 3
        error: bad.yaml:1: transfers[0]: expected a mapping, found 3
        error: bad.yaml:1: expected a known key, found `transfer`; the nearest is `transfers`
        error: bad.yaml:1: expected a mapping, found a list of 1
        error: bad.yaml:2: expected YAML: while parsing a node, did not find expected node content
        error: bad.yaml:1: expected plain YAML, found an anchor
        error: bad.yaml:1: expected UTF-8, found byte 0x89
        error: bad.yaml:1: expected YAML: found unprintable character
    "#]].assert_eq(&messages);
}

#[test]
fn patterns_that_are_not_there() {
    let sandbox = Sandbox::new("probe-absent");
    let mut messages = String::new();
    for path in ["absent.yaml", "."] {
        let run = sandbox.run(&["probe", "--pattern", path]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
        messages += &run.stderr;
    }
    expect![[r#"
        error: absent.yaml: No such file or directory (os error 2)
          help: check the path
        error: .: Is a directory (os error 21)
          help: check the path
    "#]]
    .assert_eq(&messages);
}

/// The report searched the whole log for each transfer, an explanation read all of it again for each, and the engine
/// looked among all transfers to one memory for the next: 20,000 took 27 s without and hours with explanations.
#[test]
#[expect(clippy::disallowed_methods, reason = "the time that the command takes is what is tested")]
fn many_small_transfers_are_explained_in_linear_time() {
    let sandbox = Sandbox::new("probe-many");
    let one = "  - {op: read, from: sip0.cube0.pe0, to: sip0.cube0.pe0.hbm, bytes: 1}\n";
    sandbox.write("many.yaml", format!("transfers:\n{}", one.repeat(20_000)));
    let start = std::time::Instant::now();
    let plain = sandbox.run(&["probe", "--pattern", "many.yaml", "--format", "json"]);
    assert_eq!(list(&json(plain), "transfers").len(), 20_000);
    let explain = ["probe", "--pattern", "many.yaml", "--explain", "--format", "json"];
    let report = json(sandbox.run(&explain));
    assert!(start.elapsed().as_secs() < 120, "{:?}", start.elapsed());
    list(&report, "transfers").iter().for_each(|transfer| check_steps(transfer, 0));
}

/// 25 million flits on their links took 11 GB before the first line was printed.
#[test]
fn an_explanation_that_would_take_all_memory_is_refused() {
    let sandbox = Sandbox::new("probe-large");
    sandbox.write(
        "large.yaml",
        "transfers:\n  - {op: read, from: sip0.cube0.pe0, to: sip0.cube0.pe0.hbm, bytes: 6 GiB}\n",
    );
    for more in [["--explain"].as_slice(), &["--trace", "large.perfetto"]] {
        let arguments = [["probe", "--pattern", "large.yaml"].as_slice(), more].concat();
        let run = sandbox.run(&arguments);
        assert_eq!((run.code, run.stdout.as_str()), (Some(3), ""), "{}", run.stderr);
        expect![[r#"
            error: expected at most 8388608 flit crossings and bursts to record, found 75497474
              help: fewer or smaller transfers; without --explain and --trace none are kept
        "#]]
        .assert_eq(&run.stderr);
    }
    assert!(!sandbox.path("large.perfetto").exists());
}

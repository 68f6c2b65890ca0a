//! `cubeyard run` and `cubeyard list`: figures, checks, explanations, files, and errors.

use expect_test::{Expect, expect};

use crate::{Run, Sandbox, json};

/// Arguments of a short run.
const SMALL: [&str; 6] = ["run", "vector-add", "--set", "elements=4096", "--set", "block=256"];

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(more).copied().collect()
}

#[track_caller]
fn refused(run: &Run, code: i32, expected: &Expect) {
    assert_eq!((run.code, run.stdout.as_str()), (Some(code), ""), "{}", run.stderr);
    expected.assert_eq(&run.stderr);
}

#[test]
fn benches_are_listed() {
    let sandbox = Sandbox::new("list");
    let names = sandbox.run(&["list"]).result();
    assert!(names.contains("  vector-add"), "{names}");
    let verbose = sandbox.run(&["list", "-v"]).result();
    assert!(verbose.contains("elements"), "{verbose}");
    let all = json(sandbox.run(&["list", "--format", "json"]));
    let all = all.as_array().unwrap();
    let is_bench = |line: &&str| !line.starts_with("   ");
    assert_eq!(all.len(), names.lines().filter(is_bench).count() - 1);
    let lines = names.lines().chain(verbose.lines());
    assert!(lines.map(|line| line.chars().count()).max().unwrap() <= 80, "{names}{verbose}");
    for bench in all {
        assert!(bench["name"].is_string() && bench["summary"].is_string(), "{bench}");
        for parameter in bench["parameters"].as_array().unwrap() {
            for key in ["name", "what", "default", "expected"] {
                assert!(parameter[key].is_string(), "{parameter}");
            }
        }
    }
}

#[test]
fn a_small_run_as_a_table() {
    let sandbox = Sandbox::new("run-table");
    let run = sandbox.run(&small(&["--data", "--set", "pes=2"]));
    assert_eq!(run.stderr, "");
    expect![[r#"
        vector-add: the sum of two vectors, each PE its part
          elements=4096 block=256 dtype=f16 cubes=1 pes=2
          on 2 SIPs × 16 cubes × 8 PEs

          kernel      261.3 ns on 2 PEs; 370.6 ns seen by the host
          moved       16.00 KiB read, 8.00 KiB written: 94.04 GB/s, 18.4 % of 512 GB/s
          computed    4.096 kFLOP: 15.67 GFLOP/s, 3.1 % of 512 GFLOP/s
          limited by  DMA read (92 % of the critical path), above all of `load f16[256]`
                      at vector_add.rs:17 (46 %), `load f16[256]` at vector_add.rs:18
                      (46 %)
          check       passed: 4,096 elements, error 2.45e-4 of 9.77e-4 allowed

          bound               at least  of the kernel
          MATH                    8 ns          3.1 %
          TCM read               16 ns          6.1 %
          TCM write               8 ns          3.1 %
          the HBM of a PE        48 ns         18.4 %
          dispatch by PE_CPU     32 ns         12.2 %

          unit       busiest         busy there  on average
          PE_CPU     sip0.cube0.pe0      12.2 %      12.2 %
          DMA read   sip0.cube0.pe0        92 %        92 %
          DMA write  sip0.cube0.pe0        46 %        46 %
          TCM read   sip0.cube0.pe0       6.1 %       6.1 %
          MATH       sip0.cube0.pe0       3.1 %       3.1 %
          TCM write  sip0.cube0.pe0       3.1 %       3.1 %
    "#]]
    .assert_eq(&run.result());
}

#[test]
fn a_small_run_explained() {
    let sandbox = Sandbox::new("run-explain");
    let arguments = ["--explain", "--set", "pes=1", "--set", "elements=512", "--quiet"];
    let run = sandbox.run(&small(&arguments));
    assert_eq!(run.stderr, "");
    expect![[r#"
        vector-add: the sum of two vectors, each PE its part
          elements=512 block=256 dtype=f16 cubes=1 pes=1
          on 2 SIPs × 16 cubes × 8 PEs

          kernel      81.1 ns on 1 PE; 190.3 ns seen by the host
          moved       2.00 KiB read, 1.00 KiB written: 37.88 GB/s, 14.8 % of 256 GB/s
          computed    512 FLOP: 6.313 GFLOP/s, 2.5 % of 256 GFLOP/s
          limited by  DMA read (74 % of the critical path), above all of `load f16[256]`
                      at vector_add.rs:17 (37 %), `load f16[256]` at vector_add.rs:18
                      (37 %)
          check       none: the numbers were not computed

          bound               at least  of the kernel
          MATH                    2 ns          2.5 %
          TCM read                4 ns          4.9 %
          TCM write               2 ns          2.5 %
          the HBM of a PE        12 ns         14.8 %
          dispatch by PE_CPU      8 ns          9.9 %

          unit       busiest         busy there  on average
          PE_CPU     sip0.cube0.pe0       9.9 %       9.9 %
          DMA read   sip0.cube0.pe0      74.1 %      74.1 %
          DMA write  sip0.cube0.pe0        37 %        37 %
          TCM read   sip0.cube0.pe0       4.9 %       4.9 %
          MATH       sip0.cube0.pe0       2.5 %       2.5 %
          TCM write  sip0.cube0.pe0       2.5 %       2.5 %

        the critical path, line by line
          line              unit       steps     takes   share  behind others
          vector_add.rs:17  DMA read       2  30.04 ns    37 %
          vector_add.rs:18  DMA read       2  30.04 ns    37 %
          vector_add.rs:19  DMA write      1  15.02 ns  18.5 %
          vector_add.rs:17  PE_CPU         2      2 ns   2.5 %
          vector_add.rs:19  TCM read       1      2 ns   2.5 %
          vector_add.rs:19  MATH           1      1 ns   1.2 %
          vector_add.rs:19  TCM write      1      1 ns   1.2 %

        step by step, in ns
          from    takes   unit       what, why then, and of which
           0.000   1.000  PE_CPU     dispatch of load f16[256] at vector_add.rs:17
                                     the launch began
           1.000   1.000  PE_CPU     the scheduler passes on load f16[256] at
                                     vector_add.rs:17
                                     its overhead for each command
           2.000  15.020  DMA read   load f16[256] at vector_add.rs:17
                                     it was dispatched then
                                     4.02 ns overhead, 3 ns serialisation, 8 ns memory
          17.020  15.020  DMA read   load f16[256] at vector_add.rs:18
                                     DMA read was busy: load f16[256]
                                     4.02 ns overhead, 3 ns serialisation, 8 ns memory
          32.040  15.020  DMA read   load f16[256] at vector_add.rs:17
                                     DMA read was busy: load f16[256]
                                     4.02 ns overhead, 3 ns serialisation, 8 ns memory
          47.060  15.020  DMA read   load f16[256] at vector_add.rs:18
                                     DMA read was busy: load f16[256]
                                     4.02 ns overhead, 3 ns serialisation, 8 ns memory
          62.080   2.000  TCM read   operands of add f16[256] at vector_add.rs:19
                                     it comes after load f16[256]
          64.080   1.000  MATH       add f16[256] at vector_add.rs:19
                                     after TCM read: operands of add f16[256]
          65.080   1.000  TCM write  results of add f16[256] at vector_add.rs:19
                                     after MATH: add f16[256]
          66.080  15.020  DMA write  store f16[256] at vector_add.rs:19
                                     it comes after results of add f16[256]
                                     4.02 ns overhead, 3 ns serialisation, 8 ns memory
          10 steps, 81.1 ns in all
    "#]]
    .assert_eq(&run.result());
}

#[test]
fn json_has_every_figure() {
    let sandbox = Sandbox::new("run-json");
    let report = json(sandbox.run(&small(&["--data", "--explain", "--format", "json"])));
    let keys = [
        "bench",
        "summary",
        "parameters",
        "machine",
        "pes",
        "kernel_ns",
        "host_ns",
        "launches",
        "read_bytes",
        "written_bytes",
        "flop",
        "bandwidth_gbs",
        "peak_bandwidth_gbs",
        "rate_gflops",
        "peak_rate_gflops",
        "share_of_bound",
        "limited_by",
        "bounds",
        "units",
        "breakdown",
        "critical",
        "lanes",
        "lines",
        "check",
        "findings",
        "notes",
        "version",
        "topology",
    ];
    for key in keys {
        assert!(!report[key].is_null(), "{key}");
    }
    assert_eq!(report.as_object().unwrap().len(), keys.len());
    let steps = report["critical"].as_array().unwrap();
    let total: f64 = steps.iter().map(|step| step["duration_ns"].as_f64().unwrap()).sum();
    assert!((total - report["kernel_ns"].as_f64().unwrap()).abs() < 1e-6);
    assert_eq!(report["check"]["passed"], true);
    let brief = json(sandbox.run(&small(&["--format", "json"])));
    assert!(["critical", "lanes", "check"].iter().all(|key| brief[key].is_null()));
    assert_eq!(brief["kernel_ns"], report["kernel_ns"]);
}

#[test]
fn a_run_without_data_says_that_nothing_was_checked() {
    let sandbox = Sandbox::new("run-unchecked");
    let run = sandbox.run(&SMALL);
    expect![[r#"
        note: only times were simulated, and no number was checked; --data computes and checks them
    "#]]
    .assert_eq(&run.stderr);
    assert!(run.result().contains("none: the numbers were not computed"));
}

#[test]
fn live_and_recorded_print_the_same() {
    let sandbox = Sandbox::new("run-live");
    let recorded = sandbox.run(&small(&["--data", "--explain"])).result();
    assert_eq!(sandbox.run(&small(&["--data", "--explain", "--live"])).result(), recorded);
}

#[test]
fn traces_and_pages_are_written_and_the_same_each_time() {
    let sandbox = Sandbox::new("run-files");
    for name in ["a", "b"] {
        let (trace, page) = (format!("{name}.pftrace"), format!("{name}.html"));
        let run = sandbox.run(&small(&["--data", "--trace", &trace, "--report", &page]));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let expected = format!(
            "wrote {trace}: open it at ui.perfetto.dev; it shows 1 ps as 1 ns\nwrote {page}\n"
        );
        assert_eq!(run.stderr, expected);
    }
    let bytes = |name: &str| std::fs::read(sandbox.path(name)).unwrap();
    assert_eq!(bytes("a.pftrace"), bytes("b.pftrace"));
    assert_eq!(bytes("a.pftrace")[0], 0x0a);
    let page = sandbox.read("a.html");
    assert_eq!(page, sandbox.read("b.html"));
    for title in ["Timeline", "Critical path", "How busy the units were", "Roofline"] {
        assert!(page.contains(title), "{title}");
    }
}

/// The first example: with its numbers checked, and a page.
#[test]
fn without_a_name_an_example_is_run_and_drawn() {
    let sandbox = Sandbox::new("run-first");
    for arguments in [&["run"][..], &[]] {
        let run = sandbox.run(arguments);
        assert!(
            run.stderr.starts_with("no bench named: running a first example"),
            "{}",
            run.stderr
        );
        assert!(run.stderr.ends_with("wrote cubeyard-run.html\n"), "{}", run.stderr);
        assert!(run.result().contains("passed"));
        assert!(sandbox.read("cubeyard-run.html").starts_with("<!DOCTYPE html>"));
        std::fs::remove_file(sandbox.path("cubeyard-run.html")).unwrap();
    }
}

#[test]
fn unknown_names_are_refused_with_the_nearest() {
    let sandbox = Sandbox::new("run-unknown");
    refused(
        &sandbox.run(&["run", "vector-ad"]),
        2,
        &expect![[r#"
        error: there is no bench `vector-ad`; the nearest is `vector-add`
          help: cubeyard list shows all benches
    "#]],
    );
    refused(
        &sandbox.run(&["run", "vector-add", "--set", "element=3"]),
        2,
        &expect![[r#"
        error: vector-add has no parameter `element`; it has elements, block, dtype, cubes, pes; the nearest is `elements`
          help: cubeyard list -v shows all parameters
    "#]],
    );
    refused(
        &sandbox.run(&["run", "vector-add", "--set", "elements=x"]),
        2,
        &expect![[r#"
        error: vector-add: elements=x: expected a whole number from 1 to 68719476736
          help: cubeyard list -v shows all parameters
    "#]],
    );
    refused(
        &sandbox.run(&["run", "vector-add", "--set", "elements"]),
        2,
        &expect![[r#"
        error: `elements`: expected name=value
          help: write it as in --set elements=4096
    "#]],
    );
}

#[test]
fn devices_that_are_not_there_are_refused() {
    let sandbox = Sandbox::new("run-device");
    refused(
        &sandbox.run(&["run", "vector-add", "--device", "sip:2"]),
        2,
        &expect![[r#"
        error: --device: the machine has no sip:2; it has 2, from sip:0 on
    "#]],
    );
    refused(
        &sandbox.run(&["run", "vector-add", "--device", "sip"]),
        2,
        &expect![[r#"
        error: invalid value 'sip' for '--device <all|sip:N>': expected all, or sip: and a number, such as sip:0

        For more information, try '--help'.
    "#]],
    );
    let first = sandbox.run(&small(&["--quiet"])).result();
    let second = sandbox.run(&small(&["--quiet", "--device", "sip:1"])).result();
    assert_eq!(first.replace("sip0", "sip1"), second);
    let all = sandbox.run(&small(&["--quiet", "--device", "all"])).result();
    assert!(all.contains("note: sip1 has nothing to do in this bench"), "{all}");
}

#[test]
fn too_many_cubes_are_refused() {
    let sandbox = Sandbox::new("run-cubes");
    refused(
        &sandbox.run(&["run", "vector-add", "--set", "cubes=17"]),
        2,
        &expect![[r#"
        error: the placement needs 17 cubes, but the machine has 16
          help: change the parameters with --set
    "#]],
    );
}

#[test]
fn memory_that_runs_out_has_a_code_of_its_own() {
    let sandbox = Sandbox::new("run-memory");
    let arguments = ["run", "vector-add", "--set", "elements=68719476736", "--set", "pes=1"];
    let run = sandbox.run(&[&arguments[..], &["--report", "x.html", "--trace", "x"]].concat());
    refused(
        &run,
        3,
        &expect![[r#"
        error: sip0.cube0.pe0: HBM of sip0.cube0.pe0: wanted 137438953472 B (128.00 GiB), free 6442450944 B (6.00 GiB), largest free range 6442450944 B (6.00 GiB): the space has only 6442450944 B (6.00 GiB)
          help: use smaller parameters with --set, or a larger machine with --topology
    "#]],
    );
    assert_eq!(std::fs::read_dir(sandbox.path(".")).unwrap().count(), 0);
}

/// A tile that does not fit the TCM: the kernel's own line is named.
#[test]
fn kernels_that_do_not_fit_are_refused_with_their_line() {
    let sandbox = Sandbox::new("run-tcm");
    let arguments = ["--set", "elements=16777216", "--set", "block=16777216", "--set", "pes=1"];
    let run = sandbox.run(&[&["run", "vector-add", "--report", "x.html"], &arguments[..]].concat());
    refused(
        &run,
        2,
        &expect![[r#"
            error: vector_add on sip0.cube0.pe0, vector_add.rs:17: a tile of 32.00 MiB, but the TCM has 8.00 MiB for the tiles of a kernel
              help: change the parameters with --set
        "#]],
    );
    assert!(!sandbox.path("x.html").exists());
}

#[test]
fn files_that_cannot_be_written_are_refused_before_any_work() {
    let sandbox = Sandbox::new("run-output");
    refused(
        &sandbox.run(&small(&["--trace", "missing/x"])),
        2,
        &expect![[r#"
        error: missing/x: cannot be written: there is no folder missing
          help: create the folder
    "#]],
    );
    refused(
        &sandbox.run(&small(&["--report", "."])),
        2,
        &expect![[r#"
        error: .: cannot be written: it is a folder
          help: name a file
    "#]],
    );
    assert_eq!(std::fs::read_dir(sandbox.path(".")).unwrap().count(), 0);
}

/// `/dev/full` passes the early check but accepts no byte.
#[cfg(target_os = "linux")]
#[test]
fn files_that_there_is_no_room_for_are_an_error() {
    let sandbox = Sandbox::new("run-full");
    std::os::unix::fs::symlink("/dev/full", sandbox.path("full")).unwrap();
    refused(
        &sandbox.run(&small(&["--quiet", "--report", "full"])),
        2,
        &expect![[r#"
        error: full: cannot be written: No space left on device (os error 28)
          help: name another file with --report
    "#]],
    );
    refused(
        &sandbox.run(&small(&["--quiet", "--trace", "full"])),
        2,
        &expect![[r#"
        error: full: cannot be written: the trace could not be written: No space left on device (os error 28)
          help: name another file with --trace
    "#]],
    );
    assert!(sandbox.path("full").exists());
}

/// Sums of time wrapped: a machine of half another's clock printed the same 17,476,267 s.
#[test]
fn a_machine_too_slow_for_simulated_time_is_told_and_prints_no_figure() {
    let sandbox = Sandbox::new("run-out-of-time");
    for (name, core, elements) in [
        ("clock.yaml", "clock_ghz: 1.2e-10, dispatch_cycles: 1048576", "elements=4096"),
        ("rate.yaml", "math: {simple_geps: 1e-9}", "elements=33554432"),
    ] {
        sandbox.write(name, format!("pe: {{core: {{{core}}}}}\n"));
        let run = sandbox.run(&["run", "vector-add", "--set", elements, "--topology", name]);
        let expected = expect![[r#"
            error: simulated time has run out: the next event lies more than 2⁶¹ ps (26 days) after the start
              help: use smaller parameters with --set, or a larger machine with --topology
        "#]];
        refused(&run, 3, &expected);
    }
}

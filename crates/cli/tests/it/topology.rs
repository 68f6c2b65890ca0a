//! `cubeyard topology`: figures, the default file, pictures, examples, and errors.

use std::path::{Path, PathBuf};

use expect_test::expect;
use serde_json::Value;

use crate::Sandbox;

/// Returns the path of a file of the repository.
fn repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

#[test]
fn the_figures_of_the_default_machine() {
    let sandbox = Sandbox::new("topology-default");
    expect![[r#"
        2 SIPs (ring_1d, 2×1) of 4×4 cubes of 8 PEs: 256 PEs in all
        32 routers a cube, 2423 nodes and 6652 links in all

        capacity          PE         cube          SIP       system
        HBM         6.00 GiB    48.00 GiB   768.00 GiB     1.50 TiB
        TCM        16.00 MiB   128.00 MiB     2.00 GiB     4.00 GiB
        SRAM               –    32.00 MiB   512.00 MiB     1.00 GiB

        bandwidth, each way                            GB/s
        HBM of a PE (8 channels)                        256
        a router to the next                            256
        the halves of a cube to each other             1024
        a side of a cube (4 connections)                512
        the halves of a SIP to each other              2048
        an IO chiplet to the cubes                     2048
        a SIP to the switch                             512
        the halves of the system to each other          512

        compute, 10^12 a second                   PE      cube       SIP    system
        GEMM fp8_e4m3, fp8_e5m2, i8, u8           16       128      2048      4096
        GEMM bf16, f16                             8        64      1024      2048
        GEMM f32                                   2        16       256       512
        MATH simple                            0.256     2.048    32.768    65.536
        MATH special                           0.064     0.512     8.192    16.384
        MATH reduce                            0.128     1.024    16.384    32.768
    "#]]
    .assert_eq(&sandbox.run(&["topology"]).result());
}

#[test]
fn the_figures_for_programs() {
    let sandbox = Sandbox::new("topology-json");
    expect![[r#"
        {
          "version": "0.1.0",
          "topology": "6d5ffae61029a9e5cb2e822f795b721e",
          "sips": 2,
          "sip_topology": "ring_1d",
          "sip_grid": [
            2,
            1
          ],
          "cubes_per_sip": 16,
          "cube_grid": [
            4,
            4
          ],
          "pes_per_cube": 8,
          "routers_per_cube": 32,
          "io_chiplets_per_sip": 1,
          "nodes": 2423,
          "links": 6652,
          "flit_bytes": 256,
          "flit_header_bytes": 0,
          "serial_nodes": "none",
          "hbm_bytes_per_pe": 6442450944,
          "hbm_channels_per_pe": 8,
          "hbm_burst_bytes": 256,
          "tcm_bytes_per_pe": 16777216,
          "sram_bytes_per_cube": 33554432,
          "hbm_bytes_per_s_per_pe": 256000000000,
          "router_link_bytes_per_s": 256000000000,
          "cube_bisection_bytes_per_s": 1024000000000,
          "cube_side_bytes_per_s": 512000000000,
          "sip_bisection_bytes_per_s": 2048000000000,
          "io_to_cubes_bytes_per_s": 2048000000000,
          "pcie_bytes_per_s_per_sip": 512000000000,
          "system_bisection_bytes_per_s": 512000000000,
          "tcm_read_bytes_per_s_per_pe": 512000000000,
          "tcm_write_bytes_per_s_per_pe": 512000000000,
          "compute_engines": "shared",
          "gemm_flop_per_s_per_pe": {
            "bf16": 8000000000000,
            "f16": 8000000000000,
            "f32": 2000000000000,
            "fp8_e4m3": 16000000000000,
            "fp8_e5m2": 16000000000000,
            "i8": 16000000000000,
            "u8": 16000000000000
          },
          "math_elements_per_s_per_pe": {
            "reduce": 128000000000,
            "simple": 256000000000,
            "special": 64000000000
          },
          "warnings": []
        }
    "#]]
    .assert_eq(&sandbox.run(&["topology", "--format", "json"]).result());
}

#[test]
fn rules_that_are_turned_on_are_shown() {
    let sandbox = Sandbox::new("topology-rules");
    let with = |keys: &[&str]| {
        let keys = keys.iter().flat_map(|key| ["--with", key]);
        sandbox.run(&["topology"].into_iter().chain(keys).collect::<Vec<_>>()).result()
    };
    let lines = |text: &str| text.lines().take(6).map(str::to_owned).collect::<Vec<_>>();
    let published = lines(&with(&[]));
    assert!(published[2].is_empty(), "{published:?}");
    let keys = ["pe.core.compute_engines=separate", "serial_nodes=ends", "flit_header_bytes=16"];
    let shown = lines(&with(&keys));
    assert_eq!(shown[..2], published[..2]);
    expect![[r#"
        GEMM and MATH are two engines
        ends of transfers process one overhead at a time
        each flit of 256 B has a header of 16 B
    "#]]
    .assert_eq(&(shown[2..5].join("\n") + "\n"));
    assert!(with(&["serial_nodes=all"]).contains("\nall nodes process one overhead at a time\n\n"));
    let atomics = with(&["pe.core.atomics=acknowledged"]);
    assert!(atomics.contains("\natomic operations have no read back\n\n"));
    let page = ["topology", "--with", keys[0], "--report", "t.html", "-q"];
    sandbox.run(&page).result();
    assert!(sandbox.read("t.html").contains("<li>GEMM and MATH are two engines</li>"));
    let json = sandbox.run(&[&["topology", "--format", "json"][..], &["--with", keys[0]]].concat());
    assert!(json.result().contains("\"compute_engines\": \"separate\""));
}

#[test]
fn the_default_file_describes_the_default_machine() {
    let sandbox = Sandbox::new("topology-print");
    let file = sandbox.run(&["topology", "--print-default"]).result();
    sandbox.write("machine.yaml", &file);
    let read = sandbox.run(&["topology", "--topology", "machine.yaml"]).result();
    assert_eq!(read, sandbox.run(&["topology"]).result());
}

/// If this fails after a change to the pictures, look at them, then draw them again:
/// `cubeyard topology --draw DIR`, and put `DIR/NAME.svg` in the place of `docs/img/topology-NAME.svg`.
#[test]
fn the_pictures_of_the_documentation_are_up_to_date() {
    let sandbox = Sandbox::new("topology-draw");
    let run = sandbox.run(&["topology", "--draw", "out"]);
    assert_eq!(
        run.stderr,
        "wrote out/system.svg\nwrote out/sip.svg\nwrote out/cube.svg\nwrote out/pe.svg\n"
    );
    for view in ["system", "sip", "cube", "pe"] {
        let drawn = sandbox.read(&format!("out/{view}.svg"));
        let kept = std::fs::read_to_string(repository(&format!("docs/img/topology-{view}.svg")));
        assert!(
            drawn == kept.expect("it is there"),
            "docs/img/topology-{view}.svg is another picture"
        );
        assert_eq!(sandbox.run(&["topology", "--view", view]).result(), drawn);
    }
}

/// Every box lies inside the picture, and no two small boxes overlap.
#[test]
fn pictures_of_odd_machines_have_no_overlaps() {
    let sandbox = Sandbox::new("topology-odd");
    let machines = [
        "{}",
        "{sips: {count: 16, topology: torus_2d}, io: {chiplets: [N, E, S, W]}, cubes: {w: 3, h: 2}}",
        "{sips: {count: 16}, cubes: {w: 16, h: 1}, hbm: {channels_per_pe: 64}}",
        "{pe: {routers: [r0c0, r0c0, r0c0, r0c0, r5c5, r5c5, r5c5, r5c5]}, cubes: {w: 1, h: 1}}",
        "{cubes: {w: 1, h: 1}, io: {chiplets: [N, S]}, hbm: {channels_per_pe: 1}}",
    ];
    for machine in machines {
        sandbox.write("machine.yaml", machine);
        for view in ["system", "sip", "cube", "pe"] {
            let picture = sandbox.run(&["topology", "--topology", "machine.yaml", "--view", view]);
            check_boxes(&picture.result(), &format!("{view} of {machine}"));
        }
    }
}

fn check_boxes(picture: &str, what: &str) {
    let document = roxmltree::Document::parse(picture).expect("it is XML");
    let number = |node: roxmltree::Node<'_, '_>, name: &str| -> f64 {
        node.attribute(name).map_or(0.0, |value| value.parse().expect("it is a number"))
    };
    let boxes: Vec<[f64; 4]> = document
        .descendants()
        .filter(|node| node.has_tag_name("rect"))
        .map(|node| {
            let (x, y) = (number(node, "x"), number(node, "y"));
            [x, y, x + number(node, "width"), y + number(node, "height")]
        })
        .collect();
    let whole = boxes[0];
    let inside =
        |a: &[f64; 4], b: &[f64; 4]| a[0] >= b[0] && a[1] >= b[1] && a[2] <= b[2] && a[3] <= b[3];
    let is_small = |a: &&[f64; 4]| a[2] - a[0] < 100.0 && a[3] - a[1] < 30.0;
    assert!(boxes.len() > 3, "{what}");
    assert!(boxes.iter().all(|a| inside(a, &whole)), "{what}: a box leaves the picture");
    let small: Vec<_> = boxes.iter().filter(is_small).collect();
    for (place, a) in small.iter().enumerate() {
        for b in &small[..place] {
            let apart = a[0] >= b[2] || b[0] >= a[2] || a[1] >= b[3] || b[1] >= a[3];
            assert!(apart, "{what}: {a:?} is on {b:?}");
        }
    }
}

#[test]
fn the_examples_are_machines() {
    let sandbox = Sandbox::new("topology-examples");
    let mut titles = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(repository("topologies"))
        .expect("there are examples")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    files.sort();
    for file in files {
        let path = file.to_str().expect("names are UTF-8");
        let figures = sandbox.run(&["topology", "--topology", path]).result();
        let name = file.file_name().expect("files have names").to_string_lossy().into_owned();
        titles.push(format!("{name}: {}\n", figures.lines().next().unwrap_or_default()));
    }
    expect![[r#"
        balanced.yaml: 2 SIPs (ring_1d, 2×1) of 4×4 cubes of 8 PEs: 256 PEs in all
        one-pe.yaml: 2 SIPs (ring_1d, 2×1) of 4×4 cubes of 1 PE: 32 PEs in all
        six-sips-torus.yaml: 6 SIPs (torus_2d, 3×2) of 4×4 cubes of 8 PEs: 768 PEs in all
        two-cubes.yaml: 1 SIP (ring_1d, 1×1) of 2×1 cubes of 2 PEs: 4 PEs in all
    "#]]
    .assert_eq(&titles.concat());
}

#[test]
fn what_is_refused() {
    let sandbox = Sandbox::new("topology-refused");
    sandbox.write("key.yaml", "hbm:\n  brust_bytes: 256\n");
    sandbox.write("binary.yaml", b"sips:\n  count: \xff\xfe\n");
    sandbox.write("long.yaml", vec![b'#'; 2 << 20]);
    sandbox.write("taken", "");
    let mut messages = String::new();
    for arguments in [
        ["topology", "--topology", "key.yaml"],
        ["topology", "--topology", "binary.yaml"],
        ["topology", "--topology", "long.yaml"],
        ["topology", "--topology", "absent.yaml"],
        ["topology", "--topology", "."],
        ["topology", "--draw", "taken"],
    ] {
        let run = sandbox.run(&arguments);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        messages += &run.stderr;
    }
    expect![[r#"
        error: key.yaml:2: hbm: expected a known key, found `brust_bytes`; the nearest is `burst_bytes`
          help: cubeyard topology --print-default shows every key
        error: binary.yaml:2: expected UTF-8, found byte 0xff
          help: cubeyard topology --print-default shows every key
        error: long.yaml:1: expected at most 262144 bytes, found more
          help: cubeyard topology --print-default shows every key
        error: absent.yaml: No such file or directory (os error 2)
          help: check the path
        error: .: Is a directory (os error 21)
          help: check the path
        error: taken: cannot be written: File exists (os error 17)
          help: name another folder with --draw
    "#]].assert_eq(&messages);
}

/// A page size of 8 GiB was accepted, and the first tensor of a run panicked, because no virtual address is aligned to it.
#[test]
fn a_page_longer_than_where_addresses_begin_is_refused() {
    let sandbox = Sandbox::new("topology-page");
    sandbox.write("page.yaml", "# a machine\npe: {mmu: {page_bytes: 8 GiB}}\n");
    let run = sandbox.run(&["run", "copy", "--topology", "page.yaml"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
    expect![[r#"
        error: page.yaml:2: pe.mmu.page_bytes: expected a power of two of bytes up to 4.00 GiB, found 8 GiB
          help: cubeyard topology --print-default shows every key
    "#]]
    .assert_eq(&run.stderr);
    sandbox.write("page.yaml", "pe: {mmu: {page_bytes: 4 GiB}}\n");
    sandbox.run(&["run", "copy", "--topology", "page.yaml"]).result();
}

/// 64 GB/s per channel gave "512 GB/s" for the HBM of a PE without a warning, although its links carry 256 GB/s.
#[test]
fn bandwidth_that_nothing_can_reach_is_told() {
    let sandbox = Sandbox::new("topology-unreachable");
    sandbox.write("fast.yaml", "hbm: {channel_bandwidth_gbs: 64}\n");
    let run = sandbox.run(&["topology", "--topology", "fast.yaml"]);
    expect![[r#"
        warning: fast.yaml: hbm.channel_bandwidth_gbs: 8 channels of 64 GB/s are 512 GB/s, but hbm.link carries 256 GB/s each way: reads alone, or writes alone, reach 256 GB/s
    "#]].assert_eq(&run.stderr);
    let table = run.result();
    expect![[r#"
        warning: hbm.channel_bandwidth_gbs: 8 channels of 64 GB/s are 512 GB/s, but hbm.link carries 256 GB/s each way: reads alone, or writes alone, reach 256 GB/s"#]]
    .assert_eq(table.lines().last().unwrap());
    sandbox.write(
        "faster.yaml",
        "hbm: {channel_bandwidth_gbs: 64, link: {bandwidth_gbs: 512}}\npcie: {link: {bandwidth_gbs: 1024}}\n",
    );
    let run = sandbox.run(&["topology", "--topology", "faster.yaml", "--format", "json", "-q"]);
    assert_eq!(run.stderr, "");
    let figures: Value = serde_json::from_str(&run.result()).unwrap();
    assert_eq!(
        figures["warnings"],
        serde_json::json!([
            "hbm: 512 GB/s for each PE, but pe.link carries 256 GB/s each way: a PE reads, or writes, its own HBM at 256 GB/s",
            "pcie.link.bandwidth_gbs: 1024 GB/s, but io.endpoint_link carries 512 GB/s each way: transfers reach 512 GB/s",
        ])
    );
    let run = sandbox.run(&["probe", "--topology", "fast.yaml", "--case", "pe-dma-local"]);
    assert!(
        run.stderr.starts_with("warning: fast.yaml: hbm.channel_bandwidth_gbs"),
        "{}",
        run.stderr
    );
}

#[test]
fn with_replaces_values_of_the_file() {
    let sandbox = Sandbox::new("topology-with");
    sandbox.write("half.yaml", "cubes: {w: 2, h: 2}\nhbm: {channel_bandwidth_gbs: 16}\n");
    let with = ["--with", "hbm.channel_bandwidth_gbs=64", "--with", "cubes={w: 1}"];
    let json = |arguments: &[&str]| {
        let text = sandbox.run(&[arguments, &["--format", "json", "--quiet"]].concat()).result();
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    let changed = json(&[&["topology", "--topology", "half.yaml"], &with[..]].concat());
    assert_eq!(changed["hbm_bytes_per_s_per_pe"], 8 * 64_000_000_000_u64);
    assert_eq!(changed["cube_grid"], serde_json::json!([1, 2]));
    // A run sees the same machine as with a file.
    let run = |machine: &[&str]| {
        json(&[&["run", "copy", "--set", "bytes=65536"], machine].concat())["kernel_ns"].clone()
    };
    sandbox.write("fast.yaml", "hbm: {channel_bandwidth_gbs: 64}\n");
    assert_eq!(run(&with[..2]), run(&["--topology", "fast.yaml"]));
    assert_ne!(run(&with[..2]), run(&[]));
}

#[test]
fn with_is_checked_as_a_file_is() {
    let sandbox = Sandbox::new("topology-with-refused");
    for (given, said) in [
        (
            "hbm.chanel_bandwidth=64",
            "error: --with hbm.chanel_bandwidth=64: hbm: expected a known key, found `chanel_bandwidth`; the nearest is \
             `channel_bandwidth_gbs`\n  help: cubeyard topology --print-default shows every key\n",
        ),
        ("cubes.w=-1", "error: --with cubes.w=-1: "),
        ("cubes.w=[", "error: invalid value 'cubes.w=[' for '--with <KEY=VALUE>': "),
        ("cubes.w", "expected KEY=VALUE, such as hbm.channel_bandwidth_gbs=64"),
        ("=3", "expected KEY=VALUE, such as hbm.channel_bandwidth_gbs=64"),
    ] {
        for command in [&["probe"][..], &["run", "copy"], &["ccl"], &["model"], &["validate"]] {
            let run = sandbox.run(&[command, &["--with", given]].concat());
            assert_eq!(run.code, Some(2), "{command:?} {given}: {}", run.stderr);
            assert!(run.stderr.contains(said), "{command:?} {given}: {}", run.stderr);
            assert_eq!(run.stdout, "");
        }
    }
}

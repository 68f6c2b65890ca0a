//! Invalid topologies, each with its whole error message.

use expect_test::{Expect, expect};

use super::Topology;
use cubeyard_yaml::{InputError, InputProblem};

fn refused(text: &str) -> InputError {
    match Topology::read("my.yaml", text) {
        Ok(_) => panic!("taken: {text}"),
        Err(error) => error,
    }
}

/// Checks the message of each line; a line is one topology, with `\n` written out.
#[track_caller]
fn check(texts: &[&str], expected: &Expect) {
    let messages = texts.iter().map(|text| format!("{}\n", refused(text)));
    expected.assert_eq(&messages.collect::<String>());
}

#[test]
fn keys_that_nothing_reads() {
    check(
        &[
            "sip:\n  count: 3",
            "\n\nhbm:\n  burst_byte: 256",
            "pe: {link: {bandwith_gbs: 3}}",
            "sips: {w: 2}",
            "sips: {count: 4, h: 2}",
            "hbm: {overhead_ns: 1}\nhbm: {overhead_ns: 2}",
            "hbm:\n  overhead_ns: 1\n  overhead_ns: 2",
            "\"a\\nb\": 1",
            "? [a]\n: 1",
        ],
        &expect![[r#"
            my.yaml:1: expected a known key, found `sip`; the nearest is `sips`
            my.yaml:4: hbm: expected a known key, found `burst_byte`; the nearest is `burst_bytes`
            my.yaml:1: pe.link: expected a known key, found `bandwith_gbs`; the nearest is `bandwidth_gbs`
            my.yaml:1: sips.w: expected no such key in a ring, where it is not used
            my.yaml:1: sips.h: expected no such key in a ring, where it is not used
            my.yaml:2: hbm: expected the key once, found it in line 1, too
            my.yaml:3: hbm.overhead_ns: expected the key once, found it in line 2, too
            my.yaml:1: expected a known key, found `a\nb`; the nearest is `pe`
            my.yaml:1: expected plain YAML, found a key that is no text
        "#]],
    );
}

#[test]
fn values_of_the_wrong_type() {
    check(
        &[
            "5",
            "[1, 2]",
            "hbm: 5",
            "hbm:",
            "hbm: [1]",
            "sips: {count: two}",
            "sips: {count: 2.5}",
            "sips: {count: -1}",
            "sips: {count: \"2\"}",
            "sips: {count: 99999999999999999999}",
            "ns_per_mm: .nan",
            "ns_per_mm: inf",
            "ns_per_mm: -0.1",
            "flit_bytes: 256 kB",
            "flit_bytes: 16 EiB",
            "hbm: {bytes_per_cube: 20000000 TiB}",
            "ucie: {balance: yes}",
            "pe: {routers: r0c0}",
            "pe: {routers: [r0c0, [1]]}",
            "pe: {routers: [r0c0, 7]}",
            "routers: {removed: [r1c]}",
        ],
        &expect![[r#"
            my.yaml:1: expected a mapping, found 5
            my.yaml:1: expected a mapping, found a list of 2
            my.yaml:1: hbm: expected a mapping, found 5
            my.yaml:1: hbm: expected a mapping, found nothing
            my.yaml:1: hbm: expected a mapping, found a list of 1
            my.yaml:1: sips.count: expected a whole number from 1 to 16, found two
            my.yaml:1: sips.count: expected a whole number from 1 to 16, found 2.5
            my.yaml:1: sips.count: expected a whole number from 1 to 16, found -1
            my.yaml:1: sips.count: expected a whole number from 1 to 16, found "2"
            my.yaml:1: sips.count: expected a whole number from 1 to 16, found 99999999999999999999
            my.yaml:1: ns_per_mm: expected a number of nanoseconds from 0 to 1000, found .nan
            my.yaml:1: ns_per_mm: expected a number of nanoseconds from 0 to 1000, found inf
            my.yaml:1: ns_per_mm: expected a number of nanoseconds from 0 to 1000, found -0.1
            my.yaml:1: flit_bytes: expected a number of bytes above 0, such as 256, 64 KiB or 48 GiB, found 256 kB
            my.yaml:1: flit_bytes: expected a number of bytes above 0, such as 256, 64 KiB or 48 GiB, found 16 EiB
            my.yaml:1: hbm.bytes_per_cube: expected a number of bytes above 0, such as 256, 64 KiB or 48 GiB, found 20000000 TiB
            my.yaml:1: ucie.balance: expected true or false, found yes
            my.yaml:1: pe.routers: expected a list of routers, found r0c0
            my.yaml:1: pe.routers[1]: expected a router such as r0c1, found a list of 1
            my.yaml:1: pe.routers[1]: expected a router such as r0c1, found 7
            my.yaml:1: routers.removed[0]: expected a router such as r0c1, found r1c
        "#]],
    );
}

#[test]
fn names_that_are_none() {
    check(
        &["sips: {topology: ring}", "sips: {topology: torus2d}", "io: {chiplets: [west]}"],
        &expect![[r#"
            my.yaml:1: sips.topology: expected one of ring_1d, torus_2d, mesh_2d_no_wrap, found ring; the nearest is `ring_1d`
            my.yaml:1: sips.topology: expected one of ring_1d, torus_2d, mesh_2d_no_wrap, found torus2d; the nearest is `torus_2d`
            my.yaml:1: io.chiplets[0]: expected one of N, E, S, W, found west; the nearest is `E`
        "#]],
    );
}

#[test]
fn numbers_that_no_machine_has() {
    check(
        &[
            "routers: {link: {bandwidth_gbs: 0}}",
            "routers:\n  link:\n    bandwidth_gbs: -256",
            "routers: {link: {bandwidth_gbs: 1e300}}",
            "routers: {link: {length_mm: 1e7}}",
            "routers: {overhead_ns: -2}",
            "hbm: {burst_bytes: 192}",
            "hbm: {channels_per_pe: 6}",
            "hbm: {channels_per_pe: 0}",
            "flit_bytes: 384",
            "flit_bytes: 128",
            "flit_bytes: 2 MiB",
            "hbm: {bytes_per_cube: 129 GiB}",
            "pe: {tcm_bytes: 513 MiB}",
            "sram: {bytes_per_cube: 33 GiB}",
            "hbm: {bytes_per_cube: 1000}",
            "pe: {routers: [r0c0, r0c1, r1c4, r1c5, r4c0, r4c1, r5c4]}",
        ],
        &expect![[r#"
            my.yaml:1: routers.link.bandwidth_gbs: expected a number of GB/s from 0.001 to 1000000, found 0
            my.yaml:3: routers.link.bandwidth_gbs: expected a number of GB/s from 0.001 to 1000000, found -256
            my.yaml:1: routers.link.bandwidth_gbs: expected a number of GB/s from 0.001 to 1000000, found 1e300
            my.yaml:1: routers.link.length_mm: expected a number of millimetres from 0 to 1000000, found 1e7
            my.yaml:1: routers.overhead_ns: expected a number of nanoseconds from 0 to 1000000000, found -2
            my.yaml:1: hbm.burst_bytes: expected a power of two of bytes, found 192
            my.yaml:1: hbm.channels_per_pe: expected a power of two, found 6
            my.yaml:1: hbm.channels_per_pe: expected a whole number from 1 to 1024, found 0
            my.yaml:1: flit_bytes: expected a multiple of hbm.burst_bytes, 256, up to 1.00 MiB, found 384
            my.yaml:1: flit_bytes: expected a multiple of hbm.burst_bytes, 256, up to 1.00 MiB, found 128
            my.yaml:1: flit_bytes: expected a multiple of hbm.burst_bytes, 256, up to 1.00 MiB, found 2 MiB
            my.yaml:1: hbm.bytes_per_cube: expected at most 128.00 GiB, as addresses have room for, found 129 GiB
            my.yaml:1: pe.tcm_bytes: expected at most 512.00 MiB, as addresses have room for, found 513 MiB
            my.yaml:1: sram.bytes_per_cube: expected at most 32.00 GiB, as addresses have room for, found 33 GiB
            my.yaml:1: hbm.bytes_per_cube: expected an equal slice of whole bursts (256 B) for each of 8 PEs, found 1000
            my.yaml over the default topology:76: hbm.bytes_per_cube: expected an equal slice of whole bursts (256 B) for each of 7 PEs, found 48 GiB
        "#]],
    );
}

#[test]
fn more_than_addresses_can_name() {
    let many = format!("pe: {{routers: [{}]}}", ["r0c0"; 65].join(", "));
    check(
        &[
            "sips: {count: 17}",
            "sips: {count: 0}",
            "cubes: {w: 5}",
            "cubes: {w: 17, h: 1}",
            "cubes: {h: 0}",
            &many,
            "pe: {routers: []}",
            "routers: {rows: 17}",
        ],
        &expect![[r#"
            my.yaml:1: sips.count: expected a whole number from 1 to 16, found 17
            my.yaml:1: sips.count: expected a whole number from 1 to 16, found 0
            my.yaml over the default topology:29: cubes.h: expected w * h of at most 16, as addresses can name, found 5 * 4 = 20
            my.yaml:1: cubes.w: expected a whole number from 1 to 16, found 17
            my.yaml:1: cubes.h: expected a whole number from 1 to 16, found 0
            my.yaml:1: pe.routers: expected 1 to 64 PEs, as addresses can name, found a list of 65
            my.yaml:1: pe.routers: expected 1 to 64 PEs, as addresses can name, found a list of 0
            my.yaml:1: routers.rows: expected a whole number from 1 to 16, found 17
        "#]],
    );
}

#[test]
fn grids_that_do_not_match_are_never_guessed() {
    // Six SIPs were once taken for 2 × 2.
    check(
        &[
            "sips: {count: 6, topology: torus_2d}",
            "sips: {count: 6, topology: torus_2d, w: 2, h: 2}",
            "sips: {count: 6, topology: mesh_2d_no_wrap, w: 3}",
            "sips: {count: 6, topology: mesh_2d_no_wrap, h: 3}",
            "sips: {topology: torus_2d}",
        ],
        &expect![[r#"
            my.yaml:1: sips.count: expected a square, or w and h beside it, found 6
            my.yaml:1: sips.w: expected w * h = 6, the number of SIPs, found 2 * 2 = 4
            my.yaml:1: sips.w: expected h beside w, found 3
            my.yaml:1: sips.h: expected w beside h, found 3
            my.yaml over the default topology:22: sips.count: expected a square, or w and h beside it, found 2
        "#]],
    );
}

#[test]
fn routers_that_are_not_there() {
    check(
        &[
            "pe:\n  routers:\n    - r0c0\n    - r2c2",
            "pe: {routers: [r6c0]}",
            "m_cpu: {router: r3c3}",
            "sram: {router: r9c9}",
            "routers: {rows: 5}",
            "routers: {removed: [r0c1, r1c0]}",
            "routers: {rows: 1, columns: 1, removed: [r0c0]}",
            "routers: {removed: [r6c0]}",
            "routers: {removed: [r2c2, r2c2]}",
            "ucie: {connection_rows: [0, 6]}",
            "ucie: {connection_rows: [0, 0]}",
            "ucie: {connection_rows: []}",
            "ucie: {connection_rows: [0, 1]}",
            "routers: {removed: [r2c0]}\nucie: {connection_rows: [0, 1, 2, 5]}",
            "io: {chiplets: []}",
            "io: {chiplets: [W, W]}",
        ],
        &expect![[r#"
            my.yaml:4: pe.routers[1]: expected a router of the 6 × 6 grid that is not removed, found r2c2
            my.yaml:1: pe.routers[0]: expected a router of the 6 × 6 grid that is not removed, found r6c0
            my.yaml:1: m_cpu.router: expected a router of the 6 × 6 grid that is not removed, found r3c3
            my.yaml:1: sram.router: expected a router of the 6 × 6 grid that is not removed, found r9c9
            my.yaml over the default topology:41: pe.routers[6]: expected a router of the 5 × 6 grid that is not removed, found r5c4
            my.yaml:1: routers.removed: expected routers without which the others still reach each other, found r0c2 cut off
            my.yaml:1: routers.removed: expected routers without which the others still reach each other, found none left
            my.yaml:1: routers.removed[0]: expected a router of the grid, r0c0 to r5c5, found r6c0
            my.yaml:1: routers.removed[1]: expected each router once, found r2c2
            my.yaml:1: ucie.connection_rows[1]: expected a whole number from 0 to 5, found 6
            my.yaml:1: ucie.connection_rows[1]: expected each row or column once, found 0
            my.yaml:1: ucie.connection_rows: expected at least one connection, found a list of 0
            my.yaml over the default topology:114: ucie.connection_columns: expected as many connections as connection_rows, 2, found a list of 4
            my.yaml:2: ucie.connection_rows[2]: expected routers at both ends, but r2c0 is removed, found 2
            my.yaml:1: io.chiplets: expected at least one IO chiplet: the host has no other way in, found a list of 0
            my.yaml:1: io.chiplets[1]: expected each side once: one IO chiplet a side, found W
        "#]],
    );
}

#[test]
fn yaml_that_is_none_or_too_much() {
    check(
        &[
            "sips: {count: 2",
            "sips:\n\tcount: 2",
            "a: b: c",
            "sips: &x {count: 2}",
            "sips: *x",
            "sips: !!map {count: 2}",
            "sips: {count: 2}\n---\nsips: {count: 3}",
            "<<: {sips: {count: 2}}",
            &format!("sips: {}", "[".repeat(100)),
            &format!("sips:\n{}", (1..40).map(|n| " ".repeat(n) + "a:\n").collect::<String>()),
            &" ".repeat(300_000),
        ],
        &expect![[r#"
            my.yaml:2: expected YAML: while parsing a flow mapping, did not find expected ',' or '}'
            my.yaml:2: expected YAML: tabs disallowed within this context (block indentation)
            my.yaml:1: expected YAML: mapping values are not allowed in this context
            my.yaml:1: expected plain YAML, found an anchor
            my.yaml:1: expected YAML: while parsing node, found unknown anchor
            my.yaml:1: expected plain YAML, found a tag
            my.yaml:2: expected plain YAML, found a second document
            my.yaml:1: expected a known key, found `<<`; the nearest is `pe`
            my.yaml:1: sips[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]: expected at most 16 levels of mappings and lists, found one more
            my.yaml:17: sips.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a: expected at most 16 levels of mappings and lists, found one more
            my.yaml:1: expected at most 262144 bytes, found more
        "#]],
    );
}

#[test]
fn bytes_that_are_no_text() {
    let error = Topology::read_bytes("my.yaml", b"# ok\nsips: \xff").unwrap_err();
    expect!["my.yaml:2: expected UTF-8, found byte 0xff"].assert_eq(&error.to_string());
    assert_eq!((error.line, error.column), (2, 7));
    assert_eq!(error.problem, InputProblem::NotUtf8 { byte: 0xff });
}

#[test]
fn what_is_no_error() {
    for text in ["", "# nothing", "---\n", "---\n...\n", "\u{feff}sips: {count: 3}", "{}"] {
        assert!(Topology::read("my.yaml", text).is_ok(), "{text:?}");
    }
    assert!(Topology::read_bytes("my.yaml", "# é".as_bytes()).is_ok());
}

#[test]
fn a_problem_with_a_default_names_the_default() {
    let error = refused("routers: {columns: 5}");
    assert_eq!(&*error.file, "my.yaml over the default topology");
    assert!(error.line > 1);
}

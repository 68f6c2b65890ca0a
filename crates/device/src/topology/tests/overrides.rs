//! Values given apart from the file, and the values of a machine as plain data.

use expect_test::{Expect, expect};

use super::Topology;
use cubeyard_yaml::PlainValue;

fn pairs(given: &[(&str, &str)]) -> Vec<(String, PlainValue)> {
    let value = |text: &str| PlainValue::read("value", &format!("value: {text}")).unwrap();
    let pair =
        |(key, text): &(&str, &str)| ((*key).to_owned(), value(text).get("value").unwrap().clone());
    given.iter().map(pair).collect()
}

fn with(base: &Topology, given: &[(&str, &str)]) -> Topology {
    base.with_overrides(&pairs(given)).unwrap()
}

#[track_caller]
fn check(base: &Topology, given: &[&[(&str, &str)]], expected: &Expect) {
    let message =
        |given: &&[(&str, &str)]| format!("{}\n", base.with_overrides(&pairs(given)).unwrap_err());
    expected.assert_eq(&given.iter().map(message).collect::<String>());
}

#[test]
fn overrides_give_the_machine_of_a_file_that_says_the_same() {
    let text = "hbm: {channel_bandwidth_gbs: 64, link: {bandwidth_gbs: 512}, rows: {banks: 16, row_bytes: 1 KiB, \
                activate_ns: 14, precharge_ns: 14}}\nsips: {count: 4, topology: torus_2d}\nflit_bytes: 512\n";
    let file = Topology::read("file.yaml", text).unwrap();
    let rows = "{banks: 16, row_bytes: 1 KiB, activate_ns: 14.0, precharge_ns: 14}";
    let given = [
        ("flit_bytes", "512"),
        ("hbm.link.bandwidth_gbs", "512"),
        ("hbm", "{channel_bandwidth_gbs: 64}"),
        ("sips.topology", "torus_2d"),
        ("sips.count", "4"),
        ("hbm.rows", rows),
    ];
    let ours = with(&Topology::embedded(), &given);
    assert_eq!(ours.spec(), file.spec());
    assert_eq!(ours.content_hash(), file.content_hash());
    assert_eq!(ours.nodes().len(), file.nodes().len());
    // And back.
    let back = [("sips.topology", "ring_1d"), ("sips.count", "2"), ("hbm.rows", "none")];
    let back = with(&ours, &back);
    let rest = with(
        &back,
        &[
            ("hbm", "{channel_bandwidth_gbs: 32, link: {bandwidth_gbs: 256}}"),
            ("flit_bytes", "256"),
        ],
    );
    assert_eq!(rest.spec(), Topology::embedded().spec());
    assert_eq!(rest.content_hash(), Topology::embedded().content_hash());
}

#[test]
fn the_values_of_a_machine_are_a_file_of_it() {
    let grid = "sips: {count: 6, topology: mesh_2d_no_wrap, w: 3, h: 2}\nbuffers: {flits: 8}\n";
    for text in ["", grid, "sips: {count: 9, topology: torus_2d}\npe: {routers: [r0c0]}\n"] {
        let machine = Topology::read("first", text).unwrap();
        let again = Topology::read("again", &machine.values().to_string()).unwrap();
        assert_eq!(again.spec(), machine.spec());
        assert_eq!(again.content_hash(), machine.content_hash());
    }
}

#[test]
fn every_value_counts_in_the_hash() {
    let base = Topology::embedded();
    let given = [
        ("flit_bytes", "512"),
        ("ns_per_mm", "0.02"),
        ("pe.core.clock_ghz", "2"),
        ("pe.core.gemm.tflops.f16", "9"),
        ("pe.core.compute_engines", "separate"),
        ("pe.core.atomics", "acknowledged"),
        ("pe.mmu.strict", "true"),
        ("ucie.balance", "true"),
        ("serial_nodes", "ends"),
        ("flit_header_bytes", "16"),
        ("io.chiplets", "[E]"),
        ("buffers", "{flits: 8}"),
    ];
    let mut hashes: Vec<_> =
        given.iter().map(|given| with(&base, &[*given]).content_hash()).collect();
    hashes.push(base.content_hash());
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), given.len() + 1);
    assert_eq!(with(&base, &[]).content_hash(), base.content_hash());
}

/// A hash is written to records, which later versions read. A new key of the file changes it; nothing else may.
#[test]
fn the_hash_of_the_default_machine_is_known() {
    expect!["6d5ffae61029a9e5cb2e822f795b721e"]
        .assert_eq(&Topology::embedded().content_hash().to_string());
}

#[test]
fn what_is_refused_names_the_key_and_the_value() {
    check(
        &Topology::embedded(),
        &[
            &[("hbm.chanel_bandwidth_gbs", "64")],
            &[("hbn.overhead_ns", "1")],
            &[("hbm.channel_bandwidth_gbs", "fast")],
            &[("flit_bytes", "256"), ("hbm.channel_bandwidth_gbs", "-1")],
            &[("hbm", "{overhead_ns: 1, burst: 2}")],
            &[("hbm", "5")],
            &[("flit_bytes.x", "5")],
            &[("hbm.burst_bytes", "512"), ("hbm.overhead_ns", "1")],
            &[("sips.count", "17")],
            &[("sips.w", "2")],
            &[("sips", "{count: 6, topology: torus_2d}")],
            &[("", "1")],
            &[("hbm.", "1")],
            &[("a\u{1b}b", "1")],
            &[("pe.routers", "[r0c0, r9c9]")],
        ],
        &expect![[r#"
            hbm.chanel_bandwidth_gbs=64: hbm: expected a known key, found `chanel_bandwidth_gbs`; the nearest is `channel_bandwidth_gbs`
            hbn.overhead_ns=1: expected a known key, found `hbn.overhead_ns`; the nearest is `hbm.overhead_ns`
            hbm.channel_bandwidth_gbs=fast: expected a number of GB/s from 0.001 to 1000000, found fast
            hbm.channel_bandwidth_gbs=-1: expected a number of GB/s from 0.001 to 1000000, found -1
            hbm={overhead_ns: 1, burst: 2}: expected a known key, found `burst`; the nearest is `burst_bytes`
            hbm=5: expected a mapping, or a key such as hbm.bytes_per_cube, found 5
            flit_bytes.x=5: flit_bytes: expected a number of bytes above 0, such as 256, 64 KiB or 48 GiB, found a mapping
            hbm.burst_bytes=512, hbm.overhead_ns=1: flit_bytes: expected a multiple of hbm.burst_bytes, 512, up to 1.00 MiB, found 256
            sips.count=17: expected a whole number from 1 to 16, found 17
            sips.w=2: expected no such key in a ring, where it is not used
            sips={count: 6, topology: torus_2d}: sips.count: expected a square, or w and h beside it, found 6
            =1: expected a known key, found ``; the nearest is `pe.tcm`
            hbm.=1: hbm: expected a known key, found ``; the nearest is `rows`
            a�b=1: expected a known key, found `a\u{1b}b`; the nearest is `buffers`
            pe.routers=[r0c0, r9c9]: pe.routers[1]: expected a router of the 6 × 6 grid that is not removed, found r9c9
        "#]],
    );
}

//! Groups of keys that are scaled together.

use std::collections::BTreeSet;

use expect_test::expect;

use super::Topology;
use crate::topology::{GROUPS, KeyGroup};
use cubeyard_yaml::PlainValue;

/// Machine that has every optional key of a group.
fn full() -> Topology {
    let text = "buffers: {flits: 64}\nhost: {launch_ns: 100}\nhbm: {overhead_ns: 3, turn_around_ns: 2, rows: {banks: 16, \
                row_bytes: 1 KiB, activate_ns: 14, precharge_ns: 14, refresh: {interval_ns: 3900, takes_ns: 260}}}\n\
                pe: {dma_overhead_ns: 1, mmu: {tlb_overhead_ns: 1}}\n\
                ucie: {connection_overhead_ns: 1}\nio: {connection_overhead_ns: 1}\n";
    Topology::read("full.yaml", text).unwrap()
}

fn with(base: &Topology, given: &[(&str, &str)]) -> Result<Topology, String> {
    let pair = |(key, text): &(&str, &str)| ((*key).to_owned(), PlainValue::of_text(text));
    let given: Vec<_> = given.iter().map(pair).collect();
    base.with_overrides(&given).map_err(|error| error.to_string())
}

/// Returns the dotted keys of all numbers in a file, with their values.
fn numbers(prefix: &str, value: &PlainValue, all: &mut Vec<(String, f64)>) {
    let joined = |key: &str| if prefix.is_empty() { key.into() } else { format!("{prefix}.{key}") };
    match value {
        PlainValue::Map(entries) => {
            entries.iter().for_each(|(key, value)| numbers(&joined(key), value, all));
        }
        PlainValue::Whole(number) => all.push((prefix.to_owned(), *number as f64)),
        PlainValue::Number(number) => all.push((prefix.to_owned(), *number)),
        _ => {}
    }
}

fn all_numbers(topology: &Topology) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    numbers("", topology.values(), &mut all);
    all
}

/// Returns whether a key is one of the given keys, or within a mapping of them.
fn is_of(key: &str, keys: &[&str]) -> bool {
    let own =
        |of: &&str| key.strip_prefix(of).is_some_and(|it| it.is_empty() || it.starts_with('.'));
    keys.iter().any(own)
}

#[test]
fn a_group_scales_all_of_its_keys_and_no_other() {
    let base = full();
    for group in &GROUPS {
        let twice = with(&base, &[(group.name, "2x")]).unwrap();
        let mut changed = BTreeSet::new();
        for ((key, before), (same, after)) in all_numbers(&base).iter().zip(all_numbers(&twice)) {
            assert_eq!(*key, same);
            let (is_rate, is_time) = (is_of(key, group.rates), is_of(key, group.times));
            let factor = if is_rate {
                2.0
            } else if is_time {
                0.5
            } else {
                1.0
            };
            assert!(
                (after - before * factor).abs() < 1e-9,
                "{} {key}: {before} {after}",
                group.name
            );
            changed.extend((is_rate || is_time).then_some(key.clone()));
        }
        let is_changed = |key: &str| changed.iter().any(|it| is_of(it, &[key]));
        assert!(group.keys().all(is_changed), "{}: {changed:?}", group.name);
    }
}

/// A new bandwidth, rate or delay of the file must be part of a lever, or be named here with the reason.
#[test]
fn every_speed_of_the_file_is_in_a_group() {
    // A longer interval between refreshes is faster, and belongs to the memory's kind, not to its speed.
    const OTHERS: [&str; 1] = ["hbm.rows.refresh.interval_ns"];
    let is_speed = |key: &str| {
        ["_gbs", "_geps", "_ns", "_ghz", "ns_per_mm"].iter().any(|end| key.ends_with(end))
            || key.contains(".tflops.")
    };
    let speeds: Vec<_> = all_numbers(&full()).into_iter().map(|(key, _)| key).collect();
    let speeds: Vec<_> = speeds.iter().filter(|key| is_speed(key)).collect();
    assert!(speeds.len() > 40, "{speeds:?}");
    let is_named = |key: &str| {
        let of = |group: &KeyGroup| is_of(key, group.rates) || is_of(key, group.times);
        GROUPS.iter().any(of) || OTHERS.contains(&key)
    };
    let left: Vec<_> = speeds.into_iter().filter(|key| !is_named(key)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn names_of_groups_are_no_keys_and_differ() {
    let base = full();
    for (place, group) in GROUPS.iter().enumerate() {
        let key = group.name.split('.').try_fold(base.values(), |value, name| value.get(name));
        assert!(key.is_none(), "{}", group.name);
        assert!(group.name.contains('.'), "the command takes keys without a dot as its own");
        assert!(GROUPS[..place].iter().all(|other| other.name != group.name), "{}", group.name);
    }
}

#[test]
fn a_factor_and_its_inverse_give_the_same_machine() {
    let base = full();
    for group in &GROUPS {
        let back = with(&base, &[(group.name, "4x"), (group.name, "0.25x")]).unwrap();
        assert_eq!(back.content_hash(), base.content_hash(), "{}", group.name);
        let same = with(&base, &[(group.name, "1x")]).unwrap();
        assert_eq!(same.content_hash(), base.content_hash(), "{}", group.name);
    }
}

#[test]
fn groups_together_scale_a_key_of_both_once_and_one_after_the_other_twice() {
    let base = Topology::embedded();
    let router = |given: &[(&str, &str)]| with(&base, given).unwrap().spec().routers.overhead.ps();
    assert_eq!(router(&[]), 2000);
    assert_eq!(router(&[("mesh.latency+message.latency", "2x")]), 1000);
    assert_eq!(router(&[("mesh.latency", "2x"), ("message.latency", "2x")]), 500);
}

#[test]
fn a_group_scales_the_values_of_earlier_overrides_and_later_ones_replace_it() {
    let base = Topology::embedded();
    let channel = |given: &[(&str, &str)]| {
        with(&base, given).unwrap().spec().hbm.channel_bandwidth.gb_per_second().to_string()
    };
    let (key, group) = (("hbm.channel_bandwidth_gbs", "10"), ("hbm.bandwidth", "3x"));
    assert_eq!(channel(&[key, group]), "30");
    assert_eq!(channel(&[group, key]), "10");
    assert_eq!(channel(&[group, group]), "288");
    // Values that are valid only together, with a group between them.
    let both = [("hbm.burst_bytes", "512"), group, ("flit_bytes", "512")];
    assert_eq!(channel(&both), "96");
}

#[test]
fn factors_and_names_that_are_wrong_are_refused() {
    let base = Topology::embedded();
    let errors = [
        ("hbm.bandwidth", "64"),
        ("hbm.bandwidth", "fast"),
        ("hbm.bandwidth", "0x"),
        ("hbm.bandwidth", "-2x"),
        ("hbm.bandwidth", "infx"),
        ("hbm.bandwidth", "1e9x"),
        ("pe.dma", "1.5x"),
        ("hbm.bandwidth+pe.gem", "2x"),
        ("hbm.bandwith", "2x"),
    ];
    let message = |given| with(&base, &[given]).unwrap_err() + "\n";
    expect![[r#"
        hbm.bandwidth=64: expected a factor for all keys of the group, such as 2x, found 64
        hbm.bandwidth=fast: expected a factor for all keys of the group, such as 2x, found fast
        hbm.bandwidth=0x: expected a factor for all keys of the group, such as 2x, found 0x
        hbm.bandwidth=-2x: expected a factor for all keys of the group, such as 2x, found -2x
        hbm.bandwidth=infx: expected a factor for all keys of the group, such as 2x, found infx
        hbm.bandwidth=1e9x: pe.link.bandwidth_gbs: expected a number of GB/s from 0.001 to 1000000, found 256000000000
        pe.dma=1.5x: pe.core.dma_read_engines: expected a whole number from 1 to 64, found 1.5
        hbm.bandwidth+pe.gem=2x: expected a known key, found `pe.gem`; the nearest is `pe.gemm`
        hbm.bandwith=2x: hbm: expected a known key, found `bandwith`; the nearest is `bandwidth`
    "#]]
    .assert_eq(&errors.map(message).concat());
}

#[test]
fn the_documentation_has_every_group_with_its_keys() {
    let page = include_str!("../../../../../docs/topology.md");
    for group in &GROUPS {
        let rates = group.rates.iter().map(|key| format!("`{key}`"));
        let times = group.times.iter().map(|key| format!("`{key}` ÷"));
        let keys: Vec<_> = rates.chain(times).collect();
        let row = format!("| `{}` | {} | {} |", group.name, group.resource, keys.join(", "));
        assert!(page.lines().any(|line| line == row), "docs/topology.md has no row: {row}");
    }
}

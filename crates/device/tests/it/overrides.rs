//! Pairs of overrides of the topology file: each gives a machine, or an error that names the override.

use cubeyard_device::topology::Topology;
use cubeyard_yaml::PlainValue;

use crate::long_tests;

/// Keys that the default file shows in comments only.
const OPTIONAL: [&str; 14] = [
    "buffers.flits",
    "buffers.arbiter",
    "sips.w",
    "sips.h",
    "hbm.rows.banks",
    "hbm.rows.row_bytes",
    "hbm.rows.activate_ns",
    "hbm.rows.precharge_ns",
    "hbm.rows.refresh",
    "hbm.rows.refresh.interval_ns",
    "hbm.rows.refresh.takes_ns",
    "nothing",
    "hbm.nothing",
    "pe.core.gemm.tflops.nothing",
];

/// Values for any key: numbers, names, mappings and lists that a key may take, or not.
const VALUES: [&str; 7] = ["4", "none", "ring_1d", "{}", "[r0c0]", "{count: 4}", "''"];

/// Returns every key of the default file, mappings included, and the optional keys.
fn keys() -> Vec<String> {
    fn collect(value: &PlainValue, path: &str, keys: &mut Vec<String>) {
        let PlainValue::Map(entries) = value else { return };
        for (key, value) in entries {
            let key = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            keys.push(key.clone());
            collect(value, &key, keys);
        }
    }
    let mut keys = OPTIONAL.map(str::to_owned).to_vec();
    collect(Topology::embedded().values(), "", &mut keys);
    keys
}

fn given(key: &str, value: &str) -> (String, PlainValue) {
    (key.to_owned(), PlainValue::read("value", value).unwrap())
}

/// Returns whether one key equals the other or is inside it.
fn is_within(one: &str, other: &str) -> bool {
    one.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A number replaced a mapping, and then a key of the mapping was set. The other keys were missing, and 162 of 464 such
/// pairs panicked.
#[test]
fn every_pair_of_overrides_is_a_machine_or_an_error_that_names_it() {
    let base = Topology::read("small", "sips: {count: 1}\ncubes: {w: 1, h: 1}\n").unwrap();
    let keys = keys();
    let pairs = || keys.iter().flat_map(|a| keys.iter().map(move |b| (a.as_str(), b.as_str())));
    let (related, others): (Vec<_>, Vec<_>) =
        pairs().partition(|(a, b)| is_within(a, b) || is_within(b, a));
    assert!(keys.len() > 130 && related.len() > 464, "{} keys", keys.len());
    let related = related.into_iter().flat_map(|pair| {
        VALUES.iter().flat_map(move |one| VALUES.iter().map(move |other| (pair, [*one, *other])))
    });
    let value = |place: usize| VALUES[place % VALUES.len()];
    let others = others.into_iter().enumerate();
    let others = others.map(|(at, pair)| (pair, [value(at), value(at / VALUES.len())]));
    let [mut machines, mut errors] = [0, 0];
    for ((a, b), [one, other]) in
        long_tests::members(related, 11).chain(long_tests::members(others, 97))
    {
        match base.with_overrides(&[given(a, one), given(b, other)]) {
            Ok(_) => machines += 1,
            Err(error) => {
                let text = error.to_string();
                let is_named = [a, b].iter().any(|key| text.contains(&format!("{key}=")));
                assert!(is_named, "{a}={one} {b}={other}: {text}");
                errors += 1;
            }
        }
    }
    assert!(machines > 20 && errors > 500, "{machines} machines, {errors} errors");
}

#[test]
fn a_number_in_place_of_a_mapping_is_the_one_at_fault() {
    let pairs = [("sips.topology", "ring_1d"), ("sips.count", "4")];
    for (key, value) in pairs {
        let error = Topology::embedded().with_overrides(&[given("sips", "4"), given(key, value)]);
        let expected = "sips=4: expected a mapping, or a key such as sips.count, found 4";
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
}

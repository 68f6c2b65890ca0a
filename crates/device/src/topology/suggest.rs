//! Suggestions for keys that a machine does not have: any key of the file, or a group of keys.

use cubeyard_yaml::{InputProblem, PlainValue, nearest};

use super::groups::GROUPS;

/// Keys for the first guesses that name a thing and not a property of it, and for the properties that no key has the name
/// of.
const MEANT: [(&[&str], &str); 6] = [
    (
        &["tcm", "tcm.size", "tcm.capacity", "tcm.bytes", "tcm_size", "scratchpad", "smem"],
        "pe.tcm_bytes",
    ),
    (
        &["hbm.size", "hbm.capacity", "hbm.bytes", "hbm_size", "hbm_capacity", "memory"],
        "hbm.bytes_per_cube",
    ),
    (&["sram", "sram.size", "sram.capacity", "sram.bytes", "sram_size"], "sram.bytes_per_cube"),
    (&["pes", "cores", "pe.count", "pes.count", "pes_per_cube"], "pe.routers"),
    (&["devices", "chips", "gpus", "sip", "sip.count"], "sips.count"),
    (&["noc", "mesh", "noc.bandwidth", "noc_bw", "mesh_bw"], "mesh.bandwidth"),
];

/// Returns the key that a guess names, by [`MEANT`]; a factor, such as `2x`, leads to a group.
fn meant(name: &str, value: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let (_, key) = MEANT.iter().find(|(guesses, _)| guesses.contains(&&*name))?;
    (!is_factor(value) || GROUPS.iter().any(|group| group.name == *key)).then_some(*key)
}

fn is_factor(value: &str) -> bool {
    value.strip_suffix(['x', '×']).is_some_and(|number| number.trim().parse::<f64>().is_ok())
}

/// Returns the problem of an override with a suggestion from all keys and groups, instead of one from the keys of one
/// mapping. `key` is the mapping in which an unknown key was found.
pub(super) fn improved(
    problem: InputProblem,
    given: &str,
    key: &str,
    values: &PlainValue,
) -> InputProblem {
    match problem {
        InputProblem::UnknownKey { found, .. } => unknown(&found, given, key, values),
        InputProblem::Value { expected, found } if expected == "a mapping" => {
            let value = given.split_once('=').map_or("", |(_, value)| value);
            let groups = GROUPS.iter().map(|group| group.name.to_owned());
            let groups = groups.filter(|_| is_factor(value));
            let all = meant(key, value).map(str::to_owned).into_iter().chain(groups);
            let first = all.chain(keys("", values)).find(|own| is_within(own, key));
            let expected =
                first.map_or(expected, |own| format!("a mapping, or a key such as {own}"));
            InputProblem::Value { expected, found }
        }
        other => other,
    }
}

fn unknown(found: &str, given: &str, key: &str, values: &PlainValue) -> InputProblem {
    let named = if key.is_empty() { found.to_owned() } else { format!("{key}.{found}") };
    // A mapping that does not exist is only the beginning of the given key.
    let whole = given.split_once('=').map(|(given, _)| given);
    let whole = whole.filter(|whole| is_within(whole, &named)).unwrap_or(&named);
    let value = given.split_once('=').map_or("", |(_, value)| value);
    if let Some(nearest) = meant(whole, value) {
        return InputProblem::UnknownKey { found: whole.to_owned(), nearest: nearest.to_owned() };
    }
    let keys = keys("", values);
    let all = keys.iter().map(String::as_str).chain(GROUPS.iter().map(|group| group.name));
    let near = nearest(whole, all).unwrap_or_default();
    let own = near.strip_prefix(key).and_then(|rest| rest.strip_prefix('.'));
    match own.filter(|own| !own.contains('.')) {
        Some(own) => InputProblem::UnknownKey { found: found.to_owned(), nearest: own.to_owned() },
        None => InputProblem::UnknownKey { found: whole.to_owned(), nearest: near.to_owned() },
    }
}

/// Returns whether a key is within a mapping.
fn is_within(key: &str, mapping: &str) -> bool {
    key.strip_prefix(mapping).is_some_and(|rest| rest.starts_with('.'))
}

/// Returns the dotted keys of all values that are no mappings.
pub(super) fn keys(prefix: &str, value: &PlainValue) -> Vec<String> {
    let PlainValue::Map(entries) = value else { return vec![prefix.to_owned()] };
    let joined = |key: &str| if prefix.is_empty() { key.into() } else { format!("{prefix}.{key}") };
    entries.iter().flat_map(|(key, value)| keys(&joined(key), value)).collect()
}

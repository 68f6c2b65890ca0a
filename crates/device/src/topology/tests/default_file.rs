//! The default file: documented, and every value with its source.

use crate::input::yaml::{Tree, Value, join, parse};
use crate::topology::DEFAULT;

/// Every key of a tree with its value as it is written on one line.
fn leaves(tree: &Tree<'_>, key: &str, found: &mut Vec<(String, String)>) {
    let text = |tree: &Tree<'_>| match &tree.value {
        Value::Scalar { text, .. } => text.clone(),
        other => panic!("{key} holds {other:?}"),
    };
    match &tree.value {
        Value::Map(entries) => {
            entries.iter().for_each(|entry| leaves(&entry.tree, &join(key, &entry.key), found));
        }
        Value::List(list) => {
            let list: Vec<_> = list.iter().map(text).collect();
            found.push((key.to_owned(), format!("[{}]", list.join(", "))));
        }
        Value::Scalar { .. } => found.push((key.to_owned(), text(tree))),
    }
}

#[test]
fn the_documentation_has_every_key_with_its_default() {
    let page = include_str!("../../../../../docs/topology.md");
    let mut found = Vec::new();
    leaves(&parse("default", DEFAULT).unwrap(), "", &mut found);
    for (key, value) in &found {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{key}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/topology.md has no row for {key}"));
        assert!(row.contains(&format!("| `{value}` |")), "{key} is {value}, but: {row}");
    }
    // Eleven have no default: `sips.w` and `sips.h`, and what `buffers` and `hbm.rows` can hold.
    let rows =
        page.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 5);
    assert_eq!(rows.count(), found.len() + 11);
}

#[test]
fn every_number_of_the_default_says_where_it_comes_from() {
    let sources = ["published", "fitted", "ours"];
    let (mut numbers, mut unsourced) = (0, Vec::new());
    for line in DEFAULT.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let Some((_, rest)) = line.split_once(": ") else { continue };
        let (value, comment) = rest.split_once('#').unwrap_or((rest, ""));
        if value.trim().is_empty() {
            continue;
        }
        numbers += 1;
        if !sources.iter().any(|source| comment.contains(source)) {
            unsourced.push(line);
        }
    }
    assert_eq!(unsourced, [""; 0]);
    assert!(numbers > 50, "{numbers}");
}

//! The default file: documented, and every value with its source.

use cubeyard_yaml::{Document, Field, LONGEST};

use crate::topology::DEFAULT;

/// Collects every key of a file with its value, written on one line.
fn leaves(field: &Field<'_>, key: &str, found: &mut Vec<(String, String)>) {
    let text = |field: &Field<'_>| field.text("a value").unwrap().to_owned();
    if let Ok(mut map) = field.map() {
        for (name, field) in map.each() {
            let key = if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
            leaves(&field, &key, found);
        }
    } else if let Ok(list) = field.list("values") {
        let list: Vec<_> = list.iter().map(text).collect();
        found.push((key.to_owned(), format!("[{}]", list.join(", "))));
    } else {
        found.push((key.to_owned(), text(field)));
    }
}

#[test]
fn the_documentation_has_every_key_with_its_default() {
    let page = include_str!("../../../../../docs/topology.md");
    let mut found = Vec::new();
    let document = Document::parse("default", DEFAULT, LONGEST).unwrap();
    leaves(&document.root(), "", &mut found);
    for (key, value) in &found {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{key}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/topology.md has no row for {key}"));
        assert!(row.contains(&format!("| `{value}` |")), "{key} is {value}, but: {row}");
    }
    // Eleven keys have no default: `sips.w`, `sips.h`, and the keys of `buffers` and `hbm.rows`.
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

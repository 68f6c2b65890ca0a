//! Records as a table. Its size is bounded, whatever the records contain.

use std::collections::BTreeMap;

use cubeyard_draw::plain_table;
use cubeyard_units::text::count;
use serde_json::Value;

/// Maximum number of records that are shown.
const MOST_RECORDS: usize = 5000;

/// Maximum number of list elements that are shown individually; a record may contain every operation of a run.
const MOST_ELEMENTS: usize = 64;

/// Maximum number of columns; records with little in common would fill a table with empty cells.
const MOST_COLUMNS: usize = 200;

/// Maximum number of cells, including empty ones.
const MOST_CELLS: usize = 200_000;

/// Maximum total length of all paths and values, in bytes.
const MOST_TEXT: usize = 8 << 20;

/// Values of a record by their paths, such as `figures.kernel_ns`.
type Flat = BTreeMap<String, String>;

/// Shows the first records; a truncated table says so.
pub(super) fn shown(values: &[Value]) -> String {
    let (flat, is_cut) = flattened(values);
    let remark = if is_cut {
        "<p>Only the first values are shown; there are more than fit on a page.</p>\n"
    } else {
        ""
    };
    let rest = values.len() - flat.len();
    match &flat[..] {
        [one] if rest == 0 => one_record(one) + remark,
        _ => several(&flat, rest) + remark,
    }
}

/// Flattens the first records whose text fits; also returns whether values of the last one are missing.
fn flattened(values: &[Value]) -> (Vec<Flat>, bool) {
    let (mut all, mut room) = (Vec::new(), MOST_TEXT);
    for value in values.iter().take(MOST_RECORDS) {
        let mut found = Flat::new();
        let fits = collect(&mut String::new(), value, &mut found, &mut room);
        all.push(found);
        if !fits {
            return (all, true);
        }
    }
    (all, false)
}

fn one_record(record: &Flat) -> String {
    let rows: Vec<_> = record.iter().map(|(key, value)| vec![key.clone(), value.clone()]).collect();
    plain_table("One record", &["key", "value"], &rows, 2)
}

/// Writes a row for each record that fits; `rest` is the number of records already omitted.
fn several(flat: &[Flat], rest: usize) -> String {
    let (keys, more) = columns(flat);
    let rows = flat.len().min(MOST_CELLS / (keys.len() + 1));
    let heading: Vec<_> = std::iter::once("record").chain(keys.iter().copied()).collect();
    let row = |(at, record): (usize, &Flat)| -> Vec<String> {
        let cells = keys.iter().map(|key| record.get(*key).cloned().unwrap_or_default());
        std::iter::once((at + 1).to_string()).chain(cells).collect()
    };
    let cells: Vec<_> = flat[..rows].iter().enumerate().map(row).collect();
    let table = plain_table(&format!("{} records", cells.len()), &heading, &cells, 1);
    let rest = rest + flat.len() - rows;
    table + &left_out(rest, "records") + &left_out(more, "columns")
}

fn left_out(number: usize, what: &str) -> String {
    match number {
        0 => String::new(),
        number => format!("<p>{} more {what} are not shown.</p>\n", count(number as u64)),
    }
}

/// Returns the first columns in order of occurrence, and the number of omitted columns.
fn columns(flat: &[Flat]) -> (Vec<&str>, usize) {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for key in flat.iter().flat_map(Flat::keys) {
        let next = places.len();
        places.entry(key).or_insert(next);
    }
    let mut keys: Vec<_> = places.into_iter().map(|(key, place)| (place, key)).collect();
    keys.sort_unstable();
    let more = keys.len().saturating_sub(MOST_COLUMNS);
    keys.truncate(MOST_COLUMNS);
    (keys.into_iter().map(|(_, key)| key).collect(), more)
}

/// Adds the plain values below a path; returns `false` if there is no room for more.
fn collect(path: &mut String, value: &Value, found: &mut Flat, room: &mut usize) -> bool {
    let text = match value {
        Value::Object(map) => {
            return map.iter().all(|(key, value)| below(path, key, value, found, room));
        }
        Value::Array(values) if values.len() > MOST_ELEMENTS => {
            format!("{} elements", count(values.len() as u64))
        }
        Value::Array(values) => {
            let mut values = values.iter().enumerate();
            return values.all(|(at, value)| below(path, &at.to_string(), value, found, room));
        }
        Value::Null => return true,
        Value::String(text) => text.clone(),
        plain => plain.to_string(),
    };
    let Some(left) = room.checked_sub(path.len() + text.len()) else { return false };
    *room = left;
    found.insert(path.clone(), text);
    true
}

/// Adds the plain values of a member of an object or a list.
fn below(path: &mut String, key: &str, value: &Value, found: &mut Flat, room: &mut usize) -> bool {
    let before = path.len();
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
    let fits = collect(path, value, found, room);
    path.truncate(before);
    fits
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn records_are_rows_and_their_values_columns() {
        let values = [r#"{"a":{"b":1,"c":"x"}}"#, r#"{"a":{"b":2},"d":[true,null]}"#];
        let values = values.map(|text| serde_json::from_str(text).unwrap());
        let page = shown(&values);
        for part in ["<caption>2 records</caption>", ">a.b</th>", ">a.c</th>", ">d.0</th>"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(page.contains("<tr><th scope=\"row\">2</th><td class=\"n\">2</td><td class=\"n\"></td><td class=\"n\">true</td></tr>"));
        assert!(!page.contains("not shown"));
    }

    #[test]
    fn a_list_that_is_cut_says_so() {
        let values = vec![Value::from(1); MOST_RECORDS + 2];
        assert!(shown(&values).contains("2 more records are not shown"));
        assert!(!shown(&values[2..]).contains("not shown"));
    }

    #[test]
    fn a_long_list_is_counted() {
        let rows = vec![Value::from(1); 1000];
        let page = shown(&[json!({ "ops": { "rows": rows, "names": ["load"] } })]);
        assert!(page.contains("1,000 elements") && page.contains("ops.names.0"), "{page}");
        assert!(!page.contains("ops.rows.0"));
    }

    /// Each of 2,500 records had a key of its own: 436 KB became a table of 122 MB, with a cell for each pair.
    #[test]
    fn records_with_nothing_in_common_make_no_larger_a_page_than_others() {
        for number in [100, 2_500, 20_000] {
            let record = |at: usize| json!({ format!("a key of its own, number {at}"): at });
            let values: Vec<Value> = (0..number).map(record).collect();
            let page = shown(&values);
            assert!(page.len() < 8 << 20, "{number}: {}", page.len());
            assert_eq!(page.contains("more columns are not shown"), number > MOST_COLUMNS);
            assert_eq!(page.contains("more records are not shown"), number > 995, "{number}");
        }
    }

    /// The path of each value holds the names of all objects around it.
    #[test]
    fn values_far_inside_make_no_larger_a_page_than_others() {
        let leaves: serde_json::Map<_, _> =
            (0..10_000).map(|at| (at.to_string(), json!(1))).collect();
        let deep = (0..50).fold(Value::from(leaves), |inner, _| json!({ "k".repeat(1000): inner }));
        let page = shown(&[deep]);
        assert!(page.len() < 20 << 20, "{}", page.len());
        assert!(page.contains("Only the first values are shown"));
    }
}

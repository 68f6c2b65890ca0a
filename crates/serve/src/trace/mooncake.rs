//! Mooncake's traces: a JSON object a line.

use serde::Deserialize;

use super::{Recorded, Source};
use crate::error::ServeError;
use crate::load::Request;

/// Line of a trace; other keys are ignored.
#[derive(Deserialize)]
struct Line {
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

pub(super) fn read(source: Source<'_>, text: &str) -> Result<Vec<Recorded>, ServeError> {
    let rows = (1..).zip(text.lines()).filter(|(_, row)| !row.trim().is_empty());
    rows.map(|(line, row)| request(source, line, row)).collect()
}

fn request(source: Source<'_>, line: usize, row: &str) -> Result<Recorded, ServeError> {
    let expected = "an object with timestamp, input_length, output_length and hash_ids";
    let read: Line = serde_json::from_str(row)
        .map_err(|error| source.line(line, &without_place(&error), expected, row))?;
    let ticks = source.seconds(line, "timestamp", &(read.timestamp / 1e3).to_string())?;
    let prompt = source.tokens(line, "input_length", &read.input_length.to_string(), 1)?;
    let output = source.tokens(line, "output_length", &read.output_length.to_string(), 1)?;
    Ok((ticks, Request { prompt, output, contents: read.hash_ids, ..Request::default() }))
}

/// Returns the text of an error without its place, since each line is parsed alone.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

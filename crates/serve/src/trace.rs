//! Requests, read from recorded traces.
//!
//! | format | recognised by | fields |
//! |---|---|---|
//! | Azure LLM inference traces (CSV) | `TIMESTAMP,ContextTokens,GeneratedTokens` | a date and time, tokens of the prompt, tokens of the answer |
//! | BurstGPT (CSV) | a column `Request tokens` | `Timestamp` in seconds; rows without an answer are failures, and left out |
//! | Mooncake (JSON lines) | a first line that begins with `{` | `timestamp` in milliseconds, `input_length`, `output_length`, `hash_ids` |
//! | Cubeyard (CSV) | `arrival_s,prompt_tokens,output_tokens` | seconds, tokens of the prompt, tokens of the answer |
//!
//! Arrivals count from the first request, and requests are sorted by arrival.

mod csv;
mod date;
mod mooncake;

use std::path::Path;

use cubeyard_units::Time;

use crate::error::ServeError;
use crate::load::{Load, Request};

/// Number of tokens of each of the `hash_ids` of Mooncake's traces.
pub const MOONCAKE_TOKENS: u64 = 512;

/// Maximum number of tokens of a prompt or of an answer in a trace.
const MOST_TOKENS: u64 = 1 << 24;

/// Reads a trace. `hash_tokens` is the number of tokens of each of the `hash_ids` of JSON lines.
///
/// ```
/// use cubeyard_serve::trace;
///
/// let text = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,4808,10\n2023-11-16 18:17:04.03,110,27\n";
/// let load = trace::read("azure.csv", text, 512)?;
/// assert_eq!((load.requests.len(), load.requests[1].arrival.ps()), (2, 60_000_000_000));
/// # Ok::<(), cubeyard_serve::ServeError>(())
/// ```
pub fn read(name: &str, bytes: &[u8], hash_tokens: u64) -> Result<Load, ServeError> {
    let source = Source { file: name };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        source.line(line, "text", "UTF-8", "other bytes")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let first = text.lines().next().unwrap_or_default();
    let requests = if first.trim_start().starts_with('{') {
        mooncake::read(source, text)?
    } else {
        csv::read(source, text)?
    };
    if hash_tokens == 0 {
        return Err(ServeError::value("hash-tokens", hash_tokens, "at least 1"));
    }
    sorted(source, requests).map(|requests| Load { requests, hash_tokens })
}

/// Request of a trace, with its instant in ticks from any origin.
type Recorded = (u64, Request);

/// Picoseconds of a tick: 100 ns, the resolution of Azure's traces.
const TICK_PS: u64 = 100_000;

/// Sorts requests by arrival, which then counts from the first.
fn sorted(source: Source<'_>, mut recorded: Vec<Recorded>) -> Result<Vec<Request>, ServeError> {
    recorded.sort_by_key(|(ticks, _)| *ticks);
    let Some(&(first, _)) = recorded.first() else {
        return Err(ServeError::NoRequests { file: source.file.to_owned() });
    };
    let arrived = |(ticks, request): Recorded| {
        let after = (ticks - first).checked_mul(TICK_PS).map(Time::from_ps);
        let arrival = after.filter(|arrival| *arrival <= Time::HORIZON);
        Ok(Request { arrival: arrival.ok_or(ServeError::OutOfTime)?, ..request })
    };
    recorded.into_iter().map(arrived).collect()
}

/// File that is read.
#[derive(Clone, Copy, Debug)]
struct Source<'a> {
    file: &'a str,
}

impl Source<'_> {
    /// Creates the error of a field; long values are shortened.
    fn line(&self, line: usize, key: &str, expected: &str, found: &str) -> ServeError {
        let (file, key, expected) = (self.file.to_owned(), key.to_owned(), expected.to_owned());
        ServeError::Line { file, line, key, expected, found: shortened(found) }
    }

    /// Reads a number of seconds, in ticks.
    fn seconds(&self, line: usize, key: &str, text: &str) -> Result<u64, ServeError> {
        let seconds: Option<f64> = text.trim().parse().ok();
        let seconds = seconds.filter(|seconds| (0.0..=1e9).contains(seconds));
        let expected = "a number of seconds from 0 to 1000000000";
        let seconds = seconds.ok_or_else(|| self.line(line, key, expected, text))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 1e16")]
        let ticks = (seconds * (1e12 / TICK_PS as f64)).round() as u64;
        Ok(ticks)
    }

    /// Returns a number of tokens.
    fn tokens(&self, line: usize, key: &str, text: &str, least: u64) -> Result<u64, ServeError> {
        let tokens = text.trim().parse().ok();
        let tokens = tokens.filter(|tokens| (least..=MOST_TOKENS).contains(tokens));
        let expected = format!("a number of tokens from {least} to {MOST_TOKENS}");
        tokens.ok_or_else(|| self.line(line, key, &expected, text))
    }
}

/// Returns the first characters of a text.
fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().count() <= MOST {
        return format!("`{text}`");
    }
    format!("`{}…`", text.chars().take(MOST).collect::<String>())
}

/// Returns the name of a trace: the name of its file, without folder and extensions.
pub fn name_of(file: &str) -> String {
    let name = Path::new(file).file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_else(|| file.to_owned());
    name.split('.').next().unwrap_or_default().to_owned()
}

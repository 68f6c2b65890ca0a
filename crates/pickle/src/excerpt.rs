//! The beginning of what was found in a file, fit for an error message.

const LONGEST: usize = 40;

/// At most the first 40 bytes as text on one line, with a sign that more followed.
pub fn excerpt(found: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&found[..found.len().min(LONGEST)]);
    let more = if found.len() > LONGEST { "…" } else { "" };
    format!("{}{more}", shown.escape_debug())
}

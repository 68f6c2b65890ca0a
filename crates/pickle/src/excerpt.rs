//! Beginnings of file contents, for error messages.

const LONGEST: usize = 40;

/// Formats at most the first 40 bytes as text on one line, with an ellipsis if more follow.
pub fn excerpt(found: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&found[..found.len().min(LONGEST)]);
    let more = if found.len() > LONGEST { "…" } else { "" };
    format!("{}{more}", shown.escape_debug())
}

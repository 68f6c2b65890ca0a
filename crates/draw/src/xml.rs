//! Escaping and shortening of text for XML.

/// Replaces markup characters by references, and characters that XML forbids by U+FFFD.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => {
                escaped.push('\u{fffd}');
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Escapes text like [`escape`], and keeps a percentage and its sign on one line.
pub fn joined(text: &str) -> String {
    escape(text).replace(" %", "\u{a0}%")
}

/// Replaces the middle of a text of more than `longest` characters by an ellipsis.
pub fn shorten(text: &str, longest: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= longest {
        return text.to_owned();
    }
    let half = longest / 2;
    let (start, end) = (&characters[..half], &characters[characters.len() - half..]);
    start.iter().chain(&['…']).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_become_text() {
        assert_eq!(escape("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
        assert_eq!(escape("\u{1b}[31m\n\u{ffff}é"), "\u{fffd}[31m\u{fffd}\u{fffd}é");
    }

    #[test]
    fn a_long_text_keeps_both_ends() {
        assert_eq!(shorten("abcdefgh", 8), "abcdefgh");
        assert_eq!(shorten("abcdefghi", 8), "abcd…fghi");
    }
}

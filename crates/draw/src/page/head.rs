//! Text of a page: its title, one sentence, key figures, and remarks.

use crate::xml::{escape, joined};

/// Returns the title with a summary and a verdict below; an empty summary or verdict is left out. A verdict can have
/// several lines.
pub fn header(title: &str, summary: &str, verdict: &str) -> String {
    let line = |class: &str, text: &str| match text {
        "" => String::new(),
        text => {
            let lines: Vec<_> = text.lines().map(joined).collect();
            format!("<p class=\"{class}\">{}</p>\n", lines.join("<br>\n"))
        }
    };
    let (title, summary, verdict) =
        (escape(title), line("summary", summary), line("verdict", verdict));
    format!("<header>\n<h1>{title}</h1>\n{summary}{verdict}</header>\n")
}

/// Returns a list of key figures, each created by [`tile`].
pub fn tiles(tiles: &str) -> String {
    format!("<dl class=\"tiles\">\n{tiles}</dl>\n")
}

/// Returns a key figure with its name above and a remark below. The unit, after the last space, is drawn smaller.
pub fn tile(name: &str, figure: &str, remark: &str) -> String {
    let (number, unit) = figure.rsplit_once(' ').unwrap_or((figure, ""));
    format!(
        "<div><dt>{}</dt><dd>{} <span>{}</span></dd><dd class=\"remark\">{}</dd></div>\n",
        escape(name),
        escape(number),
        escape(unit),
        joined(remark)
    )
}

/// Returns a line of code with a button that copies it.
pub fn copyable(line: &str) -> String {
    format!(
        "<p class=\"copyable\"><code>{}</code> <button type=\"button\" hidden=\"hidden\">Copy</button>\n\
         <output></output></p>\n",
        escape(line)
    )
}

/// Returns a paragraph in small print.
pub fn remark(text: &str) -> String {
    format!("<p class=\"remark\">{}</p>\n", joined(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_to_copy_is_escaped() {
        assert!(copyable("A=<b>").contains("<code>A=&lt;b&gt;</code>"));
    }

    #[test]
    fn lines_of_a_verdict_stay_apart() {
        let head = header("title", "", "one <b>\ntwo 3 %");
        assert!(head.contains("one &lt;b&gt;<br>\ntwo 3\u{a0}%</p>"), "{head}");
    }
}

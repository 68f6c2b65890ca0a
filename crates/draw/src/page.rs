//! The HTML shell of all pages.

use crate::xml::escape;

/// Style that all pages share: light, dark, narrow and in print.
const STYLE: &str = include_str!("page.css");

/// Returns a self-contained HTML page, which is also XML.
///
/// `style` is CSS beside the shared one. `main` is the content, as markup. `script` must contain neither `<` nor `&`;
/// an empty one is left out.
pub fn page(title: &str, style: &str, main: &str, script: &str) -> String {
    let title = escape(title);
    let script = match script {
        "" => String::new(),
        script => format!("<script>\n{script}</script>\n"),
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{title} – Cubeyard</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n<main>\n\
         {main}</main>\n{script}</body>\n</html>\n"
    )
}

/// Returns a section of a page; empty if its body is.
pub fn section(title: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    format!("<section>\n<h2>{}</h2>\n{body}</section>\n", escape(title))
}

/// Returns a table, which scrolls where the page is narrow. Its head and rows are ready-made cells.
pub fn table(class: &str, head: &str, rows: &str) -> String {
    format!(
        "<div class=\"wide\"><table class=\"{class}\">\n<thead><tr>{head}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// Returns a table cell of text.
pub fn cell(text: &str) -> String {
    format!("<td>{}</td>", escape(text))
}

/// Returns a right-aligned table cell.
pub fn number(text: &str) -> String {
    format!("<td class=\"n\">{}</td>", escape(text))
}

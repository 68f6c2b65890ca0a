//! The HTML shell of all pages.

mod head;
mod script;
mod table;

use crate::xml::escape;

pub use head::{copyable, header, remark, tile, tiles};
pub use table::{captioned, cell, number, plain_table, table};

/// Style that all pages share: light, dark, narrow and in print.
const STYLE: &str = include_str!("page/page.css");

/// Returns a self-contained HTML page that is also valid XML.
///
/// `style` is CSS in addition to the shared style. `main` is the content, as markup; the scripts of its tables and
/// charts are added. `script` is a page-specific script, or empty; it must not contain `]]>` or `</script`.
pub fn page(title: &str, style: &str, main: &str, script: &str) -> String {
    let (title, scripts) = (escape(title), script::of(main, script));
    let (library, version) = (script::style_of(main), env!("CARGO_PKG_VERSION"));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{title} – Cubeyard</title>\n<style>\n{STYLE}{library}{style}</style>\n</head>\n<body>\n<main>\n\
         {main}</main>\n<footer>Cubeyard {version}</footer>\n{scripts}</body>\n</html>\n"
    )
}

/// Returns a section of a page; empty if its body is empty.
pub fn section(title: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    let title = escape(title);
    format!("<section aria-label=\"{title}\">\n<h2>{title}</h2>\n{body}</section>\n")
}

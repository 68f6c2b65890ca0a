//! Tables, with headers that screen readers announce.

use crate::xml::escape;

/// Returns a table that scrolls on narrow pages. `head` and `rows` are ready-made cells.
pub fn table(class: &str, head: &str, rows: &str) -> String {
    element(class, "", head, rows)
}

/// Returns a table with a caption for screen readers only, for use below a heading with the same text.
pub fn captioned(class: &str, caption: &str, head: &str, rows: &str) -> String {
    let caption = format!("<caption class=\"unseen\">{}</caption>\n", escape(caption));
    element(class, &caption, head, rows)
}

/// Returns a table of text under a visible caption. The first `left` columns are left-aligned, the others
/// right-aligned; the first cell of a row is its header. A row named `all` is the sum of the others and stays below
/// them.
pub fn plain_table(caption: &str, heading: &[&str], rows: &[Vec<String>], left: usize) -> String {
    let aligned = |column: usize| if column < left { "" } else { " class=\"n\"" };
    let heads = heading.iter().enumerate();
    let heads = heads.map(|(column, name)| format!("<th{}>{}</th>", aligned(column), escape(name)));
    let row = |row: &Vec<String>| -> String {
        let cells = row.iter().enumerate().map(|(column, text)| match column {
            0 => format!("<th scope=\"row\">{}</th>", escape(text)),
            column if column < left => cell(text),
            _ => number(text),
        });
        let class =
            if row.first().is_some_and(|name| name == "all") { " class=\"total\"" } else { "" };
        format!("<tr{class}>{}</tr>\n", cells.collect::<String>())
    };
    let caption = match caption {
        "" => String::new(),
        caption => format!("<caption>{}</caption>\n", escape(caption)),
    };
    let rows: String = rows.iter().map(row).collect();
    element("", &caption, &heads.collect::<String>(), &rows)
}

fn element(class: &str, caption: &str, head: &str, rows: &str) -> String {
    let head = head.replace("<th", "<th scope=\"col\"");
    format!(
        "<div class=\"wide\"><table class=\"{class}\">\n{caption}<thead><tr>{head}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// Returns a table cell with text.
pub fn cell(text: &str) -> String {
    format!("<td>{}</td>", escape(text))
}

/// Returns a right-aligned table cell.
pub fn number(text: &str) -> String {
    format!("<td class=\"n\">{}</td>", escape(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_their_column_or_row() {
        let rows = [vec!["a<b".to_owned(), "x".to_owned(), "1".to_owned()]];
        let table = plain_table("All & one", &["name", "what", "ns"], &rows, 2);
        assert!(table.contains("<caption>All &amp; one</caption>"));
        assert!(table.contains("<th scope=\"col\">what</th><th scope=\"col\" class=\"n\">ns</th>"));
        let row = "<tr><th scope=\"row\">a&lt;b</th><td>x</td><td class=\"n\">1</td></tr>";
        assert!(table.contains(row), "{table}");
    }
}

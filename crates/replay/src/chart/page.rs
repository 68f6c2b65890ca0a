//! A page of its own with the charts, their figures and the advice.

use super::svg;
use crate::{COLUMNS, Report, advice};
use cubeyard_draw::xml::escape;

const STYLE: &str = "\
body{font:15px/1.5 system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;color:#1f2933;\
background:#f5f7fa;margin:0}\
main{max-width:1000px;margin:0 auto;padding:24px 16px}\
section{background:#fff;border:1px solid #e4e7eb;border-radius:8px;margin:0 0 24px;padding:8px 16px 16px}\
svg{width:100%;height:auto}\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
th,td{text-align:right;padding:4px 10px;border-bottom:1px solid #e4e7eb}\
th:first-child,td:first-child{text-align:left}\
.best{font-weight:700}.failed td{color:#a61b1b}.advice{font-size:17px}";

/// A page that needs nothing else: for each report a chart and a table, then the advice on all.
pub fn html(reports: &[Report]) -> String {
    let sections: String = reports.iter().map(section).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>Cubeyard replay</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>Cubeyard replay</h1>\n<p class=\"advice\">{advice}</p>\n{sections}</main>\n</body>\n</html>\n",
        advice = escape(&advice(reports))
    )
}

fn section(report: &Report) -> String {
    let best = report.recommended().map(|row| row.policy.name);
    let mut rows = vec![row("th", "", &COLUMNS.map(str::to_owned))];
    for line in &report.rows {
        let class = match &line.outcome.failed {
            Some(_) => "failed",
            None if best == Some(line.policy.name) => "best",
            None => "",
        };
        rows.push(row("td", class, &line.cells()));
        if let Some(failure) = &line.outcome.failed {
            let message = escape(&failure.to_string());
            rows.push(format!("<tr class=\"failed\"><td colspan=\"6\">{message}</td></tr>\n"));
        }
    }
    rows.extend(report.recorded_cells().map(|cells| row("td", "", &cells)));
    let picture = svg(std::slice::from_ref(report));
    format!("<section>\n{picture}<table>\n{}</table>\n</section>\n", rows.concat())
}

fn row(tag: &str, class: &str, cells: &[String]) -> String {
    let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
    format!("<tr class=\"{class}\">{}</tr>\n", cells.collect::<Vec<_>>().concat())
}

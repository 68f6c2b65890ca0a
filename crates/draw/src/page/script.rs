//! Scripts of a page. They are inline, because a page opened as a file cannot load others.

const TABLES: &str = include_str!("tables.js");
const COPY: &str = include_str!("copy.js");
const UNPACK: &str = include_str!("unpack.js");
const FORMAT: &str = include_str!("format.js");
const CHART: &str = include_str!("chart.js");
/// Scripts shared by all canvases with zoom.
const ZOOM: [&str; 2] = [include_str!("range.js"), include_str!("controls.js")];
const BLOCKS: [&str; 3] =
    [include_str!("blocks-data.js"), include_str!("blocks-view.js"), include_str!("blocks.js")];
const TIMELINE: [&str; 3] = [
    include_str!("timeline-data.js"),
    include_str!("timeline-view.js"),
    include_str!("timeline.js"),
];

const ACTIVITY: [&str; 1] = [include_str!("activity.js")];

/// Chart library uPlot, as published.
const UPLOT: &str = include_str!("../../vendor/uPlot.iife.min.js");
/// Style sheet of uPlot, as published.
const UPLOT_STYLE: &str = include_str!("../../vendor/uPlot.min.css");

/// Returns the script elements that the markup needs, and the page-specific one.
pub(super) fn of(main: &str, own: &str) -> String {
    let mut scripts = Vec::new();
    if main.contains("<table") || main.contains("class=\"copyable\"") {
        scripts.push(COPY);
    }
    if main.contains("<table") {
        scripts.push(TABLES);
    }
    if main.contains("class=\"packed") {
        scripts.extend([UNPACK, FORMAT]);
    }
    if has_chart(main) {
        scripts.extend([UPLOT, CHART]);
    }
    for (figure, own) in
        [("operations", &TIMELINE[..]), ("blocks", &BLOCKS), ("activity", &ACTIVITY)]
    {
        if main.contains(&format!("<figure class=\"{figure}\"")) {
            scripts
                .extend(ZOOM.iter().filter(|script| !scripts.contains(script)).collect::<Vec<_>>());
            scripts.extend(own);
        }
    }
    scripts.push(own);
    scripts.into_iter().filter(|script| !script.is_empty()).map(element).collect()
}

/// Returns the style of the chart library, if the markup has a chart.
pub(super) fn style_of(main: &str) -> &'static str {
    if has_chart(main) { UPLOT_STYLE } else { "" }
}

fn has_chart(main: &str) -> bool {
    main.contains("<figure class=\"chart\"")
}

/// Returns a script element that is valid both in HTML and in XML.
fn element(script: &str) -> String {
    format!("<script>//<![CDATA[\n{script}\n//]]></script>\n")
}

#[cfg(test)]
mod tests;

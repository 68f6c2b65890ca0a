//! Scripts fit into a page, and third-party scripts are the published ones.

use super::*;

#[test]
fn a_page_has_the_scripts_that_it_needs() {
    assert_eq!(of("<p></p>", ""), "");
    assert!(of("<table></table>", "").contains("Copy as CSV"));
    assert!(!of("<table></table>", "").contains("uPlot"));
    assert!(of("<figure class=\"chart\">", "").contains("new uPlot"));
    let own = of("<p></p>", "own();");
    assert_eq!(own, "<script>//<![CDATA[\nown();\n//]]></script>\n");
}

/// A page with both kinds of canvas has what they share once.
#[test]
fn canvases_share_their_controls() {
    let figures = ["operations", "blocks"].map(|name| format!("<figure class=\"{name}\">"));
    for (figure, other) in [(0, 1), (1, 0)] {
        let scripts = of(&figures[figure], "");
        assert_eq!(scripts.matches("cubeyard.Range = Range").count(), 1);
        let other = [TIMELINE, BLOCKS][other];
        assert!(other.iter().all(|script| !scripts.contains(script)));
    }
    let both = of(&figures.concat(), "");
    assert_eq!(both.matches("cubeyard.Range = Range").count(), 1);
    assert!(both.contains(BLOCKS[2]) && both.contains(TIMELINE[2]));
}

fn all() -> impl Iterator<Item = &'static str> {
    let alone = [TABLES, UNPACK, FORMAT, CHART, UPLOT];
    alone.into_iter().chain(ZOOM).chain(TIMELINE).chain(BLOCKS)
}

#[test]
fn no_script_ends_its_element() {
    for script in all() {
        assert!(!script.contains("]]>") && !script.contains("</script"));
        assert!(script.contains("use strict"));
    }
    assert!(!UPLOT_STYLE.contains(['<', '&']));
}

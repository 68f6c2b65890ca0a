//! Scripts fit into a page, and those of others are the published ones.

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

#[test]
fn no_script_ends_its_element() {
    for script in [TABLES, UNPACK, FORMAT, CHART, UPLOT].into_iter().chain(TIMELINE) {
        assert!(!script.contains("]]>") && !script.contains("</script"));
        assert!(script.contains("use strict"));
    }
    assert!(!UPLOT_STYLE.contains(['<', '&']));
}

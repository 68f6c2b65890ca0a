//! Pages of plain reports, and of some that are hard to draw.

use expect_test::{expect, expect_file};
use roxmltree::{Document, Node};

use super::checked;
use super::sample::{lane, ns, small};
use crate::report::{Check, Operation, RunReport, SliceKind, Timeline, page, page_with};

/// Lists the elements of the body, each with its class and, if it is short, its text.
fn outline(document: &Document<'_>) -> String {
    let body = document.descendants().find(|node| node.has_tag_name("body")).expect("a body");
    let mut text = String::new();
    describe(body, 0, &mut text);
    text
}

fn describe(node: Node<'_, '_>, depth: usize, text: &mut String) {
    let name = node.tag_name().name();
    let ends = ["svg", "tr", "li", "dd", "script"].contains(&name)
        || !node.children().any(|child| child.is_element());
    let class = node.attribute("class").map(|class| format!(".{class}")).unwrap_or_default();
    let inner = if ends && name != "script" { words(node) } else { String::new() };
    let line = format!("{}{name}{class} {inner}", "  ".repeat(depth));
    text.push_str(line.trim_end());
    text.push('\n');
    if !ends {
        node.children().filter(Node::is_element).for_each(|child| describe(child, depth + 1, text));
    }
}

/// Returns all text in a node, with single spaces.
fn words(node: Node<'_, '_>) -> String {
    let texts = node.descendants().filter(Node::is_text).filter_map(|node| node.text());
    let words: Vec<_> = texts.flat_map(str::split_whitespace).collect();
    words.join(" ")
}

#[test]
fn a_page_has_a_head_key_figures_and_pictures() {
    let expected = expect_file!["page.txt"];
    checked(&page(&small()), |document| expected.assert_eq(&outline(document)));
}

#[test]
fn an_empty_report_is_a_page_too() {
    let expected = expect![[r"
        body
          main
            header
              h1
            dl.tiles
              div
                dt kernel
                dd 0 ns
                dd.remark 0 ns seen by the host
              div
                dt PEs
                dd 0
                dd.remark
          footer Cubeyard 0.1.0
    "]];
    checked(&page(&RunReport::default()), |document| expected.assert_eq(&outline(document)));
}

#[test]
fn a_page_needs_nothing_else() {
    let page = page(&small());
    for elsewhere in ["src=", "href=", "@import", "url(", "fetch(", "import("] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    let addresses: Vec<_> = page.match_indices("http").map(|(at, _)| &page[at..at + 26]).collect();
    assert!(addresses.iter().all(|address| *address == "http://www.w3.org/2000/svg"));
}

#[test]
fn names_stay_text() {
    let hostile = "<script>alert(1)</script>\u{1}&\"'";
    let mut report =
        RunReport { bench: hostile.to_owned(), limited_by: hostile.to_owned(), ..small() };
    report.lanes[0].name = format!("{hostile} {hostile}");
    report.lanes[0].slices[0].name = hostile.to_owned();
    report.units[0].unit = hostile.to_owned();
    report.bounds[1].resource = hostile.to_owned();
    report.critical[0].what = hostile.to_owned();
    let page = page(&report);
    assert!(!page.contains("<script>alert") && !page.contains('\u{1}'));
    checked(&page, |document| {
        let name = hostile.replace('\u{1}', "\u{fffd}");
        let heading = document.descendants().find(|node| node.has_tag_name("h1"));
        assert_eq!(heading.and_then(|node| node.text()), Some(name.as_str()));
    });
}

#[test]
fn two_million_slices_are_less_than_two_megabytes() {
    let lanes = (0..20).map(|pe| lane(&format!("sip0.cube0.pe{pe} GEMM"), 100_000)).collect();
    let report = RunReport { lanes, kernel: ns(300_000), ..small() };
    let page = page(&report);
    assert!((200_000..2_000_000).contains(&page.len()), "{}", page.len());
    checked(&page, |_| {});
}

#[test]
fn many_lanes_are_drawn_and_the_rest_counted() {
    let lanes = (0..300).map(|pe| lane(&format!("sip0.cube{} PE{pe}", pe / 8), 3)).collect();
    let page = page(&RunReport { lanes, ..small() });
    assert!(page.contains("44 more lanes are not drawn"));
    checked(&page, |_| {});
}

#[test]
fn a_check_that_failed_says_so() {
    let check = Some(Check { elements: 1, worst: f64::NAN, tolerance: 0.1 });
    let page = page(&RunReport { check, ..small() });
    assert!(page.contains("<div class=\"failed\"><dt>check</dt><dd>failed"));
}

#[test]
fn a_page_with_every_operation_is_a_page_too() {
    let hostile = "</script><b>\t\n&\u{1}";
    let mut timeline =
        Timeline::new(vec![(hostile.to_owned(), ns(0), ns(9))], vec![hostile.to_owned()]);
    let name = timeline.name(hostile.to_owned());
    let (start, end, kind) = (ns(2), ns(5), SliceKind::Gemm);
    let operation =
        Operation { start, end, busy: end, kind, name, launch: 1, line: name, why: name };
    timeline.push(hostile.to_owned(), hostile, vec![operation; 3]);
    let page = page_with(&small(), Some(&timeline), None);
    checked(&page, |document| {
        let packed = document.descendants().filter(|node| {
            node.attribute("class").is_some_and(|class| class.starts_with("packed "))
        });
        assert_eq!(packed.count(), 4);
    });
    assert!(page.contains("3 operations."));
}

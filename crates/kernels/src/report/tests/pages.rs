//! Pages of reports that are easy to read, and of some that are hard to draw.

use expect_test::expect;
use roxmltree::{Document, Node};

use super::checked;
use super::sample::{lane, ns, small};
use crate::report::{Check, RunReport, page};

/// The elements of the body below each other, each with its class and, where it is short, its text.
fn outline(document: &Document<'_>) -> String {
    let body = document.descendants().find(|node| node.has_tag_name("body")).expect("a body");
    let mut text = String::new();
    describe(body, 0, &mut text);
    text
}

fn describe(node: Node<'_, '_>, depth: usize, text: &mut String) {
    let leaf = ["svg", "tr", "li", "dd", "script"].contains(&node.tag_name().name());
    let class = node.attribute("class").map(|class| format!(".{class}")).unwrap_or_default();
    let inner: String = node
        .descendants()
        .filter_map(|node| node.is_text().then(|| node.text()))
        .flatten()
        .collect::<Vec<_>>()
        .join(" ");
    let inner = inner.split_whitespace().collect::<Vec<_>>().join(" ");
    let inner = if node.has_tag_name("script") { "…" } else { &inner };
    let ends = leaf || !node.children().any(|child| child.is_element());
    let inner = if ends { format!(" {inner}") } else { String::new() };
    let line = format!("{}{}{class}{inner}", "  ".repeat(depth), node.tag_name().name());
    *text += &format!("{}\n", line.trim_end());
    if !ends {
        node.children().filter(Node::is_element).for_each(|child| describe(child, depth + 1, text));
    }
}

#[test]
fn a_page_has_a_head_key_figures_and_pictures() {
    checked(&page(&small()), |document| {
        expect![[r#"
            body
              main
                header
                  h1 gemm
                  p.summary C = A × B
                  ul.parameters
                    li m 64
                    li dtype f16
                  p.verdict Limited by the HBM of each PE. HBM of a PE alone would need 70 ns of the 100 ns (70 %); DMA read, the busiest unit, works 50 % of the time.
                dl.tiles
                  div
                    dt kernel
                    dd 100 ns
                    dd.remark 400 ns seen by the host
                  div
                    dt of possible speed
                    dd 70 %
                    dd.remark HBM of a PE alone needs 70 ns
                  div
                    dt rate
                    dd 5.243 TFLOP/s
                    dd.remark 26.2 % of 20 TFLOP/s
                  div
                    dt bandwidth
                    dd 245.8 GB/s
                    dd.remark 12.3 % of 2 TB/s
                  div
                    dt moved
                    dd 24.00 KiB
                    dd.remark 16.00 KiB read, 8.00 KiB written
                  div
                    dt PEs
                    dd 8
                    dd.remark 1 SIP × 1 cube × 8 PEs
                  div.passed
                    dt check
                    dd passed
                    dd.remark 4,096 elements, error 0.001 of 0.01 allowed
                section
                  h2 Timeline
                  ul.legend
                    li DMA read
                    li DMA write
                    li GEMM
                  div.wide
                    svg.timeline time in ns 0 20 40 60 80 100 critical path sip0.cube0.pe0 DMA read GEMM sip0.cube0.pe1 DMA write DMA read of A and B: 0 ns to 50 ns, 50 ns dot: 50 ns to 80 ns, 30 ns DMA write of C: 80 ns to 100 ns, 20 ns A and B: 0 ns to 50 ns, 50 ns dot: 50 ns to 80 ns, 30 ns C: 80 ns to 100 ns, 20 ns
                section
                  h2 Critical path
                  svg.stack 50 % DMA read: 50 ns, 50 % 30 % GEMM: 30 ns, 30 % 20 % DMA write: 20 ns, 20 %
                  ul.legend
                    li DMA read 50 ns · 50 %
                    li GEMM 30 ns · 30 %
                    li DMA write 20 ns · 20 %
                  h3 Its 3 steps
                  div.wide
                    table.steps
                      thead
                        tr at, ns takes, ns share step asked for at why not earlier
                      tbody
                        tr 0.000 50.000 50.0 % DMA read of A and B gemm.rs:41 the kernel began
                        tr 50.000 30.000 30.0 % dot gemm.rs:41 B arrived
                        tr 80.000 20.000 20.0 % DMA write of C gemm.rs:41 the product was there
                div.beside
                  section
                    h2 How busy the units were
                    div.wide
                      table.units
                        thead
                          tr unit busy mean most busiest
                        tbody
                          tr DMA read 50.0 % 50.0 % sip0.cube0.pe0
                          tr GEMM 25.0 % 30.0 % sip0.cube0.pe0
                    p.remark Shares of the kernel time. Full: the mean over PEs. Pale: the busiest of them.
                  section
                    h2 What each resource needs
                    div.wide
                      table.bounds
                        thead
                          tr resource least time of kernel
                        tbody
                          tr HBM of a PE 70.0 % 70 ns
                          tr GEMM f16 30.0 % 30 ns
                    p.remark How long each resource would need if it never waited for another. The kernel can be no faster than the longest.
                section
                  h2 Roofline
                  svg.roofline 0.01 0.1 1 10 100 1 T 10 T 100 T FLOP for each byte moved FLOP/s 2 TB/s 20 TFLOP/s peak of the engines 5.243 TFLOP/s this run 7.49 TFLOP/s HBM of a PE 17.48 TFLOP/s GEMM f16
                  p.remark 21.33 FLOP for each byte, beyond the ridge at 10: here the engines set the roof, of which this run reaches 26.2 %.
                section
                  h2 Launches
                  div.wide
                    table.launches
                      thead
                        tr launch took
                      tbody
                        tr gemm 400 ns
                section
                  h2 Notes
                  ul
                    li One tile for each PE.
              script …
        "#]].assert_eq(&outline(document))
    });
}

#[test]
fn an_empty_report_is_a_page_too() {
    checked(&page(&RunReport::default()), |document| {
        expect![[r#"
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
                div.beside
              script …
        "#]]
        .assert_eq(&outline(document))
    });
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

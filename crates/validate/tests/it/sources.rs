//! `docs/sources.md`: the sections to which rows link.

use std::collections::BTreeSet;

use cubeyard_device::topology::Topology;
use cubeyard_validate::collectives;

const PAGE: &str = include_str!("../../../../docs/sources.md");

/// Words of sources outside of this project.
const OTHERS: [&str; 5] = ["kernbench2", "published", "astra-", "BookSim2", "Ramulator"];

/// Returns the anchors of the headings of a page, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        text.chars().filter(|&letter| letter.is_alphanumeric() || "-_".contains(letter)).collect()
    };
    headings.map(anchor).collect()
}

/// Returns the anchor at the end of a source: `pe-dma` of `… (sources.md#pe-dma)`.
fn link(source: &str) -> Option<&str> {
    source.strip_suffix(')')?.split_once(" (sources.md#").map(|(_, anchor)| anchor)
}

/// Rows said `published`, and the page had to be searched for the document.
#[test]
fn rows_of_other_sources_link_to_a_section_of_the_page() {
    let topology = Topology::embedded();
    let (anchors, mut linked) = (anchors(PAGE), BTreeSet::new());
    for check in cubeyard_validate::checks(&topology).iter().chain(&collectives::checks()) {
        let (name, source) = (check.name(), check.source());
        let Some(anchor) = link(source) else {
            assert!(!source.contains("sources.md"), "{name}: {source}");
            assert!(!OTHERS.iter().any(|word| source.contains(word)), "{name}: {source}");
            assert!(!check.family().starts_with("published"), "{name}: {source}");
            continue;
        };
        assert!(anchors.contains(anchor), "{name}: {source}: the page has {anchors:?}");
        linked.insert(anchor);
    }
    let all = "all-reduce astra-sim booksim2 gemm host-writes pe-dma probe ramulator";
    assert_eq!(linked, all.split(' ').collect());
}

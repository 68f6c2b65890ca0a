//! `docs/lrab-published.md`: the published all-reduce next to ours, with an analysis of the difference.

use cubeyard_runtime::SlotKind;
use cubeyard_validate::collectives::form::{Part, lrab as form, total};
use cubeyard_validate::collectives::{PUBLISHED, PUBLISHED_NS as TIMES, lrab, published};

const PAGE: &str = include_str!("../../../../docs/lrab-published.md");

/// Returns the row of a table that begins with these cells, without them.
#[track_caller]
fn row(start: &str) -> Vec<&'static str> {
    let line =
        PAGE.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}"));
    line[start.len()..].trim_matches('|').split('|').map(str::trim).collect()
}

/// Formats with commas between thousands, and one decimal.
fn ns(value: f64) -> String {
    let text = format!("{value:.1}");
    let (whole, rest) = text.split_once('.').unwrap();
    let thousands = whole.len().saturating_sub(3);
    if thousands == 0 {
        text.clone()
    } else {
        format!("{},{}.{rest}", &whole[..thousands], &whole[thousands..])
    }
}

/// Returns the cost of writing or reading a message's slot: latency, and bytes at a rate in GB/s.
fn slot(kind: SlotKind, bytes: f64) -> f64 {
    match kind {
        SlotKind::Tcm => bytes / 512.0,
        SlotKind::Sram => 2.0 + bytes / 128.0,
        SlotKind::Hbm => 6.0 + bytes / 32.0,
    }
}

#[test]
fn the_terms_of_the_page_add_up_to_all_that_was_published() {
    for (kind, name, times) in TIMES {
        for (&bytes, time) in PUBLISHED.iter().zip(times) {
            let bytes = bytes as f64;
            let messages = 11.0 * bytes / 128.0;
            let slots = (11.0 + 13.0) * slot(kind, bytes);
            // The engine processes 256 elements per cycle, and takes at least one cycle.
            let additions = 9.0 * (bytes / 2.0 / 256.0).max(1.0);
            let ends = 2.0 * bytes / 256.0;
            let sum = 1633.04 + messages + slots + additions + ends;
            assert!((sum - time).abs() < 0.005, "{name}, {bytes} bytes: {sum}, published {time}");
        }
        let cells: Vec<_> = times.iter().map(|time| ns(*time)).collect();
        assert_eq!(row(&format!("| {name} | published |")), cells);
    }
}

/// The closed form equals the simulated time to the picosecond, and both are on the page.
#[test]
fn ours_is_the_sum_of_its_parts() {
    let forms = PUBLISHED.map(|bytes| form(&published(), bytes));
    for (bytes, parts) in PUBLISHED.iter().zip(&forms) {
        assert_eq!(total(parts), lrab(*bytes, SlotKind::Tcm).unwrap(), "{bytes} bytes: {parts:?}");
    }
    let [short, .., long] = &forms;
    for (at, Part { what, times, takes }) in long.iter().enumerate() {
        let cells = [times.to_string(), ns(short[at].takes.ns()), ns(takes.ns())];
        assert_eq!(row(&format!("| {what} |"))[..3], cells, "{what}");
    }
    assert_eq!(row("| **all** |")[1..3], [ns(total(short).ns()), ns(total(long).ns())]);
}

#[test]
fn ours_is_on_the_page_for_every_memory() {
    for (kind, name, times) in TIMES {
        let ours = PUBLISHED.map(|bytes| lrab(bytes, kind).unwrap().ns());
        assert_eq!(row(&format!("| {name} | ours |")), ours.map(ns), "{name}");
        let off = ours
            .iter()
            .zip(times)
            .map(|(ours, time)| format!("{:+.0} %", (ours / time - 1.0) * 100.0));
        assert_eq!(row(&format!("| {name} | difference |")), off.collect::<Vec<_>>(), "{name}");
    }
}

/// Nanoseconds per 128 bytes, from 16 to 64 KiB; the page explains them term by term.
#[test]
fn the_slopes_are_those_of_the_page() {
    for (kind, name, [.., at_16, at_64]) in TIMES {
        let ours = [16 << 10, 64 << 10].map(|bytes| lrab(bytes, kind).unwrap().ns());
        let slope = |short: f64, long: f64| format!("{:.2}", (long - short) / 384.0);
        let cells = [slope(at_16, at_64), slope(ours[0], ours[1])];
        assert_eq!(row(&format!("| slope, {name} |")), cells);
    }
}

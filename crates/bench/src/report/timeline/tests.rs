//! Positions of lanes and blocks.

use super::*;

fn slice(start: u64, end: u64) -> Slice {
    let (start, end) = (Span::from_ps(start), Span::from_ps(end));
    let busy = end.saturating_sub(start);
    Slice { start, end, busy, kind: SliceKind::Gemm, name: "dot".to_owned() }
}

fn lane(name: &str, slices: &[Slice]) -> Lane {
    Lane { name: name.to_owned(), slices: slices.to_vec() }
}

#[test]
fn lanes_of_one_pe_stand_below_its_name() {
    let lanes = ["pe0 GEMM", "pe0 MATH", "pe1 GEMM", "alone"].map(|name| lane(name, &[]));
    let rows: Vec<_> = lanes.iter().map(Row::new).collect();
    let (text, places, bottom) = names(&rows);
    let steps: Vec<_> = places.windows(2).map(|pair| (pair[1] - pair[0]).to_string()).collect();
    assert_eq!(steps, ["18", "42", "24"]);
    assert_eq!(
        (places[0].to_string(), (bottom - TOP - places[3]).to_string()),
        ("24".into(), "18".into())
    );
    assert_eq!((text.matches(">pe0<").count(), text.matches(">GEMM<").count()), (1, 2));
}

#[test]
fn blocks_are_at_their_times() {
    let axis = TimeAxis::new(Span::from_ps(1000));
    let slices = [slice(0, 500), slice(750, 1000), slice(1000, 1000)];
    let ordered = sorted(&slices);
    let blocks = fit(&[&ordered], 1000, 10, 0);
    let text = super::lane(0.0, &blocks[0], &axis);
    let half = PLOT / 2.0;
    assert!(text.contains(&format!("x=\"0.00\" width=\"{half:.2}\"")), "{text}");
    assert!(
        text.contains(&format!("x=\"{:.2}\" width=\"{:.2}\"", PLOT * 0.75, PLOT / 4.0)),
        "{text}"
    );
    let last = format!("x=\"{:.2}\" width=\"1.00\"", PLOT - 1.0);
    assert!(text.contains(&last), "an instant at the end can be seen: {text}");
}

#[test]
fn merged_blocks_are_as_high_as_they_are_busy() {
    let slices = [slice(0, 10), slice(30, 40)];
    let ordered = sorted(&slices);
    let blocks = fit(&[&ordered], 40, 1, 0);
    let axis = TimeAxis::new(Span::from_ps(40));
    assert_eq!(height(&blocks[0][0], &axis), (" y=\"6.5\"".to_owned(), "6.5".to_owned()));
    assert_eq!(title(&blocks[0][0]), "2 slices, mostly GEMM: 0 ns to 0.04 ns, busy 50 %");
    let apart = fit(&[&ordered], 40, 2, 0);
    assert_eq!(height(&apart[0][0], &axis), (String::new(), "13".to_owned()));
}

/// Returns the area of all blocks, as a fraction of their lane.
fn ink(text: &str) -> f64 {
    let number = |block: &str, name: &str| -> f64 {
        let rest = block.split(&format!(" {name}=\"")).nth(1).unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    };
    let blocks = text.split("<rect ").skip(1);
    let areas = blocks.map(|block| number(block, "width") * number(block, "height"));
    areas.sum::<f64>() / (PLOT * BLOCK)
}

/// Regression: a stage of the engine that waits between strips for a slower one was drawn as always busy.
#[test]
fn a_slice_is_as_high_as_its_unit_is_busy() {
    let slices = [Slice { busy: Span::from_ps(50), ..slice(0, 1000) }];
    let row = Row { group: "", unit: "TCM write", slices: sorted(&slices) };
    let text = drawn(&[row], Span::from_ps(1000), Span::from_ps(1000));
    let plot = text.split("class=\"catch\"").nth(1).unwrap();
    assert!(ink(plot) < 0.08, "{}", ink(plot));
    assert!(plot.contains("dot: 0 ns to 1 ns, 1 ns, busy 5 %"), "{plot}");
}

/// Regression: thousands of short slices were each drawn at the minimum width, so that the lane looked always
/// busy.
#[test]
fn a_lane_that_is_seldom_busy_is_not_drawn_solid() {
    for (count, busy) in [(200_u64, 5), (4000, 5), (4000, 50), (30_000, 5), (30_000, 90)] {
        let slices: Vec<_> = (0..count).map(|at| slice(at * 1000, at * 1000 + busy * 10)).collect();
        let row = Row { group: "", unit: "TCM write", slices: sorted(&slices) };
        let end = Span::from_ps(count * 1000);
        let text = drawn(&[row], end, end);
        let plot = text.split("class=\"catch\"").nth(1).unwrap();
        let (found, expected) = (ink(plot), busy as f64 / 100.0);
        assert!((found - expected).abs() < 0.06, "{count} slices of {busy} %: {found}");
    }
}

#[test]
fn the_end_of_the_kernel_is_marked_where_something_goes_on() {
    let report = |end| RunReport {
        kernel: Span::from_ps(100),
        lanes: vec![lane("pe0 GEMM", &[slice(0, end)])],
        ..RunReport::default()
    };
    assert!(timeline(&report(101)).contains("end of the kernel"));
    assert!(!timeline(&report(100)).contains("end of the kernel"));
    assert_eq!(timeline(&RunReport::default()), "");
}

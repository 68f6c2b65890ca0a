//! Positions of roofs, points and marks.

use cubeyard_sim::Span;

use super::*;
use crate::report::Traffic;

/// Returns a report of 1000 FLOP and 100 bytes in 1 ns: 1 TFLOP/s at 10 FLOP/B; the ridge is at 100.
fn report() -> RunReport {
    let bound =
        |resource: &str, ps| Bound { resource: resource.to_owned(), span: Span::from_ps(ps) };
    RunReport {
        kernel: Span::from_ps(1000),
        traffic: Traffic { read: 60, written: 40 },
        flop: 1000,
        peak_rate: 1e14,
        peak_bandwidth: 1e12,
        bounds: vec![bound("engines", 10), bound("HBM", 100), bound("nothing", 0), bound("far", 1)],
        ..RunReport::default()
    }
}

#[test]
fn the_point_is_where_its_intensity_and_rate_are() {
    let report = report();
    let roofline = Roofline::new(&report).unwrap();
    let decades = |axis: LogAxis| axis.decades().into_iter().map(|it| it.1).collect::<Vec<_>>();
    assert_eq!(decades(roofline.x), [0, 1, 2, 3, 4]);
    assert_eq!(decades(roofline.y), [11, 12, 13, 14, 15, 16]);
    let close =
        |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    close(roofline.x.position(roofline.intensity), LEFT + (RIGHT - LEFT) / 4.0);
    close(roofline.y.position(roofline.rate), BOTTOM - (BOTTOM - TOP) / 5.0);
}

#[test]
fn the_slope_begins_at_the_edge_of_the_picture() {
    let report = report();
    let (x, y) = Roofline::new(&report).unwrap().foot();
    let decade = BOTTOM - (BOTTOM - TOP) / 5.0;
    assert!((x - LEFT).abs() < 1e-6 && (y - decade).abs() < 1e-6, "{x} {y}");
    let slow = RunReport { peak_bandwidth: 5e10, ..report };
    let (x, y) = Roofline::new(&slow).unwrap().foot();
    assert!(x > LEFT + 1.0 && (y - BOTTOM).abs() < 1e-6, "{x} {y}");
}

#[test]
fn bounds_are_rates_and_tightest_first() {
    let report = report();
    let names: Vec<_> =
        rates(&report).into_iter().map(|(rate, name)| (rate.round(), name)).collect();
    assert_eq!(names, [(1e13, "HBM"), (1e14, "engines"), (1e15, "far")]);
}

#[test]
fn labels_never_overlap() {
    let bound = |place: u64| Bound { resource: format!("bound {place}"), span: Span::from_ps(100) };
    let report = RunReport { bounds: (0..40).map(bound).collect(), ..report() };
    let mut canvas = Canvas::default();
    PLOT.labels(&mut canvas, &Roofline::new(&report).unwrap().labels());
    let text = canvas.into_elements();
    let lines = text.lines().filter(|line| line.contains("text-anchor=\"end\""));
    let heights = lines.map(|line| {
        let y = line.split(" y=\"").nth(1).and_then(|rest| rest.split('"').next());
        y.unwrap().parse::<f64>().unwrap()
    });
    let mut heights: Vec<_> = heights.collect();
    heights.sort_by(f64::total_cmp);
    assert_eq!(heights.len(), MOST_BOUNDS + 2);
    assert!(heights.windows(2).all(|pair| pair[1] - pair[0] > 17.8), "{heights:?}");
    assert!(heights.iter().all(|y| (0.0..=HEIGHT).contains(y)), "{heights:?}");
}

#[test]
fn without_arithmetic_traffic_or_peaks_there_is_no_roofline() {
    for broken in [
        RunReport { flop: 0, ..report() },
        RunReport { traffic: Traffic::default(), ..report() },
        RunReport { kernel: Span::ZERO, ..report() },
        RunReport { peak_rate: 0.0, ..report() },
        RunReport { peak_bandwidth: f64::NAN, ..report() },
        RunReport { peak_rate: f64::INFINITY, ..report() },
    ] {
        assert_eq!(roofline(&broken), "");
    }
    assert!(roofline(&report()).contains("below the ridge at 100"));
}

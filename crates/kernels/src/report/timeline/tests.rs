//! Where lanes and blocks are.

use super::*;

fn slice(start: u64, end: u64) -> Slice {
    let (start, end) = (Span::from_ps(start), Span::from_ps(end));
    Slice { start, end, kind: SliceKind::Gemm, name: "dot".to_owned() }
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
    let blocks = fit(&[&ordered], 1000, 10);
    let text = super::lane(0.0, &blocks[0], &axis);
    let half = PLOT / 2.0;
    assert!(text.contains(&format!("x=\"0.00\" width=\"{half:.2}\"")), "{text}");
    assert!(
        text.contains(&format!("x=\"{:.2}\" width=\"{:.2}\"", PLOT * 0.75, PLOT / 4.0)),
        "{text}"
    );
    let last = format!("x=\"{:.2}\" width=\"0.40\"", PLOT - 0.4);
    assert!(text.contains(&last), "an instant at the end can be seen: {text}");
}

#[test]
fn merged_blocks_are_as_pale_as_they_are_empty() {
    let slices = [slice(0, 10), slice(30, 40)];
    let ordered = sorted(&slices);
    let blocks = fit(&[&ordered], 40, 1);
    assert_eq!(shade(&blocks[0][0]), " fill-opacity=\"0.62\"");
    assert_eq!(title(&blocks[0][0]), "2 slices, mostly GEMM: 0 ns to 0.04 ns, busy 50 %");
    assert_eq!(shade(&fit(&[&ordered], 40, 2)[0][0]), "");
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

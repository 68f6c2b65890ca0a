//! Figures and pictures of small charts.

use super::*;

fn chart(spacing: Spacing, positions: &[f64], lines: &[&[f64]]) -> Chart {
    let axes = ["size", "rate"].map(|label| Axis::new(label, Quantity::Bytes, spacing));
    let line = |(at, values): (usize, &&[f64])| Line::new(at, format!("a<{at}"), values.to_vec());
    let lines = lines.iter().enumerate().map(line).collect();
    Chart { lines, ..Chart::new("T".to_owned(), axes, positions.to_vec()) }
}

/// Coordinates of the dots of a picture.
fn dots(picture: &str) -> Vec<(f64, f64)> {
    let number = |text: &str, name: &str| {
        text.split(name).nth(1).unwrap().split('"').nth(1).unwrap().parse().unwrap()
    };
    picture.split("<circle ").skip(1).map(|it| (number(it, "cx="), number(it, "cy="))).collect()
}

#[test]
fn a_figure_holds_its_picture_its_numbers_and_names() {
    let chart = chart(Spacing::Binary, &[1.0, 2.0], &[&[3.0, f64::NAN]]);
    let numbers: Vec<_> =
        chart.bytes().chunks(8).map(|it| f64::from_le_bytes(it.try_into().unwrap())).collect();
    assert_eq!(numbers[..3], [1.0, 2.0, 3.0]);
    assert!(numbers[3].is_nan() && numbers.len() == 4);
    let figure = chart.figure();
    assert!(figure.contains("data-shape=\"dotted\">a&lt;0</li>"), "{figure}");
    assert!(figure.contains(&chart.svg()));
    let named = Chart { names: vec!["f<16".to_owned(), "f32".to_owned()], ..chart };
    assert!(named.figure().contains("<li>f&lt;16</li>\n<li>f32</li>"));
}

#[test]
fn a_chart_without_lines_is_a_picture_alone() {
    for (positions, lines) in
        [(vec![1.0], vec![&[3.0][..]]), (vec![], vec![]), (vec![1.0, 2.0], vec![])]
    {
        let figure = chart(Spacing::Linear, &positions, &lines).figure();
        assert!(figure.starts_with("<div class=\"wide\"><svg") && !figure.contains("packed"));
        assert!(!figure.contains("NaN"), "{figure}");
    }
}

#[test]
fn values_are_placed_by_their_size() {
    let linear = dots(&chart(Spacing::Linear, &[2.0, 3.0, 6.0], &[&[100.0, 50.0, 0.0]]).svg());
    assert_eq!(linear.iter().map(|it| it.0).collect::<Vec<_>>(), [90.0, 237.5, 680.0]);
    assert!((linear[2].1 - 400.0).abs() < 0.1, "zero is on the axis");
    assert!((linear[0].1 + 400.0 - 2.0 * linear[1].1).abs() < 0.2, "{linear:?}");
    let wide = dots(&chart(Spacing::Decimal, &[1.0, 8.0, 64.0], &[&[1.0, 10.0, 100.0]]).svg());
    assert_eq!(wide.iter().map(|it| it.0).collect::<Vec<_>>(), [90.0, 385.0, 680.0]);
    assert!((wide[0].1 + wide[2].1 - 2.0 * wide[1].1).abs() < 0.2, "{wide:?}");
}

#[test]
fn every_line_has_its_name_and_its_last_value_beside_it() {
    let mut chart = chart(Spacing::Linear, &[1.0, 2.0], &[&[4096.0, 2048.0], &[1.0, f64::NAN]]);
    let picture = chart.svg();
    for text in [">a&lt;0<", ">2.00 KiB<", ">a&lt;1<", ">1 B<", ">T<"] {
        assert!(picture.contains(text), "{text}: {picture}");
    }
    chart.lines[0].figures = Some("most".to_owned());
    assert!(chart.svg().contains(">most<") && !chart.svg().contains(">2.00 KiB<"));
}

#[test]
fn steps_are_drawn_where_values_change_and_end_with_a_cross_if_broken() {
    let mut chart = chart(Spacing::Linear, &[0.0, 1.0, 2.0, 3.0], &[&[5.0, 5.0, 7.0, f64::NAN]]);
    chart.lines[0].shape = Shape::Stepped;
    let path = chart.svg();
    assert_eq!(path.matches("H483.3").count(), 2, "one step, and the end of the line: {path}");
    assert!(!path.contains("l10 10"));
    chart.lines[0] = Line { shape: Shape::Filled, is_broken: true, ..chart.lines[0].clone() };
    assert!(chart.svg().contains("l10 10") && chart.svg().contains("V400.0H90.0Z"));
}

#[test]
fn many_positions_have_few_ticks() {
    for spacing in [Spacing::Linear, Spacing::Binary] {
        let positions: Vec<f64> = (0..40).map(|power| 2_f64.powi(power)).collect();
        let picture = chart(spacing, &positions, &[&[1.0; 40]]).svg();
        let ticks = picture.matches("V400\" class=\"grid\"").count();
        assert!((2..=9).contains(&ticks), "{ticks} ticks: {picture}");
    }
}

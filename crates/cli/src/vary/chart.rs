//! Studies as a chart: time over the values of the first key, a line for each combination of the others.

use cubeyard_bench::compare::Measured;
use cubeyard_draw::axis::ticks;
use cubeyard_draw::plot::{Label, Plot};
use cubeyard_draw::svg::{Area, Canvas, colour};
use cubeyard_draw::xml::shorten;
use cubeyard_sim::Span;
use cubeyard_units::text::{TimeUnit, span};

use super::Study;
use super::table::is_named;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 460.0;
const AREA: Area = Area { x: 90.0, y: 56.0, width: 590.0, height: 344.0 };
const PLOT: Plot = Plot { area: AREA, right: WIDTH - 16.0 };
/// Ratio of numbers from which on their axis is logarithmic.
pub(super) const LOGARITHMIC: f64 = 16.0;

/// A line: its name, and its points by the number of the value and the time in picoseconds.
pub(super) type Series = (String, Vec<(usize, f64)>);

pub(super) fn svg(study: &Study) -> String {
    let (mut canvas, title) = (Canvas::default(), title(study));
    canvas.text(AREA.x, 26.0, "font-size=\"16\"", &shorten(&title, 90));
    let lines = series(study);
    let most = lines.iter().flat_map(|(_, points)| points).map(|point| point.1).fold(0.0, f64::max);
    if most > 0.0 {
        draw(&mut canvas, study, &lines, most);
    }
    canvas.finish(&title, WIDTH, HEIGHT)
}

pub(super) fn title(study: &Study) -> String {
    let keys: Vec<_> = study.grid.keys().collect();
    format!("{} over {}", study.title, keys.join(", "))
}

pub(super) fn series(study: &Study) -> Vec<Series> {
    let mut lines: Vec<Series> = Vec::new();
    let rest: usize = study.grid.len() / study.grid.axes()[0].1.len();
    let is_named = is_named(study);
    for (place, (point, outcome)) in study.points().enumerate() {
        let Ok(recorded) = outcome else { continue };
        let others: Vec<_> =
            point[1..].iter().map(|(key, value)| format!("{key}={value}")).collect();
        for measured in Measured::all(&recorded.record) {
            let own = (is_named || others.is_empty()).then(|| measured.name.clone());
            let name: Vec<_> = own.into_iter().chain(others.clone()).collect();
            let (name, at) = (name.join(" "), (place / rest, measured.time_ns * 1e3));
            match lines.iter_mut().find(|(known, _)| *known == name) {
                Some((_, points)) => points.push(at),
                None => lines.push((name, vec![at])),
            }
        }
    }
    lines
}

fn draw(canvas: &mut Canvas, study: &Study, lines: &[Series], most: f64) {
    let (key, values) = &study.grid.axes()[0];
    let (places, most) = (positions(values), most * 1.06);
    let y = |ps: f64| AREA.bottom() - ps / most * AREA.height;
    let unit = TimeUnit::of(spanned(most));
    let up: Vec<_> = ticks(most, unit.ps, 8).into_iter().map(|(ps, text)| (y(ps), text)).collect();
    let across: Vec<_> =
        places.iter().zip(values).map(|(x, value)| (*x, shorten(value, 12))).collect();
    PLOT.axes(canvas, &across, &up, [key, unit.name]);
    let mut labels = Vec::new();
    for (place, (name, points)) in lines.iter().enumerate() {
        let at: Vec<_> = points.iter().map(|(value, ps)| (places[*value], y(*ps))).collect();
        let stroke = format!("stroke=\"{}\"", colour(place));
        canvas.line(name, &at, &stroke, Some(colour(place)));
        labels.extend(points.last().zip(at.last()).map(|(point, at)| Label {
            name: name.clone(),
            figures: span(spanned(point.1)),
            from: *at,
            leader: stroke,
            bold: false,
        }));
    }
    PLOT.labels(canvas, &labels);
}

/// Returns the positions of values on the axis: by their size if they are growing numbers, else evenly.
fn positions(values: &[String]) -> Vec<f64> {
    let shares: Vec<f64> = match growing(values) {
        Some(all) => {
            let (low, high) = (all[0], all[all.len() - 1]);
            let is_wide = low > 0.0 && high / low >= LOGARITHMIC;
            let scaled = |number: f64| if is_wide { number.ln() } else { number };
            let share =
                |number: &f64| (scaled(*number) - scaled(low)) / (scaled(high) - scaled(low));
            all.iter().map(share).collect()
        }
        None => (0..values.len()).map(|at| (at as f64 + 0.5) / values.len() as f64).collect(),
    };
    shares.into_iter().map(|share| AREA.x + share * AREA.width).collect()
}

/// Returns values as numbers, if there are several and each is larger than the one before.
pub(super) fn growing(values: &[String]) -> Option<Vec<f64>> {
    let number = |value: &String| value.parse().ok().filter(|number: &f64| number.is_finite());
    let numbers: Vec<f64> = values.iter().map(number).collect::<Option<_>>()?;
    (numbers.len() > 1 && numbers.is_sorted_by(|one, next| one < next)).then_some(numbers)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time that was a span"
)]
fn spanned(ps: f64) -> Span {
    Span::from_ps(ps as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(values: &[&str]) -> Vec<f64> {
        let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        positions(&values).iter().map(|x| (x - AREA.x) / AREA.width).collect()
    }

    #[test]
    fn growing_numbers_are_placed_by_size_and_others_evenly() {
        assert_eq!(at(&["2", "3", "6"]), [0.0, 0.25, 1.0]);
        let wide = at(&["1", "8", "64"]);
        assert!((wide[1] - 0.5).abs() < 1e-9, "{wide:?}");
        assert_eq!(at(&["f16", "f32"]), [0.25, 0.75]);
        assert_eq!(at(&["4", "2"]), [0.25, 0.75]);
    }
}

//! Parts of a step with their bounds, as bars.

use cubeyard_bench::report::SliceKind;
use cubeyard_draw::remark;
use cubeyard_draw::svg::{Area, Canvas, END, SOFT};
use cubeyard_draw::xml::escape;
use cubeyard_model::report::{Limiting, ModelReport};
use cubeyard_sim::Span;
use cubeyard_units::text::{percent, span};

const WIDTH: f64 = 1000.0;
/// Left edge of the bars, and the room for the figures behind them.
const LEFT: f64 = 120.0;
const FIGURES: f64 = 270.0;
const ROW: f64 = 26.0;
const BAR: f64 = 17.0;

/// Bar of a part, or of the launches.
struct PartBar {
    name: &'static str,
    total: Span,
    bound: Span,
    limiting: Option<Limiting>,
}

/// Draws a bar for each part in the order of the step: its time, with its bound in front.
pub(super) fn figure(report: &ModelReport) -> String {
    let bars = bars(report);
    let most = bars.iter().map(|bar| bar.total).max().unwrap_or_default();
    let mut canvas = Canvas::default();
    for (place, bar) in bars.iter().enumerate() {
        draw(&mut canvas, bar, place as f64 * ROW + 6.0, most, report.total);
    }
    let picture =
        canvas.finish("Parts of a step with their bounds", WIDTH, bars.len() as f64 * ROW + 12.0);
    let of = |limiting: Limiting| (colour(Some(limiting)), limiting.name());
    let legend = [Limiting::Hbm, Limiting::Gemm].map(of).map(|(colour, name)| {
        format!("<li><i style=\"background:{colour}\"></i>bound by {name}</li>\n")
    });
    format!(
        "<div class=\"wide parts\">{picture}</div>\n<ul class=\"lines\">\n{}</ul>\n{}",
        legend.concat(),
        remark("Pale: time in the step. Full: the least time that HBM and GEMM of all PEs allow.")
    )
}

fn bars(report: &ModelReport) -> Vec<PartBar> {
    let part = report.parts.iter().map(|part| PartBar {
        name: part.part.name(),
        total: part.total,
        bound: part.bound(),
        limiting: part.limiting(),
    });
    let (total, bound) = (report.launching, Span::ZERO);
    part.chain([PartBar { name: "launches", total, bound, limiting: None }]).collect()
}

/// Returns the colour of the unit of a bound: accesses to the HBM are DMA reads.
fn colour(limiting: Option<Limiting>) -> &'static str {
    match limiting {
        Some(Limiting::Hbm) => SliceKind::DmaRead.colour(),
        Some(Limiting::Gemm) => SliceKind::Gemm.colour(),
        None => SliceKind::Cpu.colour(),
    }
}

fn draw(canvas: &mut Canvas, bar: &PartBar, y: f64, most: Span, step: Span) {
    let PartBar { name, total, bound, limiting } = bar;
    let room = WIDTH - LEFT - FIGURES;
    let width = |span: Span| span.ps() as f64 / most.ps().max(1) as f64 * room;
    let share = |part: Span, of: Span| percent(part.ps() as f64 / of.ps().max(1) as f64);
    let of_bound = limiting.map(|_| format!(", {} of bound", share(*bound, *total)));
    let figures = format!("{}, {}", span(*total), share(*total, step));
    canvas.text(LEFT - 10.0, y + 13.0, END, name);
    let by = limiting.map(|it| format!("; {} allows {}", it.name(), span(*bound)));
    let title = format!("{name}: {figures} of the step{}", by.unwrap_or_default());
    canvas.push(&format!("<g><title>{}</title>", escape(&title)));
    let area = |width| Area { x: LEFT, y, width, height: BAR };
    let fill = colour(*limiting);
    canvas.rect(area(width(*total)), &format!("fill=\"{fill}\" opacity=\".35\""));
    canvas.rect(area(width(*bound)), &format!("fill=\"{fill}\""));
    canvas.push("</g>");
    canvas.text(
        LEFT + width(*total) + 8.0,
        y + 13.0,
        SOFT,
        &(figures + &of_bound.unwrap_or_default()),
    );
}

//! Results of services as an HTML page.

use cubeyard_bench::report::Answer;
use cubeyard_draw::chart::{Axis, Chart, Line, Quantity, Shape, Spacing};
use cubeyard_draw::{header, page, section, tile, tiles};
use cubeyard_serve::run::ServiceRun;
use cubeyard_serve::service::Sample;
use cubeyard_units::text::{percent, significant};

use super::table;
use crate::page::list;

/// Maximum number of requests in the chart of latencies.
const MOST_REQUESTS: usize = 2000;

/// Draws the latencies, the service over time, and the curve over the rates; an answer comes first.
pub(crate) fn page_of(found: &ServiceRun, answer: Option<&Answer>) -> String {
    let own = found.verdict();
    let verdict = answer.map_or_else(|| own.clone(), |it| format!("{own}\n{}", it.verdict));
    let name = &found.config.model.spec.name;
    let rates = if found.points.len() > 1 {
        section("Latency over rate", &curve(found).figure())
            + &section("Rates", &table::rates(found).html("Rates that were run"))
    } else {
        String::new()
    };
    let main = [
        header(&format!("{name} as a service"), &table::summary(found).join("; "), &verdict),
        summary(found),
        answer.map(|answer| answer.section.clone()).unwrap_or_default(),
        rates,
        section("Requests over time", &requests(found).figure()),
        section("KV cache over time", &blocks(found).figure()),
        section("First tokens over time", &first_tokens(found).figure()),
        section("Latencies", &table::latencies(&found.report).html("Milliseconds")),
        section(
            "Figures",
            &list(
                table::figures(found)
                    .iter()
                    .map(|(name, figure)| format!("{name}: {figure}"))
                    .collect::<Vec<_>>()
                    .iter()
                    .map(String::as_str),
            ),
        ),
    ];
    page(name, "", &main.concat(), "")
}

fn summary(found: &ServiceRun) -> String {
    let report = &found.report;
    let good = report
        .good_share()
        .map_or_else(String::new, |share| format!("{} within the limits", percent(share)));
    let ms = |value: f64| format!("{} ms", significant(value));
    tiles(
        &[
            tile("answered", &format!("{}/s", significant(report.request_throughput())), &good),
            tile("output tokens", &format!("{}/s", significant(report.output_throughput())), ""),
            tile("TTFT, p99", &ms(report.ttft.p99), &format!("median {}", ms(report.ttft.median))),
            tile("TPOT, mean", &ms(report.tpot.mean), &format!("p99 {}", ms(report.tpot.p99))),
            tile(
                "KV cache, at most",
                &percent(table::filled(report)),
                &format!("{} preemptions", report.preemptions),
            ),
        ]
        .concat(),
    )
}

/// Creates a chart over simulated time.
fn over_time(title: &str, up: Axis, positions: Vec<f64>, lines: Vec<Line>) -> Chart {
    let across = Axis::new("", Quantity::Microseconds, Spacing::Linear);
    Chart { lines, ..Chart::new(title.to_owned(), [across, up], positions) }
}

/// Returns the ends of all samples in microseconds, and the start of the first.
fn positions(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.start.ps() as f64 / 1e6).collect()
}

fn stepped(number: usize, name: &str, values: Vec<f64>) -> Line {
    Line { shape: Shape::Stepped, width: 1.5, ..Line::new(number, name.to_owned(), values) }
}

/// Draws the numbers of waiting requests and of sequences in batches.
fn requests(found: &ServiceRun) -> Chart {
    let samples = found.outcome.series.samples();
    let of = |value: fn(&Sample) -> u64| samples.iter().map(|it| value(it) as f64).collect();
    let lines = vec![
        stepped(0, "sequences of a batch", of(|it| it.running)),
        stepped(1, "waiting requests", of(|it| it.waiting)),
    ];
    let up = Axis::new("requests", Quantity::Count, Spacing::Linear);
    over_time("Requests over time", up, positions(samples), lines)
}

/// Draws the used blocks.
fn blocks(found: &ServiceRun) -> Chart {
    let samples = found.outcome.series.samples();
    let bytes = found.report.blocks.bytes_each as f64;
    let used = samples.iter().map(|it| it.blocks as f64 * bytes).collect();
    let all = vec![found.report.blocks.count as f64 * bytes; samples.len()];
    let used = Line { shape: Shape::Filled, ..stepped(2, "used", used) };
    let up = Axis::new("", Quantity::Bytes, Spacing::Linear);
    let lines = vec![used, stepped(7, "KV cache", all)];
    over_time("KV cache over time", up, positions(samples), lines)
}

/// Draws the time to first token of the requests, evenly chosen, over the time of their sending.
fn first_tokens(found: &ServiceRun) -> Chart {
    let served = &found.outcome.served;
    let every = served.len().div_ceil(MOST_REQUESTS).max(1);
    let mut points: Vec<_> = served
        .iter()
        .step_by(every)
        .map(|it| (it.sent.ps() as f64 / 1e6, (it.first - it.sent).ps() as f64 / 1e6))
        .collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points.dedup_by_key(|point| point.0);
    let (sent, times): (Vec<_>, Vec<_>) = points.into_iter().unzip();
    let line =
        Line { shape: Shape::Scattered, ..Line::new(0, "TTFT of a request".to_owned(), times) };
    let up = Axis::new("", Quantity::Microseconds, Spacing::Linear);
    over_time("Time to first token", up, sent, vec![line])
}

/// Draws latencies over the rates.
fn curve(found: &ServiceRun) -> Chart {
    let of = |value: fn(&cubeyard_serve::ServiceReport) -> f64| {
        found.points.iter().map(|point| value(&point.report) * 1e3).collect::<Vec<_>>()
    };
    let lines = vec![
        Line::new(0, "TTFT, p99".to_owned(), of(|it| it.ttft.p99)),
        Line::new(1, "TTFT, median".to_owned(), of(|it| it.ttft.median)),
        Line::new(2, "TPOT, p99".to_owned(), of(|it| it.tpot.p99)),
        Line::new(3, "TPOT, mean".to_owned(), of(|it| it.tpot.mean)),
    ];
    let across = Axis::new("requests a second", Quantity::Count, Spacing::Linear);
    let up = Axis::new("", Quantity::Microseconds, Spacing::Decimal);
    let positions = found.points.iter().map(|point| point.rate).collect();
    Chart { lines, ..Chart::new("Latency over rate".to_owned(), [across, up], positions) }
}

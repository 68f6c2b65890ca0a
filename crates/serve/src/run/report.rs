//! Report of a service as JSON, and its verdict.

use cubeyard_units::text::{percent, significant};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::{Rates, ServiceRun};
use crate::machine::StepCheck;
use crate::report::{Limits, ServiceReport, reason_text};

impl ServiceRun {
    /// Returns the largest relative error of interpolated times; `None` if none was compared.
    pub fn largest_error(&self) -> Option<f64> {
        self.checks
            .iter()
            .map(StepCheck::error)
            .max_by(|one, other| one.abs().total_cmp(&other.abs()))
    }

    /// Returns the mean latency of a request in milliseconds, divided into its time in the queue, to its first token, and
    /// to its last token.
    pub fn mean_parts(&self) -> [f64; 3] {
        let report = &self.report;
        let [queued, first] = [report.queued.mean, report.ttft.mean];
        [queued, first - queued, report.e2el.mean - first]
    }

    /// Returns the result in a few sentences.
    pub fn verdict(&self) -> String {
        let report = &self.report;
        if report.completed == 0 {
            return "No request can be served: the blocks of each exceed the KV cache.".to_owned();
        }
        [self.search_verdict(), Some(self.rate_verdict()), Some(waiting_verdict(report))]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn search_verdict(&self) -> Option<String> {
        let Rates::Highest(share) = self.config.rates else { return None };
        let within = format!(
            "{} of the requests are within {}",
            percent(share),
            limits_text(&self.config.limits)
        );
        Some(match self.highest? {
            [None, beyond] => {
                let lowest = significant(beyond.unwrap_or_default());
                format!("At no rate that was tried, down to {lowest} requests/s, {within}.")
            }
            [Some(best), None] => {
                let best = significant(best);
                format!("Up to {best} requests/s, the highest rate that was tried, {within}.")
            }
            [Some(best), Some(beyond)] => {
                let found = self.points.iter().find(|point| point.rate.total_cmp(&beyond).is_eq());
                let why = match found {
                    Some(point) if point.is_good(share) => {
                        "they arrive faster than they are answered"
                    }
                    _ => "fewer are",
                };
                let [best, beyond] = [best, beyond].map(significant);
                format!("Up to {best} requests/s {within}; at {beyond} {why}.")
            }
        })
    }

    fn rate_verdict(&self) -> String {
        let report = &self.report;
        let good = report.good_share().map_or_else(String::new, |share| {
            format!("; {} of the requests are within the limits", percent(share))
        });
        format!(
            "{} requests/s are answered with {} output tokens/s; 99 % of the first tokens come within {} ms, and the \
             mean of the times between tokens is {} ms{good}.",
            significant(report.request_throughput()),
            significant(report.output_throughput()),
            significant(report.ttft.p99),
            significant(report.tpot.mean)
        )
    }
}

fn waiting_verdict(report: &ServiceReport) -> String {
    let full = report.blocks.peak as f64 / report.blocks.count.max(1) as f64;
    let cache = format!("the KV cache is at most {} full", percent(full));
    match report.main_reason() {
        None => format!("No request waits, and {cache}."),
        Some((reason, share)) => {
            let wait = significant(report.queued.mean);
            let reason = reason_text(reason);
            format!(
                "A request waits {wait} ms in the mean, mostly ({}) because {reason}; {cache}.",
                percent(share)
            )
        }
    }
}

/// Returns the limits for people.
pub(super) fn limits_text(limits: &Limits) -> String {
    let limits = [("TTFT", limits.ttft_ms), ("TPOT", limits.tpot_ms), ("E2EL", limits.e2el_ms)];
    let text =
        |(name, limit): (&str, Option<f64>)| Some(format!("{name} ≤ {} ms", significant(limit?)));
    limits.into_iter().filter_map(text).collect::<Vec<_>>().join(", ")
}

impl Serialize for ServiceRun {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { config, cache, service, report, .. } = self;
        let mut all = serde_json::to_value(report).expect("a report has text keys");
        let points: Vec<_> = self
            .points
            .iter()
            .map(|point| {
                let mut row = serde_json::to_value(&point.report).expect("a report has text keys");
                row["rate"] = json!(point.rate);
                row
            })
            .collect();
        let errors = self.checks.iter().map(|check| check.error().abs());
        let model = &config.model;
        for (key, value) in [
            ("model", json!(model.spec.name)),
            ("parameters", json!(model.spec.parameters())),
            ("dtype", json!(model.dtype.name())),
            ("weights", json!(model.weights.name())),
            ("load", json!(config.source.describe())),
            ("rate", json!(self.load.rate())),
            ("scheduler", json!(config.scheduler)),
            ("step_overhead_ns", json!(service.step_overhead.ns())),
            ("max_concurrency", json!(service.max_concurrency)),
            ("limits", json!(config.limits)),
            (
                "memory_per_pe",
                json!({
                    "capacity_bytes": cache.capacity.get(),
                    "weights_bytes": cache.weights.get(),
                    "activations_bytes": cache.activations.get(),
                    "share": config.memory_share,
                }),
            ),
            (
                "step_times",
                json!({
                    "exact": config.is_exact,
                    "simulations": self.simulated,
                    "checked": self.checks.iter().map(checked).collect::<Vec<_>>(),
                    "largest_error": self.largest_error(),
                    "mean_error": (!self.checks.is_empty())
                        .then(|| errors.sum::<f64>() / self.checks.len() as f64),
                }),
            ),
            ("rates", json!(points)),
            ("highest_rate", json!(self.highest.and_then(|[best, _]| best))),
            ("lowest_rate_beyond", json!(self.highest.and_then(|[_, beyond]| beyond))),
            ("notes", json!(config.notes)),
            ("verdict", json!(self.verdict())),
        ] {
            all[key] = value;
        }
        all.serialize(to)
    }
}

/// Returns a compared batch as JSON.
fn checked(check: &StepCheck) -> serde_json::Value {
    let chunks = check.shape.chunks.iter().map(|it| json!([it.tokens, it.position]));
    json!({
        "decodes": check.shape.decodes,
        "mean_context": check.shape.mean_context(),
        "chunks": chunks.collect::<Vec<_>>(),
        "interpolated_ns": check.interpolated.ns(),
        "simulated_ns": check.simulated.ns(),
    })
}

//! Latencies, throughput and use of memory of a service.
//!
//! Names and definitions agree with vLLM's benchmark; docs/serving.md has them.

mod summary;

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::json;

use crate::load::Load;
use crate::scheduler::HeldBack;
use crate::service::{Outcome, Served, ServiceConfig};
pub use summary::{Latency, percentile};

/// Limits on the latencies of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    /// Limit of the time to first token, in milliseconds.
    pub ttft_ms: Option<f64>,
    /// Limit of the time per output token, in milliseconds.
    pub tpot_ms: Option<f64>,
    /// Limit of the end-to-end latency, in milliseconds.
    pub e2el_ms: Option<f64>,
}

impl Limits {
    /// Returns whether there is no limit.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Parses limits such as `ttft:500` and `tpot:30`, in milliseconds; the error says what was expected.
    pub fn parse<'a>(limits: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut all = Self::default();
        for text in limits {
            let expected = || {
                format!(
                    "`{text}`: expected ttft:MS, tpot:MS or e2el:MS with a positive number of milliseconds"
                )
            };
            let (name, limit) = text.split_once([':', '=']).ok_or_else(expected)?;
            let limit = limit.parse().ok().filter(|it: &f64| it.is_finite() && *it > 0.0);
            let slot = match name {
                "ttft" => &mut all.ttft_ms,
                "tpot" => &mut all.tpot_ms,
                "e2el" => &mut all.e2el_ms,
                _ => return Err(expected()),
            };
            *slot = Some(limit.ok_or_else(expected)?);
        }
        Ok(all)
    }

    /// Returns whether latencies are within the limits. A request of one output token has no time per output token, which
    /// counts as 0.
    fn allow(&self, [ttft, tpot, e2el]: [f64; 3]) -> bool {
        let limits = [(ttft, self.ttft_ms), (tpot, self.tpot_ms), (e2el, self.e2el_ms)];
        limits.into_iter().all(|(value, limit)| limit.is_none_or(|limit| value <= limit))
    }
}

/// Latencies of one answered request, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestLatency {
    /// Time from sending to the first token.
    pub ttft: f64,
    /// Mean time between tokens after the first; `None` if there is only one.
    pub tpot: Option<f64>,
    /// Time from sending to the last token.
    pub e2el: f64,
    /// Time from sending to the start of the first step of the request.
    pub queued: f64,
}

impl RequestLatency {
    /// Returns the latencies of a request with `output` tokens.
    pub fn new(served: &Served, output: u64) -> Self {
        let ms = |span: cubeyard_units::Span| span.ps() as f64 / 1e9;
        let after_first = ms(served.end - served.first);
        Self {
            ttft: ms(served.first - served.sent),
            tpot: (output > 1).then(|| after_first / (output - 1) as f64),
            e2el: ms(served.end - served.sent),
            queued: ms(served.started.since(served.sent)),
        }
    }
}

/// Report of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceReport {
    /// Time from the start to the end of the last step, in seconds.
    pub duration: f64,
    /// Number of answered requests.
    pub completed: u64,
    /// Number of requests that can never be served.
    pub rejected: u64,
    /// Number of answered requests within the limits; `None` without limits.
    pub good: Option<u64>,
    /// Prompt tokens of the answered requests.
    pub input_tokens: u64,
    /// Output tokens of the answered requests.
    pub output_tokens: u64,
    /// Prompt tokens found in the cache.
    pub found_tokens: u64,
    /// Time to first token.
    pub ttft: Latency,
    /// Time per output token of each request.
    pub tpot: Latency,
    /// Inter-token latency: time between two tokens, of all requests together.
    pub itl: Latency,
    /// End-to-end latency.
    pub e2el: Latency,
    /// Time from sending to the first step.
    pub queued: Latency,
    /// Number of steps.
    pub steps: u64,
    /// Mean number of tokens of a batch.
    pub mean_batch: f64,
    /// Share of the duration in which steps ran.
    pub busy: f64,
    /// Mean number of unanswered requests.
    pub mean_unanswered: f64,
    /// Number of times a request lost its blocks.
    pub preemptions: u64,
    /// Number of blocks, their maximum and mean number in use, and the bytes of a block.
    pub blocks: BlockUse,
    /// Share of the requests' waiting time by its reason.
    pub waited: [f64; 5],
}

/// Use of the blocks of the KV cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BlockUse {
    /// Number of blocks.
    pub count: u64,
    /// Maximum number of blocks in use.
    pub peak: u64,
    /// Mean number of blocks in use over time.
    pub mean: f64,
    /// Bytes of a block on all PEs together.
    pub bytes_each: u64,
    /// Bytes that the allocator has handed out.
    pub allocated_bytes: u64,
}

impl ServiceReport {
    /// Creates the report of a run. Requests within the limits count as good.
    pub fn new(outcome: &Outcome, load: &Load, config: &ServiceConfig, limits: &Limits) -> Self {
        let latencies: Vec<_> = latencies(outcome, load).collect();
        let of = |value: fn(&RequestLatency) -> Option<f64>| {
            Latency::of(latencies.iter().filter_map(value).collect())
        };
        let seconds = outcome.end.ps() as f64 / 1e12;
        let over_time = |integral: u128| integral as f64 / outcome.end.ps().max(1) as f64;
        let waited: u128 = outcome.waited.iter().sum();
        let good = |it: &&RequestLatency| limits.allow([it.ttft, it.tpot.unwrap_or(0.0), it.e2el]);
        Self {
            duration: seconds,
            completed: outcome.served.len() as u64,
            rejected: outcome.rejected.len() as u64,
            good: (!limits.is_empty()).then(|| latencies.iter().filter(good).count() as u64),
            input_tokens: outcome.tokens[0],
            output_tokens: outcome.tokens[1],
            found_tokens: outcome.served.iter().map(|served| served.found).sum(),
            ttft: of(|it| Some(it.ttft)),
            tpot: of(|it| it.tpot),
            itl: Latency::of(outcome.gaps.iter().map(|gap| gap.ps() as f64 / 1e9).collect()),
            e2el: of(|it| Some(it.e2el)),
            queued: of(|it| Some(it.queued)),
            steps: outcome.steps,
            mean_batch: outcome.computed as f64 / outcome.steps.max(1) as f64,
            busy: outcome.busy.ps() as f64 / outcome.end.ps().max(1) as f64,
            mean_unanswered: over_time(outcome.unanswered),
            preemptions: outcome.preemptions,
            blocks: BlockUse {
                count: config.blocks,
                peak: outcome.peak_blocks,
                mean: over_time(outcome.used_blocks),
                bytes_each: config.block_bytes.get(),
                allocated_bytes: outcome.allocated.get(),
            },
            waited: outcome.waited.map(|part| part as f64 / waited.max(1) as f64),
        }
    }

    /// Returns the answered requests a second.
    pub fn request_throughput(&self) -> f64 {
        self.a_second(self.completed)
    }

    /// Returns the good requests a second; `None` without limits.
    pub fn request_goodput(&self) -> Option<f64> {
        self.good.map(|good| self.a_second(good))
    }

    /// Returns the output tokens a second.
    pub fn output_throughput(&self) -> f64 {
        self.a_second(self.output_tokens)
    }

    /// Returns the share of the answered requests that are good; `None` without limits.
    pub fn good_share(&self) -> Option<f64> {
        self.good.map(|good| good as f64 / (self.completed + self.rejected).max(1) as f64)
    }

    /// Returns the share of prompt tokens found in the cache.
    pub fn found_share(&self) -> f64 {
        self.found_tokens as f64 / self.input_tokens.max(1) as f64
    }

    /// Returns the reason for most of the requests' waiting, with its share; `None` if none waited.
    pub fn main_reason(&self) -> Option<(HeldBack, f64)> {
        let reasons = HeldBack::ALL.into_iter().zip(self.waited);
        reasons.max_by(|one, other| one.1.total_cmp(&other.1)).filter(|(_, share)| *share > 0.0)
    }

    fn a_second(&self, count: u64) -> f64 {
        if self.duration > 0.0 { count as f64 / self.duration } else { 0.0 }
    }
}

/// Returns the latencies of all answered requests, in the order of their last tokens.
pub fn latencies<'a>(
    outcome: &'a Outcome,
    load: &'a Load,
) -> impl Iterator<Item = RequestLatency> + 'a {
    let latency =
        |served: &Served| RequestLatency::new(served, load.requests[served.request].output);
    outcome.served.iter().map(latency)
}

impl Serialize for ServiceReport {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut report = json!({
            "duration": self.duration,
            "completed": self.completed,
            "rejected": self.rejected,
            "good": self.good,
            "total_input_tokens": self.input_tokens,
            "total_output_tokens": self.output_tokens,
            "cached_input_tokens": self.found_tokens,
            "request_throughput": self.request_throughput(),
            "request_goodput": self.request_goodput(),
            "output_throughput": self.output_throughput(),
            "total_token_throughput": self.a_second(self.input_tokens + self.output_tokens),
            "steps": self.steps,
            "mean_batch_tokens": self.mean_batch,
            "busy_share": self.busy,
            "mean_unanswered": self.mean_unanswered,
            "preemptions": self.preemptions,
            "kv_blocks": self.blocks,
            "waited_by_reason": HeldBack::ALL.map(name_of).into_iter().zip(self.waited).collect::<BTreeMap<_, _>>(),
        });
        let latencies = [
            ("ttft", self.ttft),
            ("tpot", self.tpot),
            ("itl", self.itl),
            ("e2el", self.e2el),
            ("queue", self.queued),
        ];
        for (name, latency) in latencies {
            for (statistic, value) in latency.statistics() {
                report[format!("{statistic}_{name}_ms")] = json!(value);
            }
        }
        report.serialize(to)
    }
}

/// Returns the name of a reason in reports.
pub fn name_of(reason: HeldBack) -> &'static str {
    match reason {
        HeldBack::Step => "step",
        HeldBack::Sequences => "sequences",
        HeldBack::Tokens => "tokens",
        HeldBack::Memory => "memory",
        HeldBack::Preemption => "preemption",
    }
}

/// Returns a reason as a clause for people.
pub fn reason_text(reason: HeldBack) -> &'static str {
    match reason {
        HeldBack::Step => "a step is running when it arrives",
        HeldBack::Sequences => "batches have the maximum number of sequences",
        HeldBack::Tokens => "batches have the maximum number of tokens",
        HeldBack::Memory => "the KV cache has no room for its input",
        HeldBack::Preemption => "a request is preempted for lack of blocks",
    }
}

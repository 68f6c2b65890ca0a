//! Answered requests as CSV.

use std::fmt::Write as _;

use cubeyard_serve::report::RequestLatency;
use cubeyard_serve::run::ServiceRun;

const HEADING: &str = "request,arrival_s,prompt_tokens,output_tokens,cached_tokens,preemptions,queue_ms,ttft_ms,tpot_ms,e2el_ms";

/// Returns a row for each answered request, in the order of arrival. The columns for arrival and tokens are those that
/// `--trace` reads.
pub(super) fn requests(found: &ServiceRun) -> String {
    let mut served: Vec<_> = found.outcome.served.iter().collect();
    served.sort_by_key(|it| it.request);
    let mut text = format!("{HEADING}\n");
    for it in served {
        let request = &found.load.requests[it.request];
        let latency = RequestLatency::new(it, request.output);
        let tpot = latency.tpot.map_or_else(String::new, |tpot| format!("{tpot:.6}"));
        let sent = it.sent.ps() as f64 / 1e12;
        let RequestLatency { queued, ttft, e2el, .. } = latency;
        let (prompt, output) = (request.prompt, request.output);
        let _ = writeln!(
            text,
            "{},{sent:.6},{prompt},{output},{},{},{queued:.6},{ttft:.6},{tpot},{e2el:.6}",
            it.request, it.found, it.preemptions
        );
    }
    text
}

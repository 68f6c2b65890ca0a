//! Report of a replay: a record for each policy, with the holders of memory.

use std::collections::BTreeMap;
use std::path::Path;

use cubeyard_units::Bytes;
use serde::Serialize;

use super::{Answer, Grouping, Holder, MemoryUse, Report, Row, answer};
use crate::trace::Lag;

/// Default number of holders per moment.
const HOLDERS: usize = 10;

/// Selection of the holders to show.
#[derive(Clone, Copy, Debug, Default)]
pub struct HolderOptions {
    /// Number of holders to show; `None` for the default.
    pub count: Option<usize>,
    /// Property by which allocations are grouped.
    pub by: Grouping,
    /// Whether frames of C++ code count.
    pub native: bool,
}

/// Report of `cubeyard replay`: the result of one policy on one trace.
#[derive(Debug, Serialize)]
pub struct PolicyRecord<'a> {
    trace: &'a str,
    /// Memory that PyTorch needs, and the recommended setting; the same in every record of a trace.
    answer: AnswerRecord,
    /// File as it was given; null for the bundled trace.
    file: Option<String>,
    policy: &'a str,
    events: usize,
    peak_live_bytes: u64,
    peak_reserved_bytes: u64,
    /// Null if the policy failed or nothing was allocated.
    waste: Option<f64>,
    ns_per_op: Option<f64>,
    /// Description of the request that the policy could not serve; the other figures end there.
    failed: Option<String>,
    /// Whether the policy would have served the first request that failed when the snapshot was recorded;
    /// null if none failed, or if it cannot be determined.
    fits_where_memory_ran_out: Option<bool>,
    /// Program that made the snapshot, PyTorch or Cubeyard; null if the trace is not a snapshot.
    recorded_by: Option<String>,
    /// Bytes that the recorded allocator had reserved, if the snapshot has them.
    recorded_reserved_bytes: Option<u64>,
    /// Reason why the snapshot yields no advice; null if it yields advice, or if the trace is not a snapshot.
    doubt: Option<String>,
    /// Bytes that the policy held when the live bytes reached their peak.
    reserved_at_peak_bytes: u64,
    /// Least memory in which the policy serves the trace, and one step less, in which it does not; null unless the
    /// policy is one of PyTorch's or the best of the others.
    least_bytes: Option<u64>,
    least_fails_bytes: Option<u64>,
    /// Bytes that the policy held in the least memory; pages of expandable segments may exceed a limit.
    least_reserved_bytes: Option<u64>,
    /// Number of times that the cache was released in the least memory.
    least_retries: Option<u64>,
    /// Number of calls of `empty_cache()` that the recording shows, and the bytes that they returned.
    emptied_cache_calls: u32,
    emptied_cache_bytes: u64,
    /// Number of streams that requested memory.
    streams: usize,
    /// Number of launches by which each stream lags behind the host; null if work completes as recorded.
    lag_launches: Option<u64>,
    /// Number of times that the policy waited for work of a stream that was not complete.
    waits: u64,
    /// Memory at the peak of the live bytes; null if nothing was allocated.
    peak: Option<MomentRecord>,
    /// Memory at the first request that failed during recording; null if none did.
    out_of_memory: Option<MomentRecord>,
}

impl Report {
    /// Returns a record for each policy. `file` is the path of the trace as given.
    pub fn records(&self, file: Option<&Path>, options: HolderOptions) -> Vec<PolicyRecord<'_>> {
        let answer = answer(std::slice::from_ref(self));
        self.rows.iter().map(|row| self.record(file, row, &answer, options)).collect()
    }

    fn record<'a>(
        &'a self,
        file: Option<&Path>,
        row: &'a Row,
        answer: &Answer,
        options: HolderOptions,
    ) -> PolicyRecord<'a> {
        let moment =
            |found: &Option<_>| found.as_ref().map(|found| MomentRecord::new(found, options));
        let emptied = self.recording.as_ref().map(|it| it.emptied_cache).unwrap_or_default();
        PolicyRecord {
            trace: &self.trace,
            answer: AnswerRecord::new(answer.clone()),
            file: file.map(|file| file.to_string_lossy().into_owned()),
            policy: row.policy.name,
            events: row.outcome.events,
            peak_live_bytes: row.outcome.peak_live.get(),
            peak_reserved_bytes: row.outcome.peak_reserved.get(),
            waste: row.outcome.waste(),
            ns_per_op: row.ns_per_op,
            failed: row.outcome.failed.as_ref().map(ToString::to_string),
            fits_where_memory_ran_out: row.fits,
            recorded_by: self.recording.as_ref().map(|recording| recording.by.to_string()),
            recorded_reserved_bytes: self.recorded_reserved().map(Bytes::get),
            doubt: self.doubt().map(|doubt| doubt.to_string()),
            reserved_at_peak_bytes: row.outcome.reserved_at_peak.get(),
            least_bytes: row.least.map(|least| least.runs.get()),
            least_fails_bytes: row.least.map(|least| least.fails.get()),
            least_reserved_bytes: row.least.map(|least| least.reserved.get()),
            least_retries: row.least.map(|least| least.retries),
            emptied_cache_calls: emptied.calls,
            emptied_cache_bytes: emptied.bytes.get(),
            streams: self.streams,
            lag_launches: match self.lag {
                Lag::Recorded => None,
                Lag::Launches(lag) => Some(lag),
            },
            waits: row.outcome.waits,
            peak: moment(&self.peak),
            out_of_memory: moment(&self.at_failure),
        }
    }
}

/// Answer in bytes.
#[derive(Debug, Serialize)]
struct AnswerRecord {
    text: String,
    setting: Option<String>,
    needs_bytes: Option<u64>,
    needs_with_setting_bytes: Option<u64>,
}

impl AnswerRecord {
    fn new(answer: Answer) -> Self {
        Self {
            text: answer.text,
            setting: answer.setting,
            needs_bytes: answer.needs.map(Bytes::get),
            needs_with_setting_bytes: answer.needs_with_setting.map(Bytes::get),
        }
    }
}

/// Memory at one moment of a trace.
#[derive(Debug, Serialize)]
struct MomentRecord {
    /// Number of events before the moment.
    events: usize,
    time_us: u64,
    live_bytes: u64,
    /// Live bytes as requested, without rounding.
    requested_bytes: u64,
    blocks: u64,
    /// Live bytes of each stream.
    stream_bytes: BTreeMap<u32, u64>,
    /// Size of the request that failed at this moment; null if none did.
    failed_bytes: Option<u64>,
    cache: CacheRecord,
    /// Property by which allocations are grouped.
    by: String,
    /// Holders with the most bytes, in descending order.
    holders: Vec<HolderRecord>,
}

/// Memory that PyTorch's allocator holds, according to its model.
#[derive(Debug, Serialize)]
struct CacheRecord {
    policy: &'static str,
    reserved_bytes: u64,
    allocated_bytes: u64,
    cached_bytes: u64,
    gap_bytes: u64,
    longest_gap_bytes: u64,
    retries: u64,
    /// Holders of the blocks beside gaps, with the bytes of the gaps.
    beside_gaps: Vec<HolderRecord>,
}

#[derive(Debug, Serialize)]
struct HolderRecord {
    name: String,
    /// Frames of the call stack with the most bytes, outermost first.
    stack: Vec<String>,
    bytes: u64,
    requested_bytes: u64,
    blocks: u64,
    largest_bytes: u64,
    /// Age of the oldest block, in events and in microseconds.
    oldest_age_events: u64,
    oldest_age_us: u64,
    youngest_age_events: u64,
    youngest_age_us: u64,
}

impl MomentRecord {
    fn new(found: &MemoryUse, options: HolderOptions) -> Self {
        let HolderOptions { by, native, .. } = options;
        let by = if found.has_frames() { by } else { Grouping::Size };
        let most = options.count.unwrap_or(HOLDERS);
        let (held, cache) = (&found.held, &found.cache);
        let records = |holders: Vec<Holder>| {
            holders.into_iter().take(most).map(|it| HolderRecord::new(it, found)).collect()
        };
        Self {
            events: held.moment.events,
            time_us: held.moment.time_us,
            live_bytes: held.live.get(),
            requested_bytes: held.requested.get(),
            blocks: held.blocks,
            stream_bytes: held.streams().into_iter().map(|(it, size)| (it, size.get())).collect(),
            failed_bytes: found.failure.map(|failure| failure.size.get()),
            cache: CacheRecord {
                policy: cache.policy,
                reserved_bytes: cache.reserved.get(),
                allocated_bytes: cache.allocated.get(),
                cached_bytes: cache.cached.get(),
                gap_bytes: cache.gaps.get(),
                longest_gap_bytes: cache.longest_gap.get(),
                retries: cache.retries,
                beside_gaps: records(found.beside_gaps(by, native)),
            },
            by: by.to_string(),
            holders: records(found.holders(by, native)),
        }
    }
}

impl HolderRecord {
    fn new(holder: Holder, found: &MemoryUse) -> Self {
        let now = found.held.moment;
        let events = |then: usize| now.events.saturating_sub(then) as u64;
        let micros = |then: u64| now.time_us.saturating_sub(then);
        Self {
            bytes: holder.bytes.get(),
            requested_bytes: holder.requested.get(),
            blocks: holder.blocks,
            largest_bytes: holder.largest.get(),
            oldest_age_events: events(holder.oldest.events),
            oldest_age_us: micros(holder.oldest.time_us),
            youngest_age_events: events(holder.youngest.events),
            youngest_age_us: micros(holder.youngest.time_us),
            name: holder.name,
            stack: holder.stack,
        }
    }
}

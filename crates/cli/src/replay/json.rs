//! Reports on replays as JSON.

use std::borrow::Borrow;

use anyhow::Result;
use cubeyard_memory::Bytes;
use cubeyard_replay::{Report, Row};
use serde::Serialize;

use super::holders::{HolderOptions, MomentRecord};
use crate::input::Input;
use crate::record::Stamped;

/// Result of one policy on one trace.
#[derive(Debug, Serialize)]
struct Record<'a> {
    trace: &'a str,
    /// File as it was given; null for the bundled trace.
    file: Option<String>,
    policy: &'a str,
    events: usize,
    peak_live_bytes: u64,
    peak_reserved_bytes: u64,
    /// Null if the policy failed or nothing was allocated.
    waste: Option<f64>,
    ns_per_op: Option<f64>,
    /// Report of a policy that could not serve the trace; its other figures end there.
    failed: Option<String>,
    /// Whether the policy would have served the first request that failed when the snapshot was recorded;
    /// null if none failed, or if it cannot be determined.
    fits_where_memory_ran_out: Option<bool>,
    /// Program that made the snapshot, PyTorch or Cubeyard; null if the trace is no snapshot.
    recorded_by: Option<String>,
    /// Bytes that the recorded allocator had reserved, if the snapshot has them.
    recorded_reserved_bytes: Option<u64>,
    /// Reason for which the snapshot gives no advice; null if it does, or if the trace is no snapshot.
    doubt: Option<String>,
    /// Bytes that the policy held when the live bytes reached their peak.
    reserved_at_peak_bytes: u64,
    /// Least memory in which the policy serves the trace, and one step less, in which it does not; null unless the
    /// policy is one of PyTorch's or the best of the others.
    least_bytes: Option<u64>,
    least_fails_bytes: Option<u64>,
    /// Bytes that it held in the least memory; pages of expandable segments may exceed a limit.
    least_reserved_bytes: Option<u64>,
    /// Number of times that the cache was given back in the least memory.
    least_retries: Option<u64>,
    /// Memory at the peak of the live bytes; null if nothing was allocated.
    peak: Option<MomentRecord>,
    /// Memory when the first request failed that failed during recording; null if none did.
    out_of_memory: Option<MomentRecord>,
}

/// Renders the reports on traces as JSON: an array with an object for each trace and policy.
pub fn render<I: Borrow<Input>>(
    inputs: &[I],
    reports: &[Report],
    options: HolderOptions,
) -> Result<String> {
    let records: Vec<_> = records(inputs, reports, options).collect();
    Ok(serde_json::to_string_pretty(&records)? + "\n")
}

/// Renders the same with the version of the program in each object.
pub(super) fn versioned(
    inputs: &[Input],
    reports: &[Report],
    options: HolderOptions,
) -> Result<String> {
    let records: Vec<_> = records(inputs, reports, options).map(Stamped::version_alone).collect();
    Ok(serde_json::to_string_pretty(&records)? + "\n")
}

fn records<'a, I: Borrow<Input>>(
    inputs: &'a [I],
    reports: &'a [Report],
    options: HolderOptions,
) -> impl Iterator<Item = Record<'a>> {
    let pairs = inputs.iter().map(Borrow::borrow).zip(reports);
    pairs.flat_map(move |(input, report)| {
        report.rows.iter().map(move |row| record(input, report, row, options))
    })
}

fn record<'a>(
    input: &Input,
    report: &'a Report,
    row: &'a Row,
    options: HolderOptions,
) -> Record<'a> {
    let moment = |found: &Option<_>| found.as_ref().map(|found| MomentRecord::new(found, options));
    Record {
        trace: &report.trace,
        file: input.file.as_ref().map(|file| file.to_string_lossy().into_owned()),
        policy: row.policy.name,
        events: row.outcome.events,
        peak_live_bytes: row.outcome.peak_live.get(),
        peak_reserved_bytes: row.outcome.peak_reserved.get(),
        waste: row.outcome.waste(),
        ns_per_op: row.ns_per_op,
        failed: row.outcome.failed.as_ref().map(ToString::to_string),
        fits_where_memory_ran_out: row.fits,
        recorded_by: report.recording.as_ref().map(|recording| recording.by.to_string()),
        recorded_reserved_bytes: report.recorded_reserved().map(Bytes::get),
        doubt: report.doubt().map(|doubt| doubt.to_string()),
        reserved_at_peak_bytes: row.outcome.reserved_at_peak.get(),
        least_bytes: row.least.map(|least| least.runs.get()),
        least_fails_bytes: row.least.map(|least| least.fails.get()),
        least_reserved_bytes: row.least.map(|least| least.reserved.get()),
        least_retries: row.least.map(|least| least.retries),
        peak: moment(&report.peak),
        out_of_memory: moment(&report.at_failure),
    }
}

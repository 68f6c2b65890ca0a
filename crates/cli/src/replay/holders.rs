//! Holders of memory as text and as JSON.

use std::collections::BTreeMap;

use cubeyard_memory::Bytes;
use cubeyard_replay::{Grouping, HOLDER_COLUMNS, Holder, MemoryUse, Report};
use cubeyard_units::text::whole_percent;
use serde::Serialize;

use crate::grid::{BOLD, DIM, paint};

/// Number of holders in a table, if the recording has call stacks.
const IN_TABLE: usize = 5;
/// Number of holders in JSON.
const IN_JSON: usize = 10;
/// Width of a terminal.
const COLUMNS: usize = 80;

/// Selection of the holders to show.
#[derive(Clone, Copy, Debug, Default)]
pub struct HolderOptions {
    /// Number of holders, if one was given.
    pub count: Option<usize>,
    /// Property by which they are added up.
    pub by: Grouping,
    /// Whether frames of C++ code count.
    pub native: bool,
}

/// Formats the holders of the memory at the peak, and when memory ran out.
pub(super) fn render(report: &Report, options: HolderOptions, colours: bool) -> String {
    let moments = [&report.peak, &report.at_failure].into_iter().flatten();
    moments.map(|found| moment(found, options, colours)).collect::<Vec<_>>().concat()
}

fn moment(found: &MemoryUse, options: HolderOptions, colours: bool) -> String {
    let default = if found.has_frames() { IN_TABLE } else { 0 };
    let most = options.count.unwrap_or(default);
    if most == 0 {
        return String::new();
    }
    let mut text = format!("  {}\n", paint(&found.heading(), BOLD, colours));
    text.extend(found.request(options.native).map(|request| format!("  {request}\n")));
    text += &table(found, options.by, most, options.native, colours);
    text += &streams(found);
    text += &parts(found, options.native);
    text + "\n"
}

/// Formats the first `most` holders, and the sum of the others.
fn table(found: &MemoryUse, by: Grouping, most: usize, native: bool, colours: bool) -> String {
    let holders = found.holders(by, native);
    let (shown, others) = holders.split_at(most.min(holders.len()));
    let mut rows: Vec<_> = shown.iter().map(|holder| found.cells(holder)).collect();
    if !others.is_empty() {
        rows.push(rest(found, others));
    }
    let by_size = by == Grouping::Size || !found.has_frames();
    let last = if by_size { "size of each" } else { HOLDER_COLUMNS[5] };
    let [bytes, share, blocks, largest, age, _] = HOLDER_COLUMNS;
    let heading = [bytes, share, blocks, largest, age, last];
    let lines = align(&heading.map(str::to_owned), &rows);
    let mut lines = lines.into_iter();
    let heading = lines.next().map(|line| paint(&line, DIM, colours));
    heading.into_iter().chain(lines).map(|line| line + "\n").collect()
}

fn rest(found: &MemoryUse, others: &[Holder]) -> [String; 6] {
    let bytes: u64 = others.iter().map(|holder| holder.bytes.get()).fold(0, u64::saturating_add);
    let blocks: u64 = others.iter().map(|holder| holder.blocks).sum();
    let share = bytes as f64 / found.held.live.get().max(1) as f64;
    let noun = if others.len() == 1 { "other" } else { "others" };
    let name = format!("{} {noun}; see --holders N", others.len());
    let none = String::new;
    let [bytes, blocks] = [Bytes::new(bytes).to_string(), blocks.to_string()];
    [bytes, whole_percent(share), blocks, none(), none(), name]
}

/// Aligns the numbers to the right, and shortens the last column to the width of a terminal.
fn align(heading: &[String; 6], rows: &[[String; 6]]) -> Vec<String> {
    let all = || [heading].into_iter().chain(rows);
    let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let left = COLUMNS.saturating_sub(2 + widths.iter().map(|width| width + 2).sum::<usize>());
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}  "));
        format!("  {}{}", cells.collect::<Vec<_>>().concat(), cut(&row[5], left))
            .trim_end()
            .to_owned()
    };
    all().map(line).collect()
}

/// Replaces the end of a text of more than `longest` characters by an ellipsis.
fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some(_) => text.chars().take(longest.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Formats the bytes of each stream, if there are several.
fn streams(found: &MemoryUse) -> String {
    let streams = found.held.streams();
    if streams.len() < 2 {
        return String::new();
    }
    let each = streams.iter().map(|(stream, bytes)| format!("stream {stream} {bytes}"));
    format!("  of it {}\n", each.collect::<Vec<_>>().join(", "))
}

/// Formats the parts of the memory that PyTorch's allocator holds.
fn parts(found: &MemoryUse, native: bool) -> String {
    let parts = found.parts(native);
    let names = parts.iter().map(|part| part.name.chars().count()).max().unwrap_or(0);
    let sizes = parts.iter().map(|part| part.bytes.to_string().len()).max().unwrap_or(0);
    let left = COLUMNS.saturating_sub(names + sizes + 12);
    let line = |(place, part): (usize, &cubeyard_replay::UseLine)| {
        let (indent, name) = if place == 0 { ("  ", names + 2) } else { ("    ", names) };
        let (bytes, remark) = (part.bytes.to_string(), cut(&part.remark, left));
        format!("{indent}{:<name$}  {bytes:>sizes$}  {remark}", part.name).trim_end().to_owned()
            + "\n"
    };
    parts.iter().enumerate().map(line).collect()
}

/// Memory at one moment of a trace.
#[derive(Debug, Serialize)]
pub(super) struct MomentRecord {
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
    /// Property by which the holders are added up.
    by: String,
    /// The holders of most bytes, in that order.
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
    /// Frames of the call stack with most bytes, outermost first.
    stack: Vec<String>,
    bytes: u64,
    requested_bytes: u64,
    blocks: u64,
    largest_bytes: u64,
    /// Age of its oldest block, in events and in microseconds.
    oldest_age_events: u64,
    oldest_age_us: u64,
    youngest_age_events: u64,
    youngest_age_us: u64,
}

impl MomentRecord {
    pub(super) fn new(found: &MemoryUse, options: HolderOptions) -> Self {
        let HolderOptions { by, native, .. } = options;
        let by = if found.has_frames() { by } else { Grouping::Size };
        let most = options.count.unwrap_or(IN_JSON);
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

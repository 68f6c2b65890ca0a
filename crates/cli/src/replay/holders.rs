//! Holders of memory as text.

use cubeyard_memory::Bytes;
use cubeyard_replay::{Grouping, HOLDER_COLUMNS, Holder, HolderOptions, MemoryUse, Report};
use cubeyard_units::text::whole_percent;

use crate::grid::{BOLD, DIM, paint};

/// Number of holders that are listed by default, if the recording has call stacks.
const IN_TABLE: usize = 5;
/// Width of a terminal, in columns.
const COLUMNS: usize = 80;

/// Formats the holders of memory at the peak, and when memory ran out.
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

/// Truncates a text to `longest` characters, with an ellipsis at the end.
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

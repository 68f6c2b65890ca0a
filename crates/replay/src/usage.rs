//! Use of memory at one moment: the holders of the live bytes, and the unused bytes beside them.

use std::sync::Arc;

use super::held::{Held, Moment};
use super::holders::{Grouping, Holder, holders, name_of};
use super::{CacheUse, doubt, timeline};
use crate::trace::{CallStacks, OutOfMemory, Trace};
use cubeyard_units::text::{count, whole_percent};
use cubeyard_units::{Bytes, Span};

/// Use of memory at one moment of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Allocations that are live at the moment.
    pub held: Held,
    /// Memory that PyTorch's allocator holds, according to its model.
    pub cache: CacheUse,
    /// Request that failed at this moment.
    pub failure: Option<OutOfMemory>,
    /// Number of events of the whole trace.
    pub total_events: usize,
    /// Whether the times were measured.
    pub is_timed: bool,
    /// Call stacks of the call sites.
    pub stacks: Arc<CallStacks>,
}

/// Headings of the columns of [`MemoryUse::cells`]. All but the last are numbers.
pub const HOLDER_COLUMNS: [&str; 6] =
    ["bytes", "share", "blocks", "largest", "age", "allocated by"];

/// Part of the memory that an allocator holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseLine {
    /// Name of the part.
    pub name: String,
    /// Size of the part.
    pub bytes: Bytes,
    /// Explanation of the part; may be empty.
    pub remark: String,
}

impl MemoryUse {
    /// Returns the use of memory at the peak of the live bytes; `None` if nothing was allocated.
    pub fn at_peak(trace: &Trace) -> Option<Self> {
        let moment = Moment::of_peak(trace);
        let capacity = trace.recording.as_ref().and_then(doubt::capacity);
        (moment.events > 0).then(|| Self::at(trace, moment, capacity, None))
    }

    /// Returns the use of memory at the first request that failed during recording.
    pub fn at_failure(trace: &Trace) -> Option<Self> {
        let (moment, failure) = Moment::of_failure(trace)?;
        let capacity = trace.recording.as_ref().and_then(doubt::capacity);
        Some(Self::at(trace, moment, capacity, Some(failure)))
    }

    fn at(
        trace: &Trace,
        moment: Moment,
        capacity: Option<Bytes>,
        failure: Option<OutOfMemory>,
    ) -> Self {
        Self {
            held: Held::at(trace, moment),
            cache: CacheUse::at(trace, moment, capacity),
            failure,
            total_events: trace.events.len(),
            is_timed: timeline::is_timed(trace),
            stacks: Arc::clone(&trace.stacks),
        }
    }

    /// Returns whether allocations have call stacks.
    pub fn has_frames(&self) -> bool {
        !self.stacks.is_empty()
    }

    /// Returns the holders of the live bytes, sorted by bytes in descending order.
    pub fn holders(&self, by: Grouping, native: bool) -> Vec<Holder> {
        holders(&self.held.groups, &self.stacks, by, native)
    }

    /// Returns the holders of the blocks beside gaps, with the bytes of the gaps.
    pub fn beside_gaps(&self, by: Grouping, native: bool) -> Vec<Holder> {
        holders(&self.cache.beside_gaps, &self.stacks, by, native)
    }

    /// Formats the heading of the table of holders.
    pub fn heading(&self) -> String {
        let Held { live, blocks, moment, .. } = &self.held;
        let when = match self.failure {
            Some(_) => "when memory ran out",
            None => "at the peak",
        };
        let noun = if *blocks == 1 { "block" } else { "blocks" };
        let (event, total) = (count(moment.events as u64), count(self.total_events as u64));
        format!("held {when}: {live} in {} {noun}, event {event} of {total}", count(*blocks))
    }

    /// Formats the failed request, if there is one.
    pub fn request(&self, native: bool) -> Option<String> {
        let failure = self.failure?;
        let by = if self.has_frames() {
            format!(" by {}", name_of(failure.site, &self.stacks, native))
        } else {
            String::new()
        };
        let had = failure.capacity.map(|capacity| format!(", of {capacity} in all"));
        Some(format!("{} were asked for{by}{}", failure.size, had.unwrap_or_default()))
    }

    /// Formats a holder for the columns of [`HOLDER_COLUMNS`].
    pub fn cells(&self, holder: &Holder) -> [String; 6] {
        let share = holder.bytes.get() as f64 / self.held.live.get().max(1) as f64;
        [
            holder.bytes.to_string(),
            whole_percent(share),
            count(holder.blocks),
            holder.largest.to_string(),
            self.age(holder.oldest),
            holder.name.clone(),
        ]
    }

    /// Formats the age of an allocation: the time since then, or the number of events.
    pub fn age(&self, allocated: Moment) -> String {
        let now = self.held.moment;
        if self.is_timed {
            return micros(now.time_us.saturating_sub(allocated.time_us));
        }
        count(now.events.saturating_sub(allocated.events) as u64)
    }

    /// Returns the parts of the memory that PyTorch's allocator holds at this moment.
    pub fn parts(&self, native: bool) -> [UseLine; 5] {
        let CacheUse { reserved, allocated, cached, gaps, longest_gap, .. } = self.cache;
        let part = |name: &str, bytes, remark: &str| UseLine {
            name: name.to_owned(),
            bytes,
            remark: remark.to_owned(),
        };
        let rounding = allocated.saturating_sub(self.held.requested);
        let beside = self.beside_gaps(Grouping::Frame, native).into_iter().next();
        let beside = beside.map_or_else(String::new, |holder| {
            let kind = if self.has_frames() { "" } else { "blocks of " };
            format!("longest {longest_gap}; most beside {kind}{}", holder.name)
        });
        [
            part(&format!("{} holds", self.cache.policy), reserved, ""),
            part("requested", self.held.requested, ""),
            part("rounding", rounding, ""),
            part("cached", cached, "unused, given back when memory runs out"),
            part("gaps", gaps, &beside),
        ]
    }
}

/// Formats a number of microseconds in a suitable unit.
fn micros(micros: u64) -> String {
    cubeyard_units::text::span(Span::from_ps(micros.saturating_mul(1_000_000)))
}

//! Holders of memory: live allocations grouped by frame, by call stack or by size.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::held::{HeldGroup, Moment, plus};
use crate::trace::{CallStacks, Frame};
use cubeyard_units::Bytes;

/// Name of the holder of allocations without a Python frame.
pub(super) const NO_FRAME: &str = "(no Python frame)";
/// Name of the holder of allocations whose origin is not recorded.
const NOT_RECORDED: &str = "(not recorded)";

/// Property by which allocations are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// User frame: the innermost frame outside installed packages.
    #[default]
    Frame,
    /// The whole call stack.
    Stack,
    /// The requested size.
    Size,
}

impl FromStr for Grouping {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "frame" => Ok(Self::Frame),
            "stack" => Ok(Self::Stack),
            "size" => Ok(Self::Size),
            _ => Err(format!("`{name}` is no grouping: expected frame, stack or size")),
        }
    }
}

impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Frame => "frame",
            Self::Stack => "stack",
            Self::Size => "size",
        })
    }
}

/// Allocations of one holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// User frame, innermost frame of the stack with the user frame, or size of the allocations.
    pub name: String,
    /// Frames of the call stack with the most bytes of this holder, outermost first, with the paths of their files.
    pub stack: Vec<String>,
    /// Bytes held, with rounding.
    pub bytes: Bytes,
    /// Bytes held, as requested, without rounding.
    pub requested: Bytes,
    /// Number of live allocations of the holder.
    pub blocks: u64,
    /// Largest requested size of an allocation.
    pub largest: Bytes,
    /// Allocation of the oldest block: the number of events before it, and its time.
    pub oldest: Moment,
    /// Allocation of the youngest block.
    pub youngest: Moment,
}

/// Key by which groups are merged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HolderKey {
    Frame(Option<String>),
    Stack(u32),
    Size(Bytes),
}

/// Merges groups of allocations into holders, sorted by bytes in descending order, then by name.
///
/// Without call stacks, allocations are grouped by size. Frames of compiled code count only if `native` is set.
pub fn holders(
    groups: &[HeldGroup],
    stacks: &CallStacks,
    by: Grouping,
    native: bool,
) -> Vec<Holder> {
    let by = if stacks.is_empty() { Grouping::Size } else { by };
    let mut found: BTreeMap<HolderKey, Vec<&HeldGroup>> = BTreeMap::new();
    for group in groups {
        found.entry(key(group, stacks, by, native)).or_default().push(group);
    }
    let named = found.iter().map(|(key, groups)| holder(key, groups, stacks, native));
    let mut holders: Vec<_> = named.collect();
    holders.sort_by(|left, right| {
        right.bytes.cmp(&left.bytes).then_with(|| left.name.cmp(&right.name))
    });
    holders
}

fn key(group: &HeldGroup, stacks: &CallStacks, by: Grouping, native: bool) -> HolderKey {
    match by {
        Grouping::Frame => {
            HolderKey::Frame(stacks.user_frame(group.site, native).map(|frame| frame.long()))
        }
        Grouping::Stack => HolderKey::Stack(group.site),
        Grouping::Size => HolderKey::Size(group.size),
    }
}

fn holder(key: &HolderKey, groups: &[&HeldGroup], stacks: &CallStacks, native: bool) -> Holder {
    let first = groups[0];
    let largest = groups.iter().max_by_key(|group| (group.bytes, group.site));
    let site = largest.map_or(0, |group| group.site);
    let name = match key {
        HolderKey::Size(each) => each.to_string(),
        HolderKey::Frame(_) => name_of(site, stacks, native),
        HolderKey::Stack(site) => stack_name(*site, stacks, native),
    };
    Holder {
        name,
        stack: outermost_first(site, stacks, native).map(|frame| frame.long()).collect(),
        bytes: groups.iter().map(|group| group.bytes).fold(Bytes::ZERO, plus),
        requested: groups.iter().map(|group| requested(group)).fold(Bytes::ZERO, plus),
        blocks: groups.iter().map(|group| group.blocks).sum(),
        largest: groups.iter().map(|group| group.size).max().unwrap_or_default(),
        oldest: groups.iter().fold(first.oldest, |found, group| found.min_by_event(group.oldest)),
        youngest: groups
            .iter()
            .fold(first.youngest, |found, group| found.max_by_event(group.youngest)),
    }
}

fn requested(group: &HeldGroup) -> Bytes {
    Bytes::new(group.size.get().saturating_mul(group.blocks))
}

/// Returns the name of a call site: its user frame.
pub(super) fn name_of(site: u32, stacks: &CallStacks, native: bool) -> String {
    match stacks.user_frame(site, native) {
        Some(frame) => frame.short(),
        None if site == 0 && stacks.is_empty() => NOT_RECORDED.to_owned(),
        None => NO_FRAME.to_owned(),
    }
}

/// Returns the name of a call stack: its innermost frame, and the user frame if that is a different one.
fn stack_name(site: u32, stacks: &CallStacks, native: bool) -> String {
    let user = name_of(site, stacks, native);
    let innermost = stacks.frames(site).find(|frame| native || !frame.is_native());
    match innermost.map(|frame| frame.short()).filter(|short| *short != user) {
        Some(short) => format!("{short} < {user}"),
        None => user,
    }
}

/// Returns the frames of a call site, outermost first.
pub(super) fn outermost_first(
    site: u32,
    stacks: &CallStacks,
    native: bool,
) -> impl Iterator<Item = Frame<'_>> {
    stacks.frames(site).rev().filter(move |frame| native || !frame.is_native())
}

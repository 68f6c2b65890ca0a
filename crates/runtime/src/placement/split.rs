//! What a level does with a tensor, and the arithmetic of parts.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use cubeyard_device::input::nearest;

use thiserror::Error;

/// What a level does with the part of a tensor that it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Split {
    /// Each has a copy.
    #[default]
    Replicate,
    /// Each has some of the rows; ADR-0011 calls it `shard_m`.
    RowWise,
    /// Each has some of the columns.
    ColumnWise,
}

/// There is no way to split of that name. Choose one that is there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected one of {}; found `{found}`; the nearest is `{nearest}`", Split::names().join(", "))]
pub struct NoSuchSplit {
    /// The name given, or the beginning of it.
    pub found: String,
    /// The most similar name.
    pub nearest: &'static str,
}

impl Split {
    /// All ways.
    pub const ALL: [Self; 3] = [Self::Replicate, Self::RowWise, Self::ColumnWise];

    /// What files and options call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replicate => "replicate",
            Self::RowWise => "row_wise",
            Self::ColumnWise => "column_wise",
        }
    }

    /// All names.
    pub fn names() -> [&'static str; 3] {
        Self::ALL.map(Self::name)
    }

    /// How many different parts `count` places make.
    pub(super) fn parts(self, count: usize) -> usize {
        if self == Self::Replicate { 1 } else { count }
    }

    /// The part of `whole` that is number `index` of `count`.
    pub(super) fn part(self, whole: &Part, index: usize, count: usize) -> Part {
        let (index, count) = (index as u64, count as u64);
        let Part { rows, columns } = whole.clone();
        match self {
            Self::Replicate => Part { rows, columns },
            Self::RowWise => Part { rows: portion(&rows, index, count), columns },
            Self::ColumnWise => Part { rows, columns: portion(&columns, index, count) },
        }
    }
}

/// A rectangle of a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) rows: Range<u64>,
    pub(super) columns: Range<u64>,
}

impl Part {
    pub(super) fn elements(&self) -> u64 {
        (self.rows.end - self.rows.start) * (self.columns.end - self.columns.start)
    }
}

/// Portion `index` of `count` of a range: all are equal, but the first have one more where it does not go up.
pub(super) fn portion(whole: &Range<u64>, index: u64, count: u64) -> Range<u64> {
    let length = whole.end - whole.start;
    let (each, more) = (length / count, length % count);
    // No more than the length, so it cannot overflow.
    let start = |index: u64| whole.start + each * index + index.min(more);
    start(index)..start(index + 1)
}

impl FromStr for Split {
    type Err = NoSuchSplit;

    fn from_str(name: &str) -> Result<Self, NoSuchSplit> {
        Self::ALL.into_iter().find(|split| split.name() == name).ok_or_else(|| NoSuchSplit {
            found: name.chars().take(80).flat_map(char::escape_debug).collect(),
            nearest: nearest(name, Self::names().into_iter()).expect("there are names"),
        })
    }
}

/// Its [`name`](Split::name).
impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

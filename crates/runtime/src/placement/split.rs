//! Splits of a tensor at one level.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use cubeyard_yaml::NoSuchName;

/// Distribution of a part of a tensor over the members of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Split {
    /// Each member has a copy.
    #[default]
    Replicate,
    /// Each member has some of the rows: `shard_m` of ADR-0011.
    RowWise,
    /// Each member has some of the columns.
    ColumnWise,
}

impl Split {
    /// All splits, the default first.
    pub const ALL: [Self; 3] = [Self::Replicate, Self::RowWise, Self::ColumnWise];

    /// Returns the name used in files and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replicate => "replicate",
            Self::RowWise => "row_wise",
            Self::ColumnWise => "column_wise",
        }
    }

    /// Returns the number of distinct parts among `count` members.
    pub(super) fn parts(self, count: usize) -> usize {
        if self == Self::Replicate { 1 } else { count }
    }

    pub(super) fn part(self, whole: &Rectangle, index: usize, count: usize) -> Rectangle {
        let (index, count) = (index as u64, count as u64);
        let Rectangle { rows, columns } = whole.clone();
        match self {
            Self::Replicate => Rectangle { rows, columns },
            Self::RowWise => Rectangle { rows: portion(&rows, index, count), columns },
            Self::ColumnWise => Rectangle { rows, columns: portion(&columns, index, count) },
        }
    }
}

/// Rectangle of a tensor's matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rectangle {
    pub(super) rows: Range<u64>,
    pub(super) columns: Range<u64>,
}

impl Rectangle {
    pub(super) fn elements(&self) -> u64 {
        (self.rows.end - self.rows.start) * (self.columns.end - self.columns.start)
    }
}

/// Returns portion `index` of `count` of a range. If the range is not divisible, the first portions have one more
/// element.
pub(super) fn portion(whole: &Range<u64>, index: u64, count: u64) -> Range<u64> {
    let length = whole.end - whole.start;
    let (each, more) = (length / count, length % count);
    // At most the length, so it cannot overflow.
    let start = |index: u64| whole.start + each * index + index.min(more);
    start(index)..start(index + 1)
}

impl FromStr for Split {
    type Err = NoSuchName;

    fn from_str(name: &str) -> Result<Self, NoSuchName> {
        NoSuchName::find(name, &Self::ALL, Self::name)
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

//! Parts of a tensor by PE.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use cubeyard_device::request::PeRef;
use cubeyard_runtime::Tensor;
use cubeyard_runtime::placement::Shard;

use crate::distributed::config::Ranks;
use crate::distributed::error::DistError;
use crate::distributed::rank_map::RankMap;

/// Parts of a tensor by PE.
pub(super) struct Held<'t> {
    shards: BTreeMap<PeRef, &'t Shard>,
    /// Whether every rank has a tensor of its own. Parts of ranks must then have the same place in it.
    is_each: bool,
}

/// The properties of a part of a tensor in which all ranks must agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Region {
    Nothing,
    /// Rows and columns of a rank's own tensor.
    Own(Range<u64>, Range<u64>),
    /// Number of rows and columns of a part of a tensor that several ranks share.
    Shared(u64, u64),
}

impl<'t> Held<'t> {
    pub(super) fn of(tensor: &'t Tensor, map: &RankMap) -> Result<Self, DistError> {
        let shards = tensor.layout()?.shards().iter().map(|shard| (shard.at, shard)).collect();
        Ok(Self { shards, is_each: map.ranks() == Ranks::Sip })
    }

    pub(super) fn region(&self, pe: PeRef) -> Region {
        match self.shards.get(&pe) {
            None => Region::Nothing,
            Some(Shard { rows, columns, .. }) if self.is_each => {
                Region::Own(rows.clone(), columns.clone())
            }
            Some(Shard { rows, columns, .. }) => {
                Region::Shared(rows.end - rows.start, columns.end - columns.start)
            }
        }
    }
}

impl Region {
    pub(super) fn elements(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Own(rows, columns) => (rows.end - rows.start) * (columns.end - columns.start),
            Self::Shared(rows, columns) => rows * columns,
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = |count: u64| if count == 1 { "" } else { "s" };
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Own(rows, columns) => write!(f, "rows {rows:?} of columns {columns:?}"),
            Self::Shared(rows, columns) => {
                write!(f, "{rows} row{} of {columns} column{}", many(*rows), many(*columns))
            }
        }
    }
}

//! Report of a placement.

use cubeyard_device::request::PeRef;
use serde::{Serialize, Serializer};

use super::{Layout, MappingGroup, Shard, Split};

/// Report of `cubeyard placement`. Ranges exclude their end. `mapping_groups.shards` are indices into `shards`.
#[derive(Serialize)]
struct LayoutRecord {
    shape: Vec<u64>,
    dtype: &'static str,
    sip: &'static str,
    cube: &'static str,
    pe: &'static str,
    nbytes: u64,
    copies: usize,
    held_bytes: u128,
    least_bytes_per_holder: u64,
    most_bytes_per_holder: u64,
    shards: Vec<ShardRecord>,
    mapping_groups: Vec<GroupRecord>,
}

#[derive(Serialize)]
struct ShardRecord {
    sip: u32,
    cube: u32,
    pe: u32,
    rows: [u64; 2],
    columns: [u64; 2],
    offset_bytes: u64,
    nbytes: u64,
}

#[derive(Serialize)]
struct GroupRecord {
    pes: Vec<String>,
    shards: Vec<usize>,
}

impl Serialize for Layout {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        record(self).serialize(to)
    }
}

fn record(layout: &Layout) -> LayoutRecord {
    let [sip, cube, pe] = layout.splits().map(Split::name);
    let (least, most) = layout.bytes_of_holders();
    LayoutRecord {
        shape: layout.shape().dimensions().to_vec(),
        dtype: layout.dtype().name(),
        sip,
        cube,
        pe,
        nbytes: layout.nbytes(),
        copies: layout.copies(),
        held_bytes: layout.held_bytes(),
        least_bytes_per_holder: least,
        most_bytes_per_holder: most,
        shards: layout.shards().iter().map(shard).collect(),
        mapping_groups: layout.mapping_groups().into_iter().map(group).collect(),
    }
}

fn shard(shard: &Shard) -> ShardRecord {
    let Shard { at, rows, columns, offset_bytes, nbytes } = shard;
    ShardRecord {
        sip: at.sip.number(),
        cube: at.cube.number(),
        pe: at.pe.number(),
        rows: [rows.start, rows.end],
        columns: [columns.start, columns.end],
        offset_bytes: *offset_bytes,
        nbytes: *nbytes,
    }
}

fn group(group: MappingGroup) -> GroupRecord {
    let pes = group.pes.iter().map(PeRef::to_string).collect();
    GroupRecord { pes, shards: group.shards }
}

//! Placements as JSON.

use anyhow::Result;
use cubeyard_device::request::PeRef;
use cubeyard_device::topology::Topology;
use cubeyard_runtime::placement::{Layout, MappingGroup, Shard};
use serde::Serialize;

use crate::record::Stamped;

/// Record of a placement. Ranges exclude their end. `mapping_groups.shards` are indices into `shards`.
#[derive(Debug, Serialize)]
struct Record {
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

#[derive(Debug, Serialize)]
struct ShardRecord {
    sip: u32,
    cube: u32,
    pe: u32,
    rows: [u64; 2],
    columns: [u64; 2],
    offset_bytes: u64,
    nbytes: u64,
}

#[derive(Debug, Serialize)]
struct GroupRecord {
    pes: Vec<String>,
    shards: Vec<usize>,
}

/// Renders a placement on a machine.
pub(super) fn render(layout: &Layout, topology: &Topology) -> Result<String> {
    let stamped = Stamped::new(record(layout), topology);
    Ok(serde_json::to_string_pretty(&stamped)? + "\n")
}

/// Renders a placement alone.
pub(super) fn render_alone(layout: &Layout) -> Result<String> {
    Ok(serde_json::to_string_pretty(&record(layout))? + "\n")
}

fn record(layout: &Layout) -> Record {
    let [sip, cube, pe] = layout.splits().map(cubeyard_runtime::placement::Split::name);
    let (least, most) = layout.bytes_of_holders();
    Record {
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

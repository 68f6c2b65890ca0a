//! Reads the keys of the parts of a cube.

mod core;

use cubeyard_memory::Bytes;
use cubeyard_memory::address::{PeId, Window};

use super::super::spec::{
    DealOrder, HbmSpec, MCpuSpec, MmuSpec, PeSpec, RoutersSpec, SramSpec, UcieSpec,
};
use super::super::{Position, mesh};
use super::{Result, optional, wire};
use cubeyard_yaml::Field;
use cubeyard_yaml::InputProblem;

/// Largest number of rows, and of columns, of routers.
const MOST_ROUTERS: u32 = 16;
/// Largest number of channels of a slice.
const MOST_CHANNELS: u32 = 1024;

pub(super) fn routers(field: &Field<'_>) -> Result<RoutersSpec> {
    let mut map = field.map()?;
    let rows = map.field("rows").whole(1, MOST_ROUTERS)?;
    let columns = map.field("columns").whole(1, MOST_ROUTERS)?;
    let removed_field = map.field("removed");
    let mut removed = Vec::new();
    for field in removed_field.list("routers")? {
        let position = position(&field)?;
        if position.row >= rows || position.column >= columns {
            return Err(field.unexpected(format!(
                "a router of the grid, r0c0 to r{}c{}",
                rows - 1,
                columns - 1
            )));
        }
        if removed.contains(&position) {
            return Err(field.unexpected("each router once"));
        }
        removed.push(position);
    }
    removed.sort_unstable();
    let overhead = map.field("overhead_ns").ns()?;
    let spec = RoutersSpec { rows, columns, removed, overhead, link: wire(&map.field("link"))? };
    map.finish()?;
    if let Some(cut_off) = mesh::cut_off(&spec) {
        let expected = "routers without which the others still reach each other";
        let found = match cut_off {
            Some(position) => format!("{position} cut off"),
            None => "none left".to_owned(),
        };
        let problem = InputProblem::Value { expected: expected.to_owned(), found };
        return Err(removed_field.error(problem));
    }
    Ok(spec)
}

/// Reads a position, as in `r0c1`.
fn position(field: &Field<'_>) -> Result<Position> {
    const EXPECTED: &str = "a router such as r0c1";
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    };
    let parse = |text: &str| {
        let (row, column) = text.strip_prefix('r')?.split_once('c')?;
        Some(Position { row: number(row)?, column: number(column)? })
    };
    parse(field.text(EXPECTED)?).ok_or_else(|| field.unexpected(EXPECTED))
}

/// Reads the position of an existing router.
fn router(field: &Field<'_>, routers: &RoutersSpec) -> Result<Position> {
    let position = position(field)?;
    let is_there = mesh::has(routers, position);
    let expected = || {
        field.unexpected(format!(
            "a router of the {} × {} grid that is not removed",
            routers.rows, routers.columns
        ))
    };
    is_there.then_some(position).ok_or_else(expected)
}

/// Largest page size; virtual addresses begin at a multiple of it.
const LONGEST_PAGE: Bytes = Bytes::gib(4);

fn page(field: &Field<'_>) -> Result<Bytes> {
    let page = field.power_of_two_bytes()?;
    let expected = || field.unexpected(format!("a power of two of bytes up to {LONGEST_PAGE}"));
    (page <= LONGEST_PAGE).then_some(page).ok_or_else(expected)
}

fn mmu(field: &Field<'_>) -> Result<MmuSpec> {
    field.record(|map| {
        let entries = map.field("tlb_entries").whole(0, 1 << 20)?;
        Ok(MmuSpec {
            page: page(&map.field("page_bytes"))?,
            tlb_overhead: map.field("tlb_overhead_ns").ns()?,
            tlb_entries: (entries > 0).then_some(entries),
            tlb_miss: map.field("tlb_miss_ns").ns()?,
            strict: map.field("strict").flag()?,
        })
    })
}

pub(super) fn pe(field: &Field<'_>, routers: &RoutersSpec) -> Result<PeSpec> {
    let mut map = field.map()?;
    let list = map.field("routers");
    let fields = list.list("routers")?;
    let limit = PeId::COUNT as usize;
    if fields.is_empty() || fields.len() > limit {
        return Err(list.unexpected(format!("1 to {limit} PEs, as addresses can name")));
    }
    let tcm_field = map.field("tcm_bytes");
    let spec = PeSpec {
        routers: fields.iter().map(|field| router(field, routers)).collect::<Result<_>>()?,
        tcm: at_most(&tcm_field, Window::TCM_BYTES)?,
        dma_overhead: map.field("dma_overhead_ns").ns()?,
        cpu_overhead: map.field("cpu_overhead_ns").ns()?,
        mmu: mmu(&map.field("mmu"))?,
        core: core::core(&map.field("core"), &tcm_field)?,
        link: wire(&map.field("link"))?,
    };
    map.finish()?;
    Ok(spec)
}

/// Reads a size that must fit into its window of the address space.
fn at_most(field: &Field<'_>, limit: Bytes) -> Result<Bytes> {
    let bytes = field.bytes()?;
    let expected = || field.unexpected(format!("at most {limit}, as addresses have room for"));
    (bytes <= limit).then_some(bytes).ok_or_else(expected)
}

pub(super) fn hbm(field: &Field<'_>, pe: &PeSpec) -> Result<HbmSpec> {
    let mut map = field.map()?;
    let capacity_field = map.field("bytes_per_cube");
    let capacity = at_most(&capacity_field, Window::HBM_BYTES)?;
    let channels_field = map.field("channels_per_pe");
    let channels = channels_field.whole(1, MOST_CHANNELS)?;
    if !channels.is_power_of_two() {
        return Err(channels_field.unexpected("a power of two"));
    }
    let burst = map.field("burst_bytes").power_of_two_bytes()?;
    let pes = pe.routers.len() as u64;
    let slice = Bytes::new(capacity.get() / pes);
    if slice.get() * pes != capacity.get() || slice.is_zero() || !slice.is_aligned(burst) {
        let expected =
            format!("an equal slice of whole bursts ({} B) for each of {pes} PEs", burst.get());
        return Err(capacity_field.unexpected(expected));
    }
    let rows_field = map.field("rows");
    let spec = HbmSpec {
        capacity,
        slice,
        channels,
        channel_bandwidth: map.field("channel_bandwidth_gbs").gbs()?,
        burst,
        turn_around: map.field("turn_around_ns").ns()?,
        rows: None,
        overhead: map.field("overhead_ns").ns()?,
        page: dealt_page(&map.field("page_bytes"), burst)?,
        deal: map.field("deal").choice(&DealOrder::NAMES)?,
        link: wire(&map.field("link"))?,
    };
    map.finish()?;
    let rows = optional::given(Some(rows_field), |field| optional::rows(field, &spec))?;
    Ok(HbmSpec { rows, ..spec })
}

/// Reads the size of a dealt page, which holds whole bursts.
fn dealt_page(field: &Field<'_>, burst: Bytes) -> Result<Bytes> {
    let page = field.power_of_two_bytes()?;
    let expected = || field.unexpected(format!("{} B (a burst) to 2 MiB", burst.get()));
    (burst..=Bytes::mib(2)).contains(&page).then_some(page).ok_or_else(expected)
}

pub(super) fn sram(field: &Field<'_>, routers: &RoutersSpec) -> Result<SramSpec> {
    field.record(|map| {
        Ok(SramSpec {
            router: router(&map.field("router"), routers)?,
            capacity: at_most(&map.field("bytes_per_cube"), Window::SRAM_BYTES)?,
            overhead: map.field("overhead_ns").ns()?,
            link: wire(&map.field("link"))?,
        })
    })
}

pub(super) fn m_cpu(field: &Field<'_>, routers: &RoutersSpec) -> Result<MCpuSpec> {
    field.record(|map| {
        Ok(MCpuSpec {
            router: router(&map.field("router"), routers)?,
            overhead: map.field("overhead_ns").ns()?,
            link: wire(&map.field("link"))?,
        })
    })
}

pub(super) fn ucie(field: &Field<'_>, routers: &RoutersSpec) -> Result<UcieSpec> {
    let mut map = field.map()?;
    let (last_row, last_column) = (routers.rows - 1, routers.columns - 1);
    let missing = |ends: [Position; 2]| ends.into_iter().find(|&at| !mesh::has(routers, at));
    let rows = lanes(&map.field("connection_rows"), last_row, |row| {
        missing([0, last_column].map(|column| Position { row, column }))
    })?;
    let columns_field = map.field("connection_columns");
    let columns = lanes(&columns_field, last_column, |column| {
        missing([0, last_row].map(|row| Position { row, column }))
    })?;
    if columns.len() != rows.len() {
        // A flow keeps its connection number from end to end, so each side must have that connection.
        let expected = format!("as many connections as connection_rows, {}", rows.len());
        return Err(columns_field.unexpected(expected));
    }
    let spec = UcieSpec {
        connection_rows: rows,
        connection_columns: columns,
        balance: map.field("balance").flag()?,
        port_overhead: map.field("port_overhead_ns").ns()?,
        connection_overhead: map.field("connection_overhead_ns").ns()?,
        router_link: wire(&map.field("router_link"))?,
        port_link: wire(&map.field("port_link"))?,
        phy: wire(&map.field("phy"))?,
    };
    map.finish()?;
    Ok(spec)
}

/// Reads the rows or columns of connections: without duplicates, and with a router at both ends.
fn lanes(
    field: &Field<'_>,
    last: u32,
    missing: impl Fn(u32) -> Option<Position>,
) -> Result<Vec<u32>> {
    let mut lanes = Vec::new();
    for field in field.list("rows or columns")? {
        let lane = field.whole(0, last)?;
        if lanes.contains(&lane) {
            return Err(field.unexpected("each row or column once"));
        }
        if let Some(position) = missing(lane) {
            return Err(
                field.unexpected(format!("routers at both ends, but {position} is removed"))
            );
        }
        lanes.push(lane);
    }
    if lanes.is_empty() {
        return Err(field.unexpected("at least one connection"));
    }
    Ok(lanes)
}

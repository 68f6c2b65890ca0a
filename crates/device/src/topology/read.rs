//! Reads a spec from a document: its keys, their ranges, and the values that must agree.

mod cube;
mod optional;

use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, SipId};

use super::Side;
use super::spec::{
    CubesSpec, IoSpec, PcieSpec, SerialNodes, SipTopology, SipsSpec, Spec, WireSpec,
};
use cubeyard_yaml::Field;
use cubeyard_yaml::{InputError, InputProblem};

/// Largest header of a flit, in bytes.
const LONGEST_HEADER: u32 = 4096;
/// Largest flit that a file may specify.
const LONGEST_FLIT: Bytes = Bytes::mib(1);

type Result<T> = std::result::Result<T, InputError>;

/// Reads a spec from a file with all defaults filled in.
pub(super) fn spec(root: &Field<'_>) -> Result<Spec> {
    let mut map = root.map()?;
    let routers = cube::routers(&map.field("routers"))?;
    let pe = cube::pe(&map.field("pe"), &routers)?;
    let hbm = cube::hbm(&map.field("hbm"), &pe)?;
    let spec = Spec {
        flit: flit(&map.field("flit_bytes"), hbm.burst)?,
        flit_header: Bytes::new(map.field("flit_header_bytes").whole(0, LONGEST_HEADER)?.into()),
        serial_nodes: map.field("serial_nodes").choice(&SerialNodes::NAMES)?,
        ns_per_mm: map.field("ns_per_mm").number("nanoseconds", 1e3)?,
        buffers: optional::given(Some(map.field("buffers")), optional::buffers)?,
        sips: sips(&map.field("sips"))?,
        cubes: cubes(&map.field("cubes"))?,
        sram: cube::sram(&map.field("sram"), &routers)?,
        m_cpu: cube::m_cpu(&map.field("m_cpu"), &routers)?,
        ucie: cube::ucie(&map.field("ucie"), &routers)?,
        io: io(&map.field("io"))?,
        pcie: pcie(&map.field("pcie"))?,
        switch_overhead: map.field("switch").record(|map| map.field("overhead_ns").ns())?,
        host_launch: map.field("host").record(|map| map.field("launch_ns").ns())?,
        routers,
        pe,
        hbm,
    };
    map.finish()?;
    Ok(spec)
}

fn flit(field: &Field<'_>, burst: Bytes) -> Result<Bytes> {
    let flit = field.bytes()?;
    let is_multiple = flit.is_aligned(burst) && flit <= LONGEST_FLIT;
    let expected =
        || format!("a multiple of hbm.burst_bytes, {}, up to {LONGEST_FLIT}", burst.get());
    is_multiple.then_some(flit).ok_or_else(|| field.unexpected(expected()))
}

fn sips(field: &Field<'_>) -> Result<SipsSpec> {
    let mut map = field.map()?;
    let count_field = map.field("count");
    let count = count_field.whole(1, SipId::COUNT)?;
    let topology = map.field("topology").choice(&SipTopology::NAMES)?;
    let (w, h) = (map.optional("w"), map.optional("h"));
    map.finish()?;
    let (w, h) = match (topology, w, h) {
        (SipTopology::Ring1d, None, None) => (count, 1),
        (SipTopology::Ring1d, Some(extra), _) | (SipTopology::Ring1d, None, Some(extra)) => {
            return Err(extra.error(InputProblem::UnusedKey { when: "in a ring" }));
        }
        (_, None, None) => {
            let side = count.isqrt();
            let expected = || count_field.unexpected("a square, or w and h beside it");
            (side * side == count).then_some((side, side)).ok_or_else(expected)?
        }
        (_, Some(w), Some(h)) => grid(count, &w, &h)?,
        (_, Some(one), None) => return Err(one.unexpected("h beside w")),
        (_, None, Some(one)) => return Err(one.unexpected("w beside h")),
    };
    Ok(SipsSpec { count, topology, w, h })
}

/// Reads the grid of the SIPs, whose number of places must equal the number of SIPs.
fn grid(count: u32, w: &Field<'_>, h: &Field<'_>) -> Result<(u32, u32)> {
    let (columns, rows) = (w.whole(1, SipId::COUNT)?, h.whole(1, SipId::COUNT)?);
    if columns * rows == count {
        return Ok((columns, rows));
    }
    let expected = format!("w * h = {count}, the number of SIPs");
    let found = format!("{columns} * {rows} = {}", columns * rows);
    Err(w.error(InputProblem::Value { expected, found }))
}

fn cubes(field: &Field<'_>) -> Result<CubesSpec> {
    let mut map = field.map()?;
    let (w, h_field) = (map.field("w").whole(1, CubeId::COUNT)?, map.field("h"));
    let h = h_field.whole(1, CubeId::COUNT)?;
    map.finish()?;
    if w * h > CubeId::COUNT {
        let expected = format!("w * h of at most {}, as addresses can name", CubeId::COUNT);
        let found = format!("{w} * {h} = {}", w * h);
        return Err(h_field.error(InputProblem::Value { expected, found }));
    }
    Ok(CubesSpec { w, h })
}

fn io(field: &Field<'_>) -> Result<IoSpec> {
    field.record(|map| {
        Ok(IoSpec {
            chiplets: chiplets(&map.field("chiplets"))?,
            noc_overhead: map.field("noc_overhead_ns").ns()?,
            cpu_overhead: map.field("cpu_overhead_ns").ns()?,
            port_overhead: map.field("port_overhead_ns").ns()?,
            connection_overhead: map.field("connection_overhead_ns").ns()?,
            connection_link: wire(&map.field("connection_link"))?,
            port_link: wire(&map.field("port_link"))?,
            cpu_link: wire(&map.field("cpu_link"))?,
            endpoint_link: wire(&map.field("endpoint_link"))?,
        })
    })
}

fn chiplets(field: &Field<'_>) -> Result<Vec<Side>> {
    const NAMES: [(&str, Side); 4] =
        [("N", Side::North), ("E", Side::East), ("S", Side::South), ("W", Side::West)];
    let mut sides = Vec::new();
    for field in field.list("sides N, E, S, W")? {
        let side = field.choice(&NAMES)?;
        if sides.contains(&side) {
            return Err(field.unexpected("each side once: one IO chiplet a side"));
        }
        sides.push(side);
    }
    if sides.is_empty() {
        return Err(field.unexpected("at least one IO chiplet: the host has no other way in"));
    }
    Ok(sides)
}

fn pcie(field: &Field<'_>) -> Result<PcieSpec> {
    field.record(|map| {
        Ok(PcieSpec {
            endpoint_overhead: map.field("endpoint_overhead_ns").ns()?,
            link: wire(&map.field("link"))?,
        })
    })
}

fn wire(field: &Field<'_>) -> Result<WireSpec> {
    field.record(|map| {
        let bandwidth = map.field("bandwidth_gbs").gbs()?;
        let length_mm = map.field("length_mm").number("millimetres", 1e6)?;
        Ok(WireSpec { bandwidth, length_mm })
    })
}

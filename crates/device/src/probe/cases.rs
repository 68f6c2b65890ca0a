//! Cases to measure: from the host and a PE to near, middle and far memories.

use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_sim::Span;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::log::Watch;
use crate::machine::Machine;
use crate::message::Direction;
use crate::request::{MemoryRange, PeRef, Request, RequestError};
use crate::topology::{NodeId, Topology};

/// Initiator and direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// The host writes to the device.
    HostToDevice,
    /// The host reads from the device.
    DeviceToHost,
    /// The DMA engine of a PE reads.
    PeDma,
    /// The DMA engine of a PE writes, and waits for the acknowledgement.
    PeWrite,
}

impl Category {
    /// Returns the name of the category, as in the names of cases.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HostToDevice => "h2d",
            Self::DeviceToHost => "d2h",
            Self::PeDma => "pe-dma",
            Self::PeWrite => "pe-write",
        }
    }
}

/// Transfer to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Name of the case, as in `h2d-far`.
    pub name: String,
    /// Initiator and direction of the transfer.
    pub category: Category,
    /// PE whose DMA engine reads or writes; `None` for the host.
    pub from: Option<PeRef>,
    /// PE whose HBM is accessed.
    pub to: PeRef,
}

impl Case {
    fn new(category: Category, place: &str, from: Option<PeRef>, to: PeRef) -> Self {
        Self { name: format!("{}-{place}", category.name()), category, from, to }
    }

    /// Returns the request that moves `bytes` bytes.
    pub fn request<W: Watch>(
        &self,
        machine: &Machine<W>,
        bytes: u64,
    ) -> Result<Request, RequestError> {
        let address = machine.view().hbm_address(self.to, 0)?;
        let range = MemoryRange { at: self.to, address, bytes };
        Ok(match (self.category, self.from) {
            (Category::HostToDevice, _) => Request::MemoryWrite(range),
            (Category::DeviceToHost, _) | (_, None) => Request::MemoryRead(range),
            (Category::PeWrite, Some(from)) => {
                Request::PeDma { from, direction: Direction::Write, address, bytes }
            }
            (_, Some(from)) => Request::PeDma { from, direction: Direction::Read, address, bytes },
        })
    }

    /// Returns the name of the initiator: `host` or a PE.
    pub fn start(&self) -> String {
        self.from.map_or_else(|| "host".to_owned(), |from| from.to_string())
    }
}

impl Serialize for Case {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (name, category) = (&self.name, self.category.name());
        let (from, memory) = (self.start(), format!("{}.hbm", self.to));
        json!({ "name": name, "category": category, "from": from, "to": memory }).serialize(to)
    }
}

/// Returns the cases of a machine. Cases that need a cube or SIP that the machine does not have are left out.
pub fn cases(topology: &Topology) -> Vec<Case> {
    let host: Vec<_> = spread(topology, |to| far_from_host(topology, to));
    let named = |category| {
        let names = ["near", "middle", "far"];
        let names: Vec<_> = if host.len() == 2 { vec![names[0], names[2]] } else { names.to_vec() };
        let cases = names.into_iter().zip(host.clone());
        cases.map(move |(name, to)| Case::new(category, name, None, to)).collect::<Vec<_>>()
    };
    let mut cases = named(Category::HostToDevice);
    cases.extend(named(Category::DeviceToHost));
    cases.extend(pe_cases(topology, Category::PeDma));
    cases.extend(pe_cases(topology, Category::PeWrite));
    cases
}

/// Returns PE 0 of the first cube and SIP, from which all DMA cases start.
fn origin() -> PeRef {
    let zero = "zero is a number of every kind";
    PeRef {
        sip: SipId::new(0).expect(zero),
        cube: CubeId::new(0).expect(zero),
        pe: PeId::new(0).expect(zero),
    }
}

fn pe_cases(topology: &Topology, category: Category) -> Vec<Case> {
    let from = origin();
    let hops = |to: &PeRef| distance(topology, from, *to);
    let half = topology.spec().routers.rows / 2;
    let is_upper = |pe: &PeRef| {
        let router = topology.node(topology.pe_dma(*pe)).place.router;
        router.is_some_and(|at| at.row < half)
    };
    let is_near = |pe: &PeRef| is_upper(pe) == is_upper(&from);
    let in_cube: Vec<_> = topology.pes().skip(1).map(|pe| PeRef { pe, ..from }).collect();
    let same_half = in_cube.iter().copied().filter(is_near).min_by_key(hops);
    let cross_half = in_cube.iter().copied().filter(|pe| !is_near(pe)).max_by_key(hops);
    let cubes = topology.cubes().skip(1);
    let elsewhere: Vec<_> =
        cubes.flat_map(|cube| topology.pes().map(move |pe| PeRef { cube, pe, ..from })).collect();
    let near = elsewhere.iter().copied().min_by_key(hops);
    let far = elsewhere.iter().copied().rev().max_by_key(hops);
    let remote = topology.sips().nth(1).map(|sip| PeRef { sip, ..from });
    let places = [
        ("local", Some(from)),
        ("same-half", same_half),
        ("cross-half", cross_half),
        ("cross-cube-near", near),
        ("cross-cube-far", far),
        ("remote-sip", remote),
    ];
    let case = |(name, to): (&str, Option<PeRef>)| Some(Case::new(category, name, Some(from), to?));
    places.into_iter().filter_map(case).collect()
}

/// Returns PE 0 of the nearest, the middle and the farthest cube by the distance `far`, without duplicates.
fn spread(topology: &Topology, far: impl Fn(PeRef) -> Span) -> Vec<PeRef> {
    let mut cubes: Vec<_> = topology.cubes().map(|cube| PeRef { cube, ..origin() }).collect();
    cubes.sort_by_key(|&cube| far(cube));
    let mut places = vec![cubes[0], cubes[cubes.len() / 2], cubes[cubes.len() - 1]];
    places.dedup_by_key(|&mut cube| far(cube));
    places
}

fn far_from_host(topology: &Topology, to: PeRef) -> Span {
    let (from, to) = (topology.endpoint(to.sip), topology.hbm(to));
    weight(topology, from, to)
}

fn distance(topology: &Topology, from: PeRef, to: PeRef) -> Span {
    let from = topology.pe_dma(from);
    weight(topology, from, topology.hbm(to))
}

/// Returns the latency of a command between two nodes, as a measure of distance that needs no simulation.
fn weight(topology: &Topology, from: NodeId, to: NodeId) -> Span {
    topology.flight(&topology.route(from, to).expect("both are ends"))
}

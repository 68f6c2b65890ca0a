//! Closed forms of collectives, compared with the simulation.
//!
//! The forms are derived from the rules (`docs/machine-rules.md`) and the routes of a topology: α and β of a message
//! ([`cost`]), and the number of sequential messages ([`form`]). They share no code with the engine, and no parameter
//! is fitted to it.
//!
//! ```
//! use cubeyard_validate::collectives;
//!
//! let checks = collectives::checks();
//! assert!(checks.iter().any(|check| check.family() == "collectives"));
//! assert!(checks.iter().any(|check| check.name() == "lrab of 3x2 SIPs of 4x4 cubes, 64 KiB"));
//! ```

pub mod cost;
pub mod form;

use crate::{Check, CheckKind, Expected};
use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, ContextConfig, RingConfig, SlotKind, Tensor};
use cubeyard_sim::Span;

use cubeyard_bench::RunConfig;
use cubeyard_collectives::collective::{Algorithm, Direct, Lrab, Operation, ReduceOp, Ring, Tree};
use cubeyard_collectives::distributed::{DistError, Group, GroupConfig, Ranks};
use cubeyard_tl::launch::{Launcher, Mode};
use form::{Part, total};

const KIB: u64 = 1 << 10;

/// Tile sizes per cube of the published all-reduces, in bytes.
pub const PUBLISHED: [u64; 4] = [256, 2 * KIB, 16 * KIB, 64 * KIB];

const RULES: &str = "closed form: load, steps, store";
const LRAB: &str = "kernbench2 84a1325e, ADR-0032 (sources.md#all-reduce)";
const GEMM: &str = "kernbench2 f6d262e3, ADR-0044 (sources.md#gemm)";
const HOPS: &str = "α-β of the rules, steps that follow each other";

/// Measures an all-reduce of ranks with one PE.
type Measured = fn(&Topology, u64) -> Result<Span, DistError>;

/// Returns all closed forms of collectives with our figures, followed by the published figures of other models.
pub fn checks() -> Vec<Check<'static>> {
    let all = PUBLISHED.map(lrab_check).into_iter().chain([256, 64 * KIB].map(direct_check));
    let rings = [2, 3, 4, 6, 8].into_iter();
    let rings = rings.flat_map(|ranks| [2 * KIB, 16 * KIB].map(|part| ring_check(ranks, part)));
    // Both children of a rank send to it at the same time, which has little effect only for short messages.
    let trees = [(2, 64 * KIB), (3, 64 * KIB), (4, 128), (6, 128), (8, 128)];
    let trees = trees.map(|(ranks, bytes)| tree_check(ranks, bytes));
    let forms = all.chain(rings).chain(trees).map(|check| check.own().of_family("collectives"));
    let others = published_lrab().chain([published_gemm()]);
    forms.chain(others.map(|check| check.of_family("published, of other models"))).collect()
}

/// Published times of the all-reduce in nanoseconds: for each slot memory, one per size in [`PUBLISHED`].
pub const PUBLISHED_NS: [(SlotKind, &str, [f64; 4]); 3] = [
    (SlotKind::Tcm, "tcm", [1678.04, 1957.04, 4225.04, 12_001.04]),
    (SlotKind::Sram, "sram", [1762.04, 2293.04, 6577.04, 21_265.04]),
    (SlotKind::Hbm, "hbm", [2002.04, 3541.04, 15_889.04, 58_225.04]),
];

/// Returns the published all-reduces, compared with ours.
fn published_lrab() -> impl Iterator<Item = Check<'static>> {
    let cases = PUBLISHED_NS.into_iter().flat_map(|(kind, memory, times)| {
        PUBLISHED.into_iter().zip(times).map(move |(bytes, ns)| (kind, memory, bytes, ns))
    });
    cases.map(|(kind, memory, bytes, ns)| {
        let name = format!("all-reduce of 3x2 SIPs of 4x4 cubes, {}, {memory}", length(bytes));
        let ours = move || lrab(bytes, kind).expect("a check makes sound groups").ns();
        Check::new(CheckKind::Indicative, name, Expected::ns(ns), LRAB, ours)
            .because("the models differ; docs/lrab-published.md takes the difference apart")
    })
}

/// Returns the published matrix product, compared with ours.
fn published_gemm() -> Check<'static> {
    let name = "GEMM of 32x3072x32 in f16 on one PE, A loaded before";
    Check::new(CheckKind::Indicative, name, Expected::ns(1765.0), GEMM, || gemm().ns())
        .because("the models differ; docs/gemm-published.md takes the difference apart")
}

/// Measures our time for the published matrix product.
fn gemm() -> Span {
    let set = ["m=32", "k=3072", "n=32", "staging=load-ref"].map(str::to_owned).to_vec();
    let topology = Topology::embedded();
    let config = RunConfig {
        topology,
        set,
        data: false,
        mode: Mode::Recorded,
        sips: Vec::new(),
        ops: false,
    };
    let bench = cubeyard_bench::find("gemm").expect("a bench of ours");
    cubeyard_bench::run(&*bench, &config).expect("a check makes sound runs").report.kernel
}

fn lrab_check(bytes: u64) -> Check<'static> {
    let name = format!("lrab of 3x2 SIPs of 4x4 cubes, {}", length(bytes));
    let form = form::lrab(&published(), bytes);
    check(CheckKind::Exact, name, &form, RULES, published(), bytes, |topology, bytes| {
        let ring = RingConfig { slot_bytes: Bytes::new(bytes), ..RingConfig::default() };
        time(topology, Box::new(Lrab), Ranks::Cube, ring, bytes)
    })
}

fn direct_check(bytes: u64) -> Check<'static> {
    let name = format!("direct between two, {}", length(bytes));
    let form = form::direct(&line(2), bytes);
    check(CheckKind::Predicted, name, &form, HOPS, line(2), bytes, |topology, bytes| {
        alone(topology, Box::new(Direct), bytes)
    })
}

fn ring_check(ranks: u64, part: u64) -> Check<'static> {
    let (name, bytes) = (format!("ring of {ranks}, parts of {}", length(part)), part * ranks);
    let form = form::ring(&line(ranks), bytes);
    check(CheckKind::Predicted, name, &form, HOPS, line(ranks), bytes, |topology, bytes| {
        alone(topology, Box::new(Ring), bytes)
    })
}

fn tree_check(ranks: u64, bytes: u64) -> Check<'static> {
    let name = format!("tree of {ranks}, {}", length(bytes));
    let form = form::tree(&line(ranks), bytes);
    check(CheckKind::Predicted, name, &form, HOPS, line(ranks), bytes, |topology, bytes| {
        alone(topology, Box::new(Tree), bytes)
    })
}

fn check(
    kind: CheckKind,
    name: String,
    form: &[Part],
    source: &'static str,
    topology: Topology,
    bytes: u64,
    measured: Measured,
) -> Check<'static> {
    let ours = move || measured(&topology, bytes).expect("a check makes sound groups").ns();
    Check::new(kind, name, Expected::ns(total(form).ns()), source, ours)
}

fn length(bytes: u64) -> String {
    if bytes.is_multiple_of(KIB) { format!("{} KiB", bytes / KIB) } else { format!("{bytes} B") }
}

/// Returns the machine of the published all-reduces: the default machine with six SIPs in a torus. Cubes have only PE
/// 0, since no other PE takes part.
pub fn published() -> Topology {
    let sips = "sips: {count: 6, topology: torus_2d, w: 3, h: 2}\n";
    machine(&format!("{sips}pe: {{routers: [r0c0]}}\nhbm: {{bytes_per_cube: 6 GiB}}\n"))
}

/// Returns a machine with SIPs of one PE. Every message leaves its SIP, passes the switch and enters another SIP. So
/// all steps take equally long, and in a ring no two messages share a wire.
fn line(sips: u64) -> Topology {
    let cube = "cubes: {w: 1, h: 1}\npe: {routers: [r0c0]}\nhbm: {bytes_per_cube: 64 MiB}\n";
    machine(&format!("sips: {{count: {sips}}}\n{cube}"))
}

fn machine(text: &str) -> Topology {
    Topology::read("a machine of a check", text).expect("it is tested")
}

/// Measures an all-reduce in which every message is as long as possible.
fn alone(
    topology: &Topology,
    algorithm: Box<dyn Algorithm>,
    bytes: u64,
) -> Result<Span, DistError> {
    let ring = RingConfig { slot_bytes: Bytes::new(bytes), ..RingConfig::default() };
    time(topology, algorithm, Ranks::Sip, ring, bytes)
}

/// Measures our time for the published all-reduce, with slots in a given memory.
pub fn lrab(bytes: u64, kind: SlotKind) -> Result<Span, DistError> {
    let ring = RingConfig { kind, slot_bytes: Bytes::new(bytes), ..RingConfig::default() };
    time(&published(), Box::new(Lrab), Ranks::Cube, ring, bytes)
}

/// Measures an all-reduce of `bytes` bytes of `f16`, on a machine whose cubes have one PE.
fn time(
    topology: &Topology,
    algorithm: Box<dyn Algorithm>,
    ranks: Ranks,
    ring: RingConfig,
    bytes: u64,
) -> Result<Span, DistError> {
    let config = GroupConfig { ranks, ring, ..GroupConfig::default() };
    let context = ContextConfig { topology: topology.clone(), ..ContextConfig::default() };
    let context = Context::new(context);
    let group = Group::new(&context, &config, algorithm, 0)?;
    let cubes = topology.cubes().count() as u64;
    let tensor = |&sip: &SipId| tensor(&context, sip, cubes, bytes);
    let tensors = group.sips().iter().map(tensor).collect::<Result<Vec<_>, _>>()?;
    let pairs: Vec<_> = tensors.iter().map(|tensor| (tensor, tensor)).collect();
    let operation = Operation::AllReduce(ReduceOp::Sum);
    Ok(group.run(&Launcher::new(&context), operation, &pairs)?.kernel)
}

/// Creates a tensor with a row for each cube of a SIP.
fn tensor(context: &Context, sip: SipId, rows: u64, bytes: u64) -> Result<Tensor, DistError> {
    let sips = vec![sip];
    let place = Placement { cube: Split::RowWise, sips, ..Placement::default() };
    Ok(context.zeros(&[rows, bytes / DType::F16.size()], DType::F16)?.to(&place)?)
}

//! Figures that were published for the modelled machine.
//!
//! The comments in `topology/default.yaml` state which figures were used to choose parameters. The local reads gave the
//! routers' overhead, the hot target gave a lower bound for the links between routers, and another SIP and the host's
//! write gave the PCIe endpoints and the switch. The positions of the connections were fitted without a figure; the
//! eight flows to the next cube count as theirs. No comment names the farthest cube. The direction of the data was not
//! published; where it matters, the nearer direction is compared and the other is only shown.

use super::traffic::{KIB, dma, host, makespan};
use super::{Check, CheckKind, Expected};
use cubeyard_device::machine::Machine;
use cubeyard_device::message::Direction::{self, Read, Write};
use cubeyard_device::request::Request;
use cubeyard_device::topology::Topology;

const PE_DMA: &str = "kernbench2 a759d580, a76487ca (sources.md#pe-dma)";
const PROBE: &str = "kernbench2 ADR-0049, release 2 (sources.md#probe)";
const DIRECTION: &str = "the direction was not published; the other one, which is nearer, is held \
                         to the figure, and this one is shown";

pub(super) fn checks(topology: &Topology) -> Vec<Check<'_>> {
    let families = [local(topology), hot_target(topology), next_cube(topology), far(topology)];
    families.into_iter().flatten().map(Check::on_default).collect()
}

fn local_ns(topology: &Topology, direction: Direction, kib: u64) -> f64 {
    let pe = "sip0.cube0.pe0";
    makespan(topology, |machine| vec![dma(machine, pe, pe, direction, kib * KIB)]).ns()
}

fn local(topology: &Topology) -> Vec<Check<'_>> {
    let sizes = [(16, 77.0, PE_DMA), (32, 141.0, PROBE)];
    let cases = sizes.into_iter().flat_map(|size| [(Read, size), (Write, size)]);
    let mut checks: Vec<_> = cases
        .map(|(direction, (kib, ns, source))| {
            let name = format!("own HBM, {direction} {kib} KiB");
            let ours = move || local_ns(topology, direction, kib);
            Check::new(CheckKind::Calibrated, name, Expected::ns(ns), source, ours)
        })
        .collect();
    let slope = move || {
        let picoseconds = (local_ns(topology, Read, 32) - local_ns(topology, Read, 16)) * 1e3;
        picoseconds / (16 * KIB) as f64
    };
    let fixed = move || local_ns(topology, Read, 16) - 16.0 * 1024.0 / 256.0;
    let utilisation = move || 64.0 * 1024.0 / local_ns(topology, Read, 64) / 256.0 * 100.0;
    checks.extend([
        Check::new(
            CheckKind::Calibrated,
            "own HBM, each byte of a read",
            Expected::equal(1000.0 / 256.0, "ps"),
            "slope of the two published sizes (sources.md#pe-dma)",
            slope,
        ),
        Check::new(
            CheckKind::Calibrated,
            "own HBM, what a read takes besides",
            Expected::ns(13.0),
            "the two published sizes at 1/256 ns a byte (sources.md#pe-dma)",
            fixed,
        ),
        Check::new(
            CheckKind::Indicative,
            "own HBM, utilisation with 64 KiB",
            Expected::at_least(90.0, "%"),
            PROBE,
            utilisation,
        )
        .because("published as \"about 64 KB\", for a model that charged bytes once, at the end"),
    ]);
    checks
}

fn hot_target(topology: &Topology) -> Vec<Check<'_>> {
    let ours = move |direction, issuers: u32| {
        let pe = |number| format!("sip0.cube0.pe{number}");
        let requests = |machine: &Machine| {
            let one = |issuer| dma(machine, &pe(issuer), &pe(0), direction, 16 * KIB);
            (1..=issuers).map(one).collect()
        };
        makespan(topology, requests).ns()
    };
    let figures = [(1, 82.0), (2, 158.0), (3, 230.0)];
    let cases = figures.into_iter().flat_map(|figure| [(Write, figure), (Read, figure)]);
    let check = move |(direction, (issuers, ns))| {
        let name = format!("hot target pe0, {direction} 16 KiB, from pe1 to pe{issuers}");
        let measure = move || ours(direction, issuers);
        let check = |kind| Check::new(kind, name, Expected::ns(ns), PE_DMA, measure);
        if direction == Read && issuers == 3 {
            return check(CheckKind::Indicative).because(DIRECTION);
        }
        check(CheckKind::Calibrated)
    };
    cases.map(check).collect()
}

/// Returns a transfer from each PE of a cube to the same PE's slice in the next cube.
fn next_cube_flows(machine: &Machine, direction: Direction) -> Vec<Request> {
    let flow = |pe: u32| {
        let (from, to) = (format!("sip0.cube0.pe{pe}"), format!("sip0.cube1.pe{pe}"));
        dma(machine, &from, &to, direction, 16 * KIB)
    };
    (0..8).map(flow).collect()
}

fn next_cube(topology: &Topology) -> Vec<Check<'_>> {
    let ns =
        move |direction| makespan(topology, |machine| next_cube_flows(machine, direction)).ns();
    let share = move |gb_per_second: f64| 8.0 * 16.0 * 1024.0 / ns(Read) / gb_per_second * 100.0;
    let eight = "8 PEs of cube0 to cube1, 16 KiB each";
    vec![
        Check::new(
            CheckKind::Calibrated,
            format!("{eight}, read"),
            Expected::ns(963.0),
            PE_DMA,
            move || ns(Read),
        ),
        Check::new(
            CheckKind::Indicative,
            format!("{eight}, write"),
            Expected::ns(963.0),
            PE_DMA,
            move || ns(Write),
        )
        .because(DIRECTION),
        Check::new(
            CheckKind::Calibrated,
            "of these flows, on connection 0",
            Expected::equal(7.0, ""),
            PE_DMA,
            move || on_connection_0(topology),
        )
        .because("published as a known artefact; the places of the connections were chosen so"),
        Check::new(
            CheckKind::Indicative,
            "all these bytes, of one connection's 128 GB/s",
            Expected::equal(106.0, "%"),
            PE_DMA,
            move || share(128.0),
        )
        .because("bytes of all eight over the makespan: follows from it, and is published rounded"),
        Check::new(
            CheckKind::Indicative,
            "all these bytes, of the 160 GB/s that the crowding leaves",
            Expected::equal(85.0, "%"),
            PE_DMA,
            move || share(160.0),
        )
        .because("follows from the makespan; the peak itself is published as \"about 160\""),
    ]
}

fn on_connection_0(topology: &Topology) -> f64 {
    let flows = (0..8).filter(|pe| {
        let node = |name: String| topology.find(&name).expect("the default machine has it");
        let (from, to) = (format!("sip0.cube0.pe{pe}"), format!("sip0.cube1.pe{pe}.hbm"));
        let route = topology.route(node(from), node(to)).expect("PEs reach all HBM");
        let connection = node("sip0.cube1.ucie_w.conn0".to_owned());
        route.into_iter().any(|link| topology.link(link).to == connection)
    });
    flows.count() as f64
}

fn far(topology: &Topology) -> Vec<Check<'_>> {
    let dma = move |to: &'static str, direction| {
        let from = "sip0.cube0.pe0";
        move || makespan(topology, |m| vec![dma(m, from, to, direction, 16 * KIB)]).ns()
    };
    let write = move || {
        let request = |machine: &Machine| vec![host(machine, "sip0.cube0.pe0", Write, 64 * KIB)];
        makespan(topology, request).ns()
    };
    let cases = [
        (CheckKind::Predicted, "farthest cube", "sip0.cube15.pe7", 573.0),
        (CheckKind::Calibrated, "another SIP", "sip1.cube0.pe0", 409.0),
    ];
    let cases = cases.into_iter().flat_map(|case| [(Read, case), (Write, case)]);
    let mut checks: Vec<_> = cases
        .map(|(direction, (kind, what, to, ns))| {
            let name = format!("{what}, pe0 to {to}, {direction} 16 KiB");
            Check::new(kind, name, Expected::ns(ns), PE_DMA, dma(to, direction))
        })
        .collect();
    checks.push(Check::new(
        CheckKind::Calibrated,
        "host, write 64 KiB to pe0",
        Expected::ns(545.0),
        "kernbench2 4929040c (sources.md#host-writes)",
        write,
    ));
    checks
}

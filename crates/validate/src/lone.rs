//! Latency of a transfer on an idle machine: the engine against closed forms.
//!
//! [`formula`](cubeyard_device::formula) holds for every topology and size, so it is checked on the user's own. The
//! form by hand is a second derivation from the rules, for whole flits and memory that keeps up with the links; it is
//! checked on the default machine only. The simple form is the well-known one, in which all flits keep the pace of the
//! slowest link to the end of the route.

mod by_hand;

use cubeyard_sim::{EngineConfig, Stop};

use super::traffic::{KIB, dma, host};
use super::{Check, CheckKind, Expected};
use cubeyard_device::machine::{Machine, MachineBuilder};
use cubeyard_device::message::Direction::{self, Read, Write};
use cubeyard_device::request::Request;
use cubeyard_device::topology::Topology;

const FORMULA: &str = "closed form of the rules, any topology";
const BY_HAND: &str = "first flit + slowest link less what is caught up + burst";
const DESIGN: &str = "first flit + (flits - 1) x flit / bottleneck + burst";
const CATCH_UP: &str = "too long where nodes come after the slowest link: they hold the first flit \
                        up, and the others catch up with it";

/// A transfer between an initiator and a PE's HBM.
#[derive(Clone, Debug)]
struct Case {
    name: String,
    /// PE whose DMA engine moves the data; `None` for the host.
    from: Option<String>,
    to: String,
    direction: Direction,
}

impl Case {
    fn request(&self, machine: &Machine, bytes: u64) -> Request {
        match &self.from {
            Some(from) => dma(machine, from, &self.to, self.direction, bytes),
            None => host(machine, &self.to, self.direction, bytes),
        }
    }
}

pub(super) fn checks(topology: &Topology) -> Vec<Check<'_>> {
    let cases = cases(topology);
    let bytes = (16 * KIB).min(topology.spec().hbm.slice.get());
    let forms = forms(topology, &cases, bytes);
    let own = cases.iter().zip(forms).map(move |(case, ps)| alone(topology, case, bytes, ps));
    let hand = cases.iter().flat_map(move |case| by_hand(topology, case, bytes));
    own.chain([sweep(topology, cases.clone())]).chain(hand).collect()
}

/// Returns transfers by the first PE and by the host, to near and far targets.
fn cases(topology: &Topology) -> Vec<Case> {
    let spec = topology.spec();
    let (sip, cube, pe) = (spec.sips.count - 1, spec.cube_count() - 1, spec.pe_count() - 1);
    let mut places = vec![
        ("its own HBM", "sip0.cube0.pe0".to_owned()),
        ("the last PE of the cube", format!("sip0.cube0.pe{pe}")),
        ("the farthest cube", format!("sip0.cube{cube}.pe{pe}")),
        ("the last SIP", format!("sip{sip}.cube0.pe0")),
    ];
    places.dedup_by(|later, first| later.1 == first.1);
    if sip == 0 && places.len() > 1 {
        places.pop();
    }
    let from_pe = places.into_iter().flat_map(|(what, to)| {
        let read = (Read, format!("pe0 reads {what}"));
        let write = (Write, format!("pe0 writes {what}"));
        let from = Some("sip0.cube0.pe0".to_owned());
        [read, write].map(|(direction, name)| Case {
            name,
            from: from.clone(),
            to: to.clone(),
            direction,
        })
    });
    let far = format!("sip0.cube{cube}.pe{pe}");
    let host = [("reads", Read), ("writes", Write)].map(|(verb, direction)| Case {
        name: format!("the host {verb} the farthest cube"),
        from: None,
        to: far.clone(),
        direction,
    });
    from_pe.chain(host).collect()
}

/// Returns the latency of each transfer by the formula and by the engine, one transfer after another, in picoseconds.
fn ours(topology: &Topology, trains: bool, transfers: &[(&Case, u64)]) -> Vec<(u64, u64)> {
    let mut machine = MachineBuilder::new(topology.clone())
        .config(EngineConfig { trains, buffers: topology.spec().buffers })
        .build();
    let run = |(case, bytes): &(&Case, u64)| {
        let request = case.request(&machine, *bytes);
        let id = machine.submit(request).expect("a check makes sound requests");
        assert_eq!(machine.run(), Stop::Idle, "requests to memory end");
        let form = machine.view().unloaded_latency(id).expect("our memory answers").total();
        (form.ps(), machine.completion(id).expect("idle means done").latency().ps())
    };
    transfers.iter().map(run).collect()
}

fn ns(ps: u64) -> f64 {
    ps as f64 / 1e3
}

/// Returns the latency of each case by the formula, in picoseconds; nothing is simulated.
fn forms(topology: &Topology, cases: &[Case], bytes: u64) -> Vec<u64> {
    let mut machine = Machine::new(topology.clone());
    let form = |case: &Case| {
        let request = case.request(&machine, bytes);
        let id = machine.submit(request).expect("a check makes sound requests");
        machine.view().unloaded_latency(id).expect("our memory answers").total().ps()
    };
    cases.iter().map(form).collect()
}

fn alone<'t>(topology: &'t Topology, case: &Case, bytes: u64, form: u64) -> Check<'t> {
    let name = format!("{}, {}", case.name, size(bytes));
    let case = case.clone();
    let measure = move || ns(ours(topology, false, &[(&case, bytes)])[0].1);
    let Some(reason) = beyond_form(topology) else {
        return Check::new(CheckKind::Exact, name, Expected::ns(ns(form)), FORMULA, measure).own();
    };
    let expected = Expected::at_least(ns(form), "ns");
    Check::new(CheckKind::Exact, name, expected, FORMULA, measure).own().because(reason)
}

/// Returns why the closed form is only a lower bound on this machine; `None` if it is exact.
fn beyond_form(topology: &Topology) -> Option<&'static str> {
    match (topology.spec().buffers, topology.spec().hbm.rows) {
        (None, None) => None,
        (Some(_), _) => Some("a lower bound: the closed form knows no finite buffers"),
        (None, Some(_)) => Some("a lower bound: the closed form knows no rows of the HBM"),
    }
}

/// Sizes with one flit, with short last flits, and with many rounds over the channels.
const SIZES: [u64; 8] = [1, 256, 257, 4 * KIB, 10_000, 64 * KIB, 256 * KIB, 1024 * KIB];

/// Runs every case in every size, with trains and flit by flit. Cases of one direction share a machine, so that no
/// channel ever turns around.
fn sweep(topology: &Topology, cases: Vec<Case>) -> Check<'_> {
    let slice = topology.spec().hbm.slice.get();
    let all = cases.len() * SIZES.len() * 2;
    let reason = beyond_form(topology);
    let is_bound = reason.is_some();
    let measure = move || {
        let equal = |(direction, trains): (Direction, bool)| {
            let cases = cases.iter().filter(|case| case.direction == direction);
            let transfers: Vec<_> = cases
                .flat_map(|case| SIZES.iter().map(move |&bytes| (case, bytes.min(slice))))
                .collect();
            let all = ours(topology, trains, &transfers);
            let holds =
                |&(form, ours): &(u64, u64)| if is_bound { form <= ours } else { form == ours };
            all.into_iter().filter(holds).count()
        };
        let runs = [(Read, true), (Read, false), (Write, true), (Write, false)];
        runs.into_iter().map(equal).sum::<usize>() as f64
    };
    let form = if is_bound { "no faster than the form" } else { "as the form" };
    let name = format!("all these from 1 B to 1 MiB, merged and flit by flit: {form}");
    let check =
        Check::new(CheckKind::Exact, name, Expected::equal(all as f64, "cases"), FORMULA, measure);
    reason.into_iter().fold(check.own(), Check::because)
}

/// Checks the form by hand, and the simple form, which is exact if the slowest link comes last.
fn by_hand<'t>(topology: &'t Topology, case: &Case, bytes: u64) -> Vec<Check<'t>> {
    let flits = bytes.div_ceil(topology.spec().flit.get());
    let way = by_hand::Way::new(topology, case.from.as_deref(), &case.to);
    let check = |kind, form: &str, ps, source| {
        let (name, case) = (format!("{}, {}, {form}", case.name, size(bytes)), case.clone());
        let ours = move || ns(ours(topology, true, &[(&case, bytes)])[0].1);
        Check::new(kind, name, Expected::ns(ns(ps)), source, ours).own().on_default()
    };
    let mut checks =
        vec![check(CheckKind::Exact, "by hand", way.latency(case.direction, flits), BY_HAND)];
    if let Some(simple) = way.latency_without_catching_up(case.direction, flits) {
        let form = |kind| check(kind, "simple form", simple, DESIGN);
        checks.push(if way.ends_slowest(case.direction) {
            form(CheckKind::Exact)
        } else {
            form(CheckKind::Indicative).because(CATCH_UP)
        });
    }
    checks
}

fn size(bytes: u64) -> String {
    if bytes.is_multiple_of(KIB) { format!("{} KiB", bytes / KIB) } else { format!("{bytes} B") }
}

//! Sequential steps of an all-reduce, alone on a machine whose cubes have one PE.

use cubeyard_device::request::PeRef;
use cubeyard_device::topology::{CubesSpec, SipTopology, SipsSpec, Topology};
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_sim::Span;

use super::cost::Cost;

/// Size of a credit in bytes, the runtime's default.
const CREDIT: u64 = 16;

/// A part of the total time, repeated a number of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Description of the part.
    pub what: &'static str,
    /// Number of sequential repetitions.
    pub times: u64,
    /// Duration of all repetitions together.
    pub takes: Span,
}

impl Part {
    fn of(what: &'static str, times: u64, each: Span) -> Self {
        Self { what, times, takes: each * times }
    }
}

/// Returns the total duration of all parts.
pub fn total(parts: &[Part]) -> Span {
    parts.iter().map(|part| part.takes).sum()
}

/// Returns PE 0 of a cube of a SIP.
fn pe(sip: u64, cube: u64) -> PeRef {
    let small = |number: u64| u32::try_from(number).expect("few SIPs and cubes");
    let sip = SipId::new(small(sip)).expect("a SIP of the machine");
    let cube = CubeId::new(small(cube)).expect("a cube of the SIP");
    PeRef { sip, cube, pe: PeId::new(0).expect("the first PE") }
}

/// Returns the parts of every form, for a number of sequential messages and additions. Some messages wait for a store
/// and some for a credit.
fn parts(cost: &Cost<'_>, counts: Counts, messages: Vec<Part>) -> Vec<Part> {
    let [write, read] = cost.slots();
    let first = pe(0, 0);
    let mut parts = vec![
        Part::of("dispatch of the load, and the scheduler", 1, cost.start()),
        Part::of("load", 1, cost.load(first)),
    ];
    let count = messages.iter().map(|part| part.times).sum();
    parts.extend(messages);
    parts.extend([
        Part::of("slots written", count, write),
        Part::of("slots read", count, read),
        Part::of("additions", counts.additions, cost.addition()),
        Part::of("sends behind a store", counts.behind_stores, cost.wire()),
        Part::of("sends and stores behind a credit", counts.behind_credits, cost.credit(CREDIT)),
        Part::of("store", 1, cost.store(first)),
    ]);
    parts
}

/// Numbers of sequential events besides messages.
#[derive(Clone, Copy)]
struct Counts {
    additions: u64,
    behind_stores: u64,
    behind_credits: u64,
}

/// Returns the parts of the published all-reduce of tiles of `bytes` bytes. The numbers of cubes per row and
/// column must be 1 or even: then the sum from the nearer side arrives first. SIPs must form rings in each
/// dimension.
pub fn lrab(topology: &Topology, bytes: u64) -> Vec<Part> {
    let (cost, SipsSpec { topology: sips, w, h, .. }) =
        (Cost::new(topology, bytes), topology.spec().sips);
    assert!(sips != SipTopology::Mesh2dNoWrap, "rings of SIPs only");
    let rings: Vec<u64> = [w, h].into_iter().filter(|&side| side > 1).map(u64::from).collect();
    let around = rings.iter().map(|side| side - 1).sum();
    let (hops, root, meetings) = to_the_middle(topology.spec().cubes);
    let cubes = hops.len() as u64;
    let both = |&(from, to): &(u64, u64)| {
        cost.message(pe(0, from), pe(0, to)) + cost.message(pe(0, to), pe(0, from))
    };
    let sips = if around > 0 { cost.message(pe(0, root), pe(1, root)) } else { Span::ZERO };
    let messages = vec![
        Part {
            what: "messages between cubes",
            times: 2 * cubes,
            takes: hops.iter().map(both).sum(),
        },
        Part::of("messages between SIPs", around, sips),
    ];
    let counts = Counts {
        // One per hop; one more where two sides meet; around a ring, the additions after the last tile, up to the root
        // of a binary tree.
        additions: cubes + meetings + rings.iter().map(|&side| depth(side)).sum::<u64>(),
        behind_stores: cubes,
        behind_credits: cubes + rings.iter().map(|side| side - 2).sum::<u64>(),
    };
    parts(&cost, counts, messages)
}

/// Returns the hops from the corner along its row to the middle column, and along the column to the middle; the cube
/// there; and the number of positions where sums from two sides meet.
fn to_the_middle(CubesSpec { w, h }: CubesSpec) -> (Vec<(u64, u64)>, u64, u64) {
    assert!([w, h].iter().all(|&side| side == 1 || side % 2 == 0), "{w} x {h} cubes");
    let (w, h) = (u64::from(w), u64::from(h));
    let (column, row) = (w / 2, h / 2);
    let along = (0..column).map(|x| (x, x + 1));
    let down = (0..row).map(|y| (column + y * w, column + (y + 1) * w));
    let meetings = [w, h].iter().filter(|&&side| side > 2).count() as u64;
    (along.chain(down).collect(), column + row * w, meetings)
}

/// Returns the parts of a ring of SIPs with one PE: parts travel around once to be added, and once more to be stored.
pub fn ring(topology: &Topology, bytes: u64) -> Vec<Part> {
    let ranks = u64::from(topology.spec().sips.count);
    let steps = ranks - 1;
    let counts = Counts { additions: steps, behind_stores: steps, behind_credits: steps };
    between(topology, bytes / ranks, 2 * steps, counts)
}

/// Returns the parts of the direct algorithm for two SIPs with one PE: a ring whose ranks load the part that they keep
/// before the part that they send.
pub fn direct(topology: &Topology, bytes: u64) -> Vec<Part> {
    assert_eq!(topology.spec().sips.count, 2, "with more, messages share the wires of a rank");
    let mut parts = ring(topology, bytes);
    let kept = Cost::new(topology, bytes / 2).load(pe(0, 0));
    parts.push(Part::of("load of what is kept", 1, kept));
    parts
}

/// Returns the parts of two trees of SIPs with one PE, each with half of the bytes, up and down the deeper tree.
pub fn tree(topology: &Topology, bytes: u64) -> Vec<Part> {
    // Each step up doubles the lowest bit of a rank, until none is left.
    let depth = depth(topology.spec().sips.count.into());
    let counts = Counts { additions: depth, behind_stores: depth, behind_credits: depth };
    between(topology, bytes / 2, 2 * depth, counts)
}

/// Returns the depth of a binary tree with at least two leaves: the binary logarithm, rounded up.
fn depth(leaves: u64) -> u64 {
    u64::from((leaves - 1).ilog2()) + 1
}

fn between(topology: &Topology, bytes: u64, steps: u64, counts: Counts) -> Vec<Part> {
    let cost = Cost::new(topology, bytes);
    let messages = vec![Part::of("messages", steps, cost.message(pe(0, 0), pe(1, 0)))];
    parts(&cost, counts, messages)
}

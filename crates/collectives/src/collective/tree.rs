//! Two binary trees, each for half of the data; the leaves of one are inner nodes of the other.
//!
//! Pieces travel up one tree, combined on the way, and down again, pipelined. A reduce or a broadcast of a long
//! message therefore takes hardly longer than sending the message once; a short message takes 2 log₂ n steps. In
//! an all-reduce a rank sends and receives twice its input, n / (n − 1) times as much as in a ring.
//!
//! NCCL uses the same trees: in the first, odd ranks are leaves; the second is its mirror image, or the first
//! shifted by one if the number of ranks is odd.

mod stages;

use std::ops::Range;

use super::member::Member;
use super::{
    Algorithm, Job, Operation, Order, Orders, PePart, ReduceOp, Schedule, Wire, World, kernel,
};
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::{Port, Tile};

/// Two binary trees, pipelined.
#[derive(Clone, Copy, Debug)]
pub struct Tree;

impl Algorithm for Tree {
    fn name(&self) -> &'static str {
        "tree"
    }

    fn refuses(&self, operation: Operation, _: &World) -> Option<String> {
        match operation {
            Operation::AllReduce(_) | Operation::Reduce(..) | Operation::Broadcast(_) => None,
            other => Some(format!("{} is not supported; use direct", other.name())),
        }
    }

    fn wires(&self, world: &World) -> Vec<Wire> {
        let wire = |tree: usize, rank: usize| {
            let up = parent(tree, rank, world.ranks)?;
            Some(Wire { ends: [(rank, port(tree, 0)), (up, port_to_child(tree, rank, up, world))] })
        };
        [0, 1]
            .iter()
            .flat_map(|&tree| (0..world.ranks).filter_map(move |r| wire(tree, r)))
            .collect()
    }

    fn kernel(&self, job: &Job) -> Kernel {
        kernel(self, job, run)
    }

    fn schedule(&self, operation: Operation, world: &World) -> Option<Schedule> {
        stages::schedule(operation, world)
    }

    fn orders(&self, operation: Operation, world: &World, part: PePart) -> Option<Orders> {
        let goal = match operation {
            Operation::AllReduce(_) => None,
            Operation::Reduce(_, root) => Some(root),
            _ => return None,
        };
        let of_tree = |tree: usize| {
            let top = || ancestors(tree, 0, world.ranks).last().expect("itself at least");
            let root = goal.unwrap_or_else(top);
            order(tree, root, root, world.ranks)
        };
        Some(part.by_parts(2, of_tree))
    }
}

/// Returns the parent of a rank in the first tree, if it has one.
fn first_parent(rank: usize, ranks: usize) -> Option<usize> {
    let bit = rank & rank.wrapping_neg();
    let up = (rank ^ bit) | (bit << 1);
    (rank > 0).then_some(if up < ranks { up } else { rank ^ bit })
}

/// Returns the parent of a rank in either tree, if it has one.
fn parent(tree: usize, rank: usize, ranks: usize) -> Option<usize> {
    match (tree, ranks.is_multiple_of(2)) {
        (0, _) => first_parent(rank, ranks),
        (_, true) => first_parent(ranks - 1 - rank, ranks).map(|up| ranks - 1 - up),
        (_, false) => first_parent((rank + ranks - 1) % ranks, ranks).map(|up| (up + 1) % ranks),
    }
}

/// Returns a rank and its ancestors up to the root.
fn ancestors(tree: usize, rank: usize, ranks: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(rank), move |&rank| parent(tree, rank, ranks))
}

fn children(tree: usize, rank: usize, ranks: usize) -> impl Iterator<Item = usize> {
    (0..ranks).filter(move |&child| parent(tree, child, ranks) == Some(rank))
}

/// Returns a port of a tree: 0 leads to the parent, the others to children.
fn port(tree: usize, place: usize) -> Port {
    Port(u16::try_from(8 * tree + place).expect("two trees of few branches"))
}

fn port_to_child(tree: usize, child: usize, up: usize, world: &World) -> Port {
    let place = children(tree, up, world.ranks).position(|other| other == child);
    port(tree, 1 + place.expect("its parent's child"))
}

fn run(pe: &Member) {
    let operation = pe.job.operation;
    let goal = match operation {
        Operation::AllReduce(_) => None,
        Operation::Reduce(_, root) | Operation::Broadcast(root) => Some(root),
        other => unreachable!("refused: {other}"),
    };
    let branches = [0, 1].map(|tree| {
        let pieces = pe.pieces(&pe.input.part(tree, 2)).collect();
        Branch::new(tree, pe.rank, pe.ranks(), goal, pieces)
    });
    let ends = branches.iter().map(|branch| branch.ticks(operation));
    for tick in 0..ends.max().unwrap_or(0) {
        branches.iter().for_each(|branch| step(pe, branch, tick));
    }
}

/// A rank's place in one of the trees, rooted at any rank.
struct Branch {
    /// Port toward the root, unless this rank is the root.
    toward: Option<Port>,
    /// Ports away from the root.
    away: Vec<Port>,
    /// Number of edges to the root.
    distance: usize,
    /// Number of edges from the root to the farthest rank.
    depth: usize,
    pieces: Vec<Range<u64>>,
}

impl Branch {
    fn new(
        tree: usize,
        rank: usize,
        ranks: usize,
        root: Option<usize>,
        pieces: Vec<Range<u64>>,
    ) -> Self {
        let top = ancestors(tree, rank, ranks).last().expect("itself at least");
        let root = root.unwrap_or(top);
        let (toward, away) = ways(tree, rank, root, ranks);
        Self {
            toward: toward.first().map(|(port, _)| *port),
            away: away.into_iter().map(|(port, _)| port).collect(),
            distance: distance(tree, rank, root, ranks),
            depth: (0..ranks).map(|other| distance(tree, other, root, ranks)).max().unwrap_or(0),
            pieces,
        }
    }

    /// Returns the ticks at which this rank handles the first piece on its way up and on its way down.
    ///
    /// Each rank is one tick behind the ranks from which it receives. All ranks follow one clock. So there is no
    /// circular wait, however few slots there are, and pieces go up while others come down.
    fn begins(&self, operation: Operation) -> [Option<usize>; 2] {
        match operation {
            Operation::Reduce(..) => [Some(self.depth - self.distance), None],
            Operation::Broadcast(_) => [None, Some(self.distance)],
            // Complete pieces go down from the root at once.
            _ if self.toward.is_none() => [Some(self.depth), None],
            _ => [Some(self.depth - self.distance), Some(self.depth + self.distance)],
        }
    }

    fn ticks(&self, operation: Operation) -> usize {
        let last = self.begins(operation).into_iter().flatten().max();
        last.unwrap_or(0) + self.pieces.len()
    }
}

/// Port to a neighbour in a tree, and the rank of the neighbour.
type Way = (Port, usize);

/// Returns the ways from a rank toward the root of a tree, and away from it.
fn ways(tree: usize, rank: usize, root: usize, ranks: usize) -> (Vec<Way>, Vec<Way>) {
    let up = parent(tree, rank, ranks).map(|up| (port(tree, 0), up));
    let down = children(tree, rank, ranks).enumerate();
    let ways = up.into_iter().chain(down.map(|(at, child)| (port(tree, 1 + at), child)));
    let here = distance(tree, rank, root, ranks);
    ways.partition(|&(_, other)| distance(tree, other, root, ranks) < here)
}

/// Returns the order in which a rank combines the values from the ports away from the root with its own.
fn order(tree: usize, rank: usize, root: usize, ranks: usize) -> Order {
    let (_, away) = ways(tree, rank, root, ranks);
    Order::Rank(rank).then(away.into_iter().map(|(_, other)| order(tree, other, root, ranks)))
}

/// Returns the number of edges between two ranks of a tree.
fn distance(tree: usize, a: usize, b: usize, ranks: usize) -> usize {
    let above: Vec<_> = ancestors(tree, b, ranks).collect();
    let meets = |rank| above.iter().position(|&other| other == rank);
    let mut ways = ancestors(tree, a, ranks).enumerate();
    let met = ways.find_map(|(steps, rank)| Some(steps + meets(rank)?));
    met.expect("the root of the tree is above both")
}

fn step(pe: &Member, branch: &Branch, tick: usize) {
    let operation = pe.job.operation;
    let [up, down] = branch.begins(operation).map(|begin| {
        let place = tick.checked_sub(begin?)?;
        branch.pieces.get(place)
    });
    if let (Operation::AllReduce(op) | Operation::Reduce(op, _), Some(range)) = (operation, up) {
        go_up(pe, branch, op, range);
    }
    if let Some(range) = down {
        go_down(pe, branch, range);
    }
}

/// Combines pieces from the ports away from the root with the local piece and passes the result on. At the root the
/// result is complete.
fn go_up(pe: &Member, branch: &Branch, op: ReduceOp, range: &Range<u64>) {
    let mut tile = pe.load(range);
    for &port in &branch.away {
        tile = pe.join(op, &tile, &pe.receive(port, range));
    }
    let Some(toward) = branch.toward else {
        let and_back = matches!(pe.job.operation, Operation::AllReduce(_));
        return spread(pe, branch, range, &pe.finish(op, tile), and_back);
    };
    pe.tl.send(toward, &tile);
}

fn go_down(pe: &Member, branch: &Branch, range: &Range<u64>) {
    let tile = match branch.toward {
        Some(port) => pe.receive(port, range),
        None => pe.load(range),
    };
    spread(pe, branch, range, &tile, true);
}

fn spread(pe: &Member, branch: &Branch, range: &Range<u64>, tile: &Tile, further: bool) {
    if further {
        branch.away.iter().for_each(|&port| pe.tl.send(port, tile));
    }
    pe.store(range, tile);
}

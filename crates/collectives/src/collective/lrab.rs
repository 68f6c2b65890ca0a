//! LRAB, the published hierarchical all-reduce: to the middle of each SIP, between the SIPs, and back.
//!
//! Cubes are reduced along their rows toward the middle column, from both sides, and along that column toward
//! its middle. The root cube then holds the sum of its SIP. Root cubes exchange their sums: along a dimension of
//! SIPs that is a ring, all tiles travel all the way around; along others, to the end and back. Then the result is
//! broadcast along the same paths.
//!
//! In a ring every SIP combines all tiles by itself, and tiles reach each SIP in a different order. All SIPs combine
//! them by the same binary tree over the places of the ring, so all get the same bits. Branches of the tree are
//! joined as soon as they are complete: at most ⌈log₂ n⌉ joins follow the last tile.
//!
//! As published, one PE of each cube holds its tile, and the tile is one message: place tensors on one PE and
//! use slots as long as the tile. Longer tiles are split into pieces.

mod branches;
mod stated;

use std::ops::Range;

use super::member::Member;
use super::schedule::there_and_back;
use super::{
    Algorithm, Job, Operation, Orders, PePart, ReduceOp, Schedule, Stage, Wire, World, kernel,
};
use branches::Branches;
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::{Port, Tile};

/// The published hierarchical all-reduce.
#[derive(Clone, Copy, Debug)]
pub struct Lrab;

impl Algorithm for Lrab {
    fn name(&self) -> &'static str {
        "lrab"
    }

    fn refuses(&self, operation: Operation, world: &World) -> Option<String> {
        if !matches!(operation, Operation::AllReduce(_)) {
            return Some(format!("{} is not supported, only all_reduce", operation.name()));
        }
        let is_of_pes = world.grid.len() == 5 || world.wraps == [false, false, false, true];
        is_of_pes.then(|| "its ranks are cubes or SIPs, not PEs".to_owned())
    }

    fn wires(&self, world: &World) -> Vec<Wire> {
        let all = 0..world.grid.len();
        all.flat_map(|dimension| wires_along(world, dimension)).collect()
    }

    fn kernel(&self, job: &Job) -> Kernel {
        kernel(self, job, run)
    }

    fn schedule(&self, operation: Operation, world: &World) -> Option<Schedule> {
        if self.refuses(operation, world).is_some() {
            return None;
        }
        let cubes = cube_dimensions(world);
        let inward: Vec<_> =
            (0..cubes).flat_map(|along| toward(world, along, middle(world, along))).collect();
        let outward = inward.iter().rev().map(Stage::reversed);
        let between = (cubes..world.grid.len()).flat_map(|along| {
            let last = world.grid[along] - 1;
            if !is_ring(world, along) {
                return there_and_back(toward(world, along, last));
            }
            let wires = wires_along(world, along).into_iter();
            let wires = wires.map(|wire| wire.ends.map(|(rank, _)| rank).into());
            let pairs = wires.filter(|&(rank, _): &(usize, usize)| is_at_work(world, along, rank));
            vec![Stage::repeated(last, pairs, 1.0)]
        });
        Some(Schedule::in_turn(inward.iter().cloned().chain(between).chain(outward).collect()))
    }

    fn orders(&self, operation: Operation, world: &World, part: PePart) -> Option<Orders> {
        let is_refused = self.refuses(operation, world).is_some();
        (!is_refused).then(|| part.whole(stated::order(world, world.grid.len(), 0)))
    }
}

/// Returns whether a rank takes part along a dimension: whether it is in the middle of all earlier dimensions of cubes.
fn is_at_work(world: &World, dimension: usize, rank: usize) -> bool {
    let before = 0..dimension.min(cube_dimensions(world));
    before.into_iter().all(|inner| world.coordinate(rank, inner) == middle(world, inner))
}

/// Returns the stages of a reduction along a dimension toward a coordinate, hop by hop, from both sides.
fn toward(world: &World, dimension: usize, root: usize) -> Vec<Stage> {
    let stride = world.stride(dimension);
    let at = |rank: usize| world.coordinate(rank, dimension);
    let hop = |rank: usize| {
        let nearer = if at(rank) > root { rank - stride } else { rank + stride };
        (rank, nearer)
    };
    let farthest = root.max(world.grid[dimension] - 1 - root);
    let stage = |distance: usize| {
        let those = |&rank: &usize| {
            at(rank).abs_diff(root) == distance && is_at_work(world, dimension, rank)
        };
        Stage::of((0..world.ranks).filter(those).map(hop), 1.0)
    };
    (1..=farthest).rev().map(stage).collect()
}

/// Returns the number of dimensions of cubes; a world of SIPs has only one or two dimensions in all.
fn cube_dimensions(world: &World) -> usize {
    if world.grid.len() > 2 { 2 } else { 0 }
}

/// Returns the coordinate toward which a dimension of cubes is reduced.
fn middle(world: &World, dimension: usize) -> usize {
    world.grid[dimension] / 2
}

/// Returns the ports up and down a dimension.
fn ports(dimension: usize) -> [Port; 2] {
    let first = u16::try_from(2 * dimension).expect("few dimensions");
    [Port(first), Port(first + 1)]
}

/// Wires each rank to the next; also the last to the first in a ring of SIPs.
fn wires_along(world: &World, dimension: usize) -> Vec<Wire> {
    let (count, stride) = (world.grid[dimension], world.stride(dimension));
    let [up, down] = ports(dimension);
    let wire = |rank: usize| {
        let at = world.coordinate(rank, dimension);
        let next = match at + 1 {
            next if next < count => rank + stride,
            _ if is_ring(world, dimension) => rank - at * stride,
            _ => return None,
        };
        Some(Wire { ends: [(rank, up), (next, down)] })
    };
    (0..world.ranks).filter_map(wire).collect()
}

fn is_ring(world: &World, dimension: usize) -> bool {
    dimension >= cube_dimensions(world) && world.wraps[dimension] && world.grid[dimension] > 1
}

fn run(pe: &Member) {
    let Operation::AllReduce(op) = pe.job.operation else {
        unreachable!("refused: {}", pe.job.operation)
    };
    let lrab = LrabMember { pe, op };
    pe.pieces(&pe.whole()).for_each(|range| lrab.all_reduce(&range));
}

/// A PE of a rank, and the operator of the all-reduce.
struct LrabMember<'p> {
    pe: &'p Member,
    op: ReduceOp,
}

impl<'p> LrabMember<'p> {
    fn world(&self) -> &'p World {
        &self.pe.job.world
    }

    fn at(&self, dimension: usize) -> usize {
        self.world().coordinate(self.pe.rank, dimension)
    }

    fn join(&self, tile: &Tile, come: &Tile) -> Tile {
        self.pe.join(self.op, tile, come)
    }

    fn all_reduce(&self, range: &Range<u64>) {
        let mut tile = self.pe.load(range);
        let cubes = cube_dimensions(self.world());
        // A cube outside the middle of a dimension takes no part in later dimensions.
        let is_aside = |&dimension: &usize| self.at(dimension) != middle(self.world(), dimension);
        let aside = (0..cubes).find(is_aside);
        let mine = 0..aside.map_or(cubes, |dimension| dimension + 1);
        for dimension in mine.clone() {
            tile = self.toward(dimension, middle(self.world(), dimension), tile, range);
        }
        if aside.is_none() {
            tile = self.between_sips(cubes, tile, range);
        }
        for dimension in mine.rev() {
            tile = self.from(dimension, middle(self.world(), dimension), tile, range);
        }
        self.pe.store(range, &tile);
    }

    fn between_sips(&self, cubes: usize, mut tile: Tile, range: &Range<u64>) -> Tile {
        for dimension in cubes..self.world().grid.len() {
            if is_ring(self.world(), dimension) {
                tile = self.around(dimension, tile, range);
            } else {
                let end = self.world().grid[dimension] - 1;
                tile = self.toward(dimension, end, tile, range);
                tile = self.from(dimension, end, tile, range);
            }
        }
        self.pe.finish(self.op, tile)
    }

    /// Returns the port toward the coordinate `root`, `None` at the coordinate itself, and the ports away from it.
    fn ways(&self, dimension: usize, root: usize) -> (Option<Port>, Vec<Port>) {
        let (at, end) = (self.at(dimension), self.world().grid[dimension] - 1);
        let [up, down] = ports(dimension);
        let lower = (at > 0).then_some(down);
        let upper = (at < end).then_some(up);
        match at.cmp(&root) {
            std::cmp::Ordering::Less => (upper, lower.into_iter().collect()),
            std::cmp::Ordering::Greater => (lower, upper.into_iter().collect()),
            std::cmp::Ordering::Equal => (None, lower.into_iter().chain(upper).collect()),
        }
    }

    /// Reduces along a dimension toward a coordinate, from both sides.
    fn toward(&self, dimension: usize, root: usize, mut tile: Tile, range: &Range<u64>) -> Tile {
        let (toward, away) = self.ways(dimension, root);
        for port in away {
            tile = self.join(&tile, &self.pe.receive(port, range));
        }
        if let Some(port) = toward {
            self.pe.tl.send(port, &tile);
        }
        tile
    }

    /// Broadcasts along a dimension from a coordinate, to both sides.
    fn from(&self, dimension: usize, root: usize, mut tile: Tile, range: &Range<u64>) -> Tile {
        let (toward, away) = self.ways(dimension, root);
        if let Some(port) = toward {
            tile = self.pe.receive(port, range);
        }
        away.into_iter().for_each(|port| self.pe.tl.send(port, &tile));
        tile
    }

    /// Sends every tile all the way around a ring, and combines them by one tree.
    fn around(&self, dimension: usize, tile: Tile, range: &Range<u64>) -> Tile {
        let [up, down] = ports(dimension);
        let (at, count) = (self.at(dimension), self.world().grid[dimension]);
        let mut branches = Branches::new(count);
        let mut sum = branches.add(at, tile.clone(), |a, b| self.join(a, b));
        let mut passing = tile;
        for step in 1..count {
            self.pe.tl.send(up, &passing);
            passing = self.pe.receive(down, range);
            let from = (at + count - step) % count;
            sum = branches.add(from, passing.clone(), |a, b| self.join(a, b));
        }
        sum.expect("complete with the last tile")
    }
}

//! Element-wise operators whose tensors differ in layout: boxes of elements, dealt over the PEs.

use std::rc::Rc;

use cubeyard_kernels::ahead;
use cubeyard_tl::{Ref, Tile, Tl};

use super::Streams;
use crate::compute::pass;
use crate::cost::Measured;
use crate::error::OperatorError;
use crate::machine::{OperatorMachine, Stage, address};
use crate::nest::Nest;
use crate::steady::steady;
use crate::tensor::Tensor;

/// Elements of a box; fewer for a tensor without contiguous elements, each of which is a burst.
const BOX: u64 = 16 << 10;
const SPARSE: u64 = 2 << 10;

/// Extent of a box along the fast axis of a tensor, where axes differ: rows of some bursts.
const EDGE: u64 = 128;

/// Steps that are simulated of a longer kernel.
const FEW: [u64; 2] = [2, 4];

/// Boxes of the elements.
#[derive(Debug)]
pub(super) struct Boxes {
    nest: Nest,
    /// Extents of a box.
    extents: Vec<u64>,
    pes: u64,
}

impl Boxes {
    pub(super) fn new(machine: &OperatorMachine, nest: Nest) -> Self {
        let is_sparse =
            nest.strides.iter().any(|of| !of.contains(&1) && of.iter().any(|stride| *stride != 0));
        let room = machine.scratch() / (8 * 4 * (nest.strides.len() as u64 + 1));
        let most = if is_sparse { SPARSE } else { BOX }.min(room.max(1));
        let pes = machine.pes();
        // Small tensors are cut so that each PE has a box, but not below a burst for each row.
        let all: u64 = nest.sizes.iter().product();
        let most = most.min((all / pes).max(256));
        let mut extents = vec![1; nest.sizes.len()];
        let mut taken = 1;
        let fast: Vec<_> = nest
            .strides
            .iter()
            .filter_map(|of| of.iter().rposition(|stride| *stride == 1))
            .collect();
        let is_mixed = fast.iter().any(|axis| *axis != fast[0]);
        for axis in fast.into_iter().chain((0..nest.sizes.len()).rev()) {
            if extents[axis] == 1 && taken < most {
                let edge = if is_mixed { EDGE.min(most / taken) } else { most / taken };
                extents[axis] = nest.sizes[axis].min(edge.max(1));
                taken *= extents[axis];
            }
        }
        Self { nest, extents, pes }
    }

    fn counts(&self) -> Vec<u64> {
        self.nest
            .sizes
            .iter()
            .zip(&self.extents)
            .map(|(size, extent)| size.div_ceil(*extent))
            .collect()
    }

    fn steps(&self) -> u64 {
        self.counts().iter().product::<u64>().div_ceil(self.pes)
    }

    /// Returns first index and shape of the boxes of a PE.
    fn boxes(&self, turn: u64, steps: u64) -> Vec<(Vec<u64>, Vec<u64>)> {
        let counts = self.counts();
        let all: u64 = counts.iter().product();
        let numbers =
            (0..steps).map(|step| turn + step * self.pes).take_while(|number| *number < all);
        let one = |mut number: u64| {
            let mut start = vec![0; counts.len()];
            for axis in (0..counts.len()).rev() {
                start[axis] = number % counts[axis] * self.extents[axis];
                number /= counts[axis];
            }
            let edge = |axis: usize| self.extents[axis].min(self.nest.sizes[axis] - start[axis]);
            let shape = (0..counts.len()).map(edge).collect();
            (start, shape)
        };
        numbers.map(one).collect()
    }

    /// Returns the part of a tensor in a box, with its axes in the order of memory, and the axes of the box in that order.
    /// An axis along which the tensor is broadcast has length 1.
    fn part(
        &self,
        at: usize,
        tensor: &Tensor,
        storage: usize,
        start: &[u64],
        shape: &[u64],
    ) -> (Ref, Vec<usize>) {
        let strides = &self.nest.strides[at];
        let offset: u64 = start.iter().zip(strides).map(|(at, stride)| at * stride).sum();
        let mut axes: Vec<usize> = (0..shape.len()).collect();
        axes.sort_by_key(|&axis| (strides[axis] != 0, std::cmp::Reverse(strides[axis])));
        let lengths: Vec<_> =
            axes.iter().map(|&axis| if strides[axis] == 0 { 1 } else { shape[axis] }).collect();
        let steps: Vec<_> = axes.iter().map(|&axis| strides[axis]).collect();
        let from = address(storage) + offset * tensor.dtype.size();
        (Ref::new(from, &lengths, tensor.dtype).strided(&steps), axes)
    }
}

/// Runs an element-wise operator in boxes.
pub(super) fn boxes(
    machine: &OperatorMachine,
    streams: &Streams,
    nest: Nest,
) -> Result<(String, Measured), OperatorError> {
    let boxes = Rc::new(Boxes::new(machine, nest));
    let name = format!("pointwise boxes {:?}", boxes.extents);
    let run = |steps| machine.run(&name, &streams.storages(), &[stage(streams, &boxes, steps)]);
    let measured = steady(boxes.steps(), machine.few(FEW), run)?;
    Ok((name.clone(), measured))
}

fn stage(streams: &Streams, boxes: &Rc<Boxes>, steps: u64) -> Stage {
    let (tensors, operands, work) = (streams.tensors.clone(), streams.operands, streams.work);
    let (places, boxes) = (streams.places.clone(), Rc::clone(boxes));
    Rc::new(move |tl: &Tl, turn| {
        let part = |at: usize, start: &[u64], shape: &[u64]| {
            boxes.part(at, &tensors[at], places[at], start, shape)
        };
        let loads = boxes.boxes(turn, steps).into_iter().map(|(start, shape)| {
            let load = |at: usize| {
                let (memory, axes) = part(at, &start, &shape);
                ordered(tl, tl.load(&memory), &inverse(&axes))
            };
            let tiles = (0..operands).map(load).collect::<Vec<_>>();
            (start, shape, tiles)
        });
        let results: Vec<_> = tensors[operands..].iter().map(|tensor| tensor.dtype).collect();
        for (start, shape, loaded) in ahead(loads) {
            for (at, done) in (operands..).zip(pass(tl, &loaded, &shape, work, &results)) {
                let (memory, axes) = part(at, &start, &shape);
                tl.store(&memory, &ordered(tl, done, &axes));
            }
        }
    })
}

/// Permutes a tile, unless only axes of length 1 change places, which costs nothing.
fn ordered(tl: &Tl, tile: Tile, axes: &[usize]) -> Tile {
    let long: Vec<_> = axes.iter().filter(|&&axis| tile.dim(axis) != 1).collect();
    if long.windows(2).all(|pair| pair[0] < pair[1]) {
        let shape: Vec<_> = axes.iter().map(|&axis| tile.dim(axis)).collect();
        return if *tile.ty().shape == *shape { tile } else { tl.reshape(&tile, &shape) };
    }
    tl.permute(&tile, axes)
}

fn inverse(axes: &[usize]) -> Vec<usize> {
    let mut back = vec![0; axes.len()];
    axes.iter().enumerate().for_each(|(at, &axis)| back[axis] = at);
    back
}

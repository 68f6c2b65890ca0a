//! What a program on a PE is told: where it runs, and its arguments as it sees them.

use std::ops::Range;
use std::rc::Rc;

use cubeyard_device::request::PeRef;
use cubeyard_device::topology::CoreSpec;

use super::Argument;
use crate::context::{Addressing, DeployedShard, Inner};
use crate::dtype::DType;
use crate::placement::Shard;
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Where a program runs.
#[derive(Clone, Debug)]
pub struct Site {
    /// The PE.
    pub pe: PeRef,
    /// Which of the launch's PEs of its cube it is, and which of the launch's cubes that is.
    pub index: [usize; 2],
    /// How many PEs of a cube, and how many cubes, the launch has.
    pub count: [usize; 2],
    /// Whether memory holds data.
    pub has_data: bool,
    /// The group whose ports it uses.
    pub group: u16,
    /// What the PE can do.
    pub core: Rc<CoreSpec>,
    /// The addresses of all tensors on the device and of the launch's operands, in order: what a program may access.
    pub live: Rc<Vec<Range<u64>>>,
}

/// An argument as a PE sees it.
#[derive(Clone, Debug)]
pub enum BoundArgument {
    /// A tensor.
    Tensor(BoundTensor),
    /// A number.
    Scalar(f64),
}

/// A tensor as a PE sees it.
#[derive(Clone, Debug)]
pub struct BoundTensor {
    /// What its elements are.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
    /// The address of the whole of it, row by row; none if no one range of addresses is that.
    pub whole: Option<u64>,
    /// What this PE holds of it; none if it holds nothing, or the tensor is a view.
    pub local: Option<LocalPart>,
}

/// The part of a tensor that a PE holds: a matrix of its own, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPart {
    /// Its address.
    pub address: u64,
    /// Which rows of the tensor's matrix it is.
    pub rows: Range<u64>,
    /// Which columns of them.
    pub columns: Range<u64>,
}

impl Argument<'_> {
    /// The argument as a PE sees it.
    pub(super) fn bind(&self, pe: PeRef, addressing: Addressing) -> BoundArgument {
        match self {
            Self::Scalar(value) => BoundArgument::Scalar(*value),
            Self::Tensor(tensor) => BoundArgument::Tensor(bind(tensor, pe, addressing)),
            Self::Operand(operand) => {
                let (shape, dtype) = operand.array();
                let whole = Some(operand.range().start);
                BoundArgument::Tensor(BoundTensor { dtype, shape, whole, local: None })
            }
        }
    }
}

fn bind(tensor: &Tensor, pe: PeRef, addressing: Addressing) -> BoundTensor {
    let storage = tensor.storage().expect("checked before");
    let layout = &storage.layout;
    let place = layout.shards().iter().position(|shard| shard.at == pe);
    let address = |place: usize| match (addressing, storage.va_base) {
        (Addressing::Virtual, Some(base)) => base.to_bits() + layout.shards()[place].offset_bytes,
        _ => storage.shards[place].address.to_bits(),
    };
    let is_view = tensor.nbytes().get() != layout.nbytes();
    let local = place.filter(|_| !is_view).map(|place| {
        let Shard { rows, columns, .. } = layout.shards()[place].clone();
        LocalPart { address: address(place), rows, columns }
    });
    let (rows, columns) = layout.shape().matrix();
    let is_all = |part: &LocalPart| part.rows == (0..rows) && part.columns == (0..columns);
    let own = local.as_ref().filter(|part| is_all(part)).map(|part| part.address);
    let virtual_base = storage.va_base.filter(|_| tensor.is_contiguous());
    // Nothing can be accessed of what has no elements, so that any address will do.
    let nowhere = tensor.nbytes().is_zero().then_some(0);
    let whole = virtual_base.map(|base| base.to_bits() + tensor.offset_bytes()).or(own).or(nowhere);
    BoundTensor { dtype: tensor.dtype(), shape: tensor.shape(), whole, local }
}

impl Inner {
    /// The addresses of all tensors on the device, in order.
    pub(super) fn live_ranges(&self) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        for storage in self.live() {
            match storage.va_base {
                Some(base) => {
                    let from = base.to_bits();
                    ranges.push(from..from + storage.layout.nbytes());
                }
                None => ranges.extend(storage.shards.iter().map(DeployedShard::addresses)),
            }
        }
        ranges.sort_by_key(|range| range.start);
        ranges
    }
}

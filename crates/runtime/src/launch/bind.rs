//! Site and arguments of a program on one PE.

use std::ops::Range;
use std::rc::Rc;

use cubeyard_device::request::PeRef;
use cubeyard_device::topology::{CoreSpec, HbmSpec};

use super::Argument;
use crate::context::{Addressing, DeployedShard, Inner};
use crate::dtype::{DType, Scalar};
use crate::placement::Shard;
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Position of a program in its launch, and the resources of its PE.
#[derive(Clone, Debug)]
pub struct Site {
    /// PE that runs the program.
    pub pe: PeRef,
    /// Index of the PE among the launch's PEs of its cube, and of the cube among the launch's cubes.
    pub index: [usize; 2],
    /// Number of the launch's PEs in each cube, and of its cubes.
    pub count: [usize; 2],
    /// Whether memory holds data.
    pub has_data: bool,
    /// Group whose ports the program uses.
    pub group: u16,
    /// Parameters of the PE.
    pub core: Rc<CoreSpec>,
    /// Parameters of the memory of a PE.
    pub hbm: HbmSpec,
    /// Addresses that the program may access: of all deployed tensors and of the launch's operands, in order.
    pub live: Rc<Vec<Range<u64>>>,
}

/// An argument as seen by a PE.
#[derive(Clone, Debug)]
pub enum BoundArgument {
    /// A tensor or an array in a block.
    Tensor(BoundTensor),
    /// A number, passed by value.
    Scalar(Scalar),
}

/// A tensor as seen by a PE.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BoundTensor {
    /// Element type of the tensor.
    pub dtype: DType,
    /// Shape of the tensor.
    pub shape: Shape,
    /// First address of the whole tensor, row-major; `None` if no contiguous range holds it.
    pub whole: Option<u64>,
    /// Part that this PE holds.
    pub local: HeldPart,
}

/// The elements of a tensor that a PE holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldPart {
    /// No element at all.
    Nothing,
    /// A rectangle of the tensor's matrix.
    Rectangle(LocalPart),
    /// Elements of a view that do not form a rectangle of its matrix, by their row-major indices.
    Ragged(Range<u64>),
}

/// Part of a tensor that a PE holds, as a row-major matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalPart {
    /// First address of the part.
    pub address: u64,
    /// Rows of the tensor's matrix.
    pub rows: Range<u64>,
    /// Columns of the tensor's matrix.
    pub columns: Range<u64>,
}

impl Argument<'_> {
    /// Resolves the argument for a PE.
    pub(super) fn bind(&self, pe: PeRef, addressing: Addressing) -> BoundArgument {
        match self {
            Self::Scalar(value) => BoundArgument::Scalar(*value),
            Self::Address(address) => {
                let (whole, local) = (Some(*address), HeldPart::Nothing);
                let (dtype, shape) = (DType::U8, Shape::new(&[1]).expect("one dimension"));
                BoundArgument::Tensor(BoundTensor { dtype, shape, whole, local })
            }
            Self::Tensor(tensor) => BoundArgument::Tensor(bind(tensor, pe, addressing)),
            Self::Operand(operand) => {
                let (shape, dtype) = operand.array();
                let (whole, local) = (Some(operand.range().start), HeldPart::Nothing);
                BoundArgument::Tensor(BoundTensor { dtype, shape, whole, local })
            }
        }
    }
}

fn bind(tensor: &Tensor, pe: PeRef, addressing: Addressing) -> BoundTensor {
    let storage = tensor.storage.as_ref().expect("checked before");
    let layout = &storage.layout;
    let place = layout.shards().iter().position(|shard| shard.at == pe);
    let address = |place: usize| match (addressing, storage.va_base) {
        (Addressing::Virtual, Some(base)) => base.to_bits() + layout.shards()[place].offset_bytes,
        _ => storage.shards[place].address.to_bits(),
    };
    let local = place
        .map_or(HeldPart::Nothing, |place| held(tensor, &layout.shards()[place], address(place)));
    let (rows, columns) = tensor.shape().matrix();
    let own = match &local {
        HeldPart::Rectangle(part) if part.rows == (0..rows) && part.columns == (0..columns) => {
            Some(part.address)
        }
        _ => None,
    };
    let virtual_base = storage.va_base.filter(|_| tensor.is_contiguous());
    // Without elements nothing is accessed, so any address will do.
    let nowhere = tensor.nbytes().is_zero().then_some(0);
    let whole = virtual_base.map(|base| base.to_bits() + tensor.offset_bytes).or(own).or(nowhere);
    BoundTensor { dtype: tensor.dtype(), shape: tensor.shape(), whole, local }
}

/// Returns the part of a tensor or view in a shard of its storage; the shard begins at `address`.
fn held(tensor: &Tensor, shard: &Shard, address: u64) -> HeldPart {
    if !tensor.is_contiguous() {
        // A tensor split by columns has no views with another matrix.
        let Shard { rows, columns, .. } = shard.clone();
        return HeldPart::Rectangle(LocalPart { address, rows, columns });
    }
    let (own, bytes, size) = (tensor.range(), shard.bytes(), tensor.dtype().size());
    let (start, end) = (bytes.start.max(own.start), bytes.end.min(own.end));
    if start >= end {
        return HeldPart::Nothing;
    }
    let elements = (start - own.start) / size..(end - own.start) / size;
    match tensor.shape().rectangle(&elements) {
        Some([rows, columns]) => {
            let address = address + (start - bytes.start);
            HeldPart::Rectangle(LocalPart { address, rows, columns })
        }
        None => HeldPart::Ragged(elements),
    }
}

impl Inner {
    /// Returns the addresses of all deployed tensors, in order.
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

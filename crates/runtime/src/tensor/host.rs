//! Reads and writes by the host, over the fabric.

use std::ops::Range;
use std::sync::Arc;

use cubeyard_device::message::Buffer;
use cubeyard_device::request::{MemoryRange, Request};
use cubeyard_memory::address::PhysAddr;

use super::{Tensor, Values};
use crate::context::{DeployedShard, Storage};
use crate::dtype::{DType, Element};
use crate::error::RuntimeError;
use crate::init::Init;
use crate::placement::Shard;
use crate::shape::Shape;

/// Bytes of a tensor or view that lie in one part, in every copy of the part.
struct Piece<'a> {
    part: &'a Shard,
    copies: &'a [DeployedShard],
    /// Range of the storage's addresses, in bytes.
    range: Range<u64>,
}

impl Piece<'_> {
    /// Returns the physical range in a copy.
    fn within(&self, copy: &DeployedShard) -> MemoryRange {
        let bits = copy.address.to_bits() + (self.range.start - copy.offset_bytes.get());
        let address = PhysAddr::from_bits(bits).expect("within a shard");
        MemoryRange { at: copy.at, address, bytes: self.range.end - self.range.start }
    }
}

impl Storage {
    /// Splits a range of the storage's addresses at the boundaries of parts.
    fn pieces(&self, range: &Range<u64>) -> Vec<Piece<'_>> {
        let parts = self.layout.parts().zip(self.shards.chunks_exact(self.layout.copies()));
        let pieces = parts.map(|(part, copies)| {
            let bytes = part[0].bytes();
            let range = bytes.start.max(range.start)..bytes.end.min(range.end);
            Piece { part: &part[0], copies, range }
        });
        pieces.filter(|piece| !piece.range.is_empty()).collect()
    }
}

impl Tensor {
    /// Reads the elements, row by row, over the fabric. This takes simulated time even without data; then the values
    /// are absent.
    pub fn read<T: Element>(&self) -> Result<Values<T>, RuntimeError> {
        self.check_type::<T>()?;
        Ok(match self.read_bytes()? {
            Values::Known(bytes) => {
                Values::Known(T::slice_from_bytes(&bytes).expect("whole elements were read"))
            }
            Values::Absent => Values::Absent,
        })
    }

    /// Reads the bytes of the elements like [`read`](Self::read).
    pub fn read_bytes(&self) -> Result<Values<u8>, RuntimeError> {
        let storage = self.deployed()?;
        let pieces = storage.pieces(&self.range());
        let mut requests = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            self.context.step()?;
            requests.push(Request::MemoryRead(piece.within(&piece.copies[0])));
        }
        let (read, _) = self.context.fetch(requests)?;
        if !self.context.data {
            return Ok(Values::Absent);
        }
        if self.is_contiguous() {
            return Ok(Values::Known(read.concat()));
        }
        // A tensor split by columns has no partial views, so each piece is a whole part.
        let mut all = vec![0; usize::try_from(self.nbytes().get()).expect("it fits memory")];
        for (piece, bytes) in pieces.iter().zip(read) {
            scatter(piece.part, storage.layout.shape(), self.dtype, &bytes, &mut all);
        }
        Ok(Values::Known(all))
    }

    /// Returns the bytes of the elements: the bytes on the host, shared if the host was given them, or the bytes read
    /// over the fabric. A deployed tensor without data has none: [`RuntimeError::NoData`].
    pub fn bytes(&self) -> Result<Arc<Vec<u8>>, RuntimeError> {
        self.context.check_open()?;
        match self.contents()? {
            Init::Data(bytes) => Ok(bytes),
            Init::Absent => Err(RuntimeError::NoData),
            init => {
                let mut bytes = Vec::new();
                init.fill(self.dtype, 0, self.shape.elements(), &mut bytes)?;
                Ok(Arc::new(bytes))
            }
        }
    }

    /// Writes elements, row by row, over the fabric, into every copy. A view writes only its own bytes.
    pub fn write<T: Element>(&self, elements: &[T]) -> Result<(), RuntimeError> {
        self.deployed()?;
        self.check_type::<T>()?;
        self.write_bytes(T::slice_to_bytes(elements))
    }

    /// Writes the little-endian bytes of the elements like [`write`](Self::write).
    pub fn write_bytes(&self, bytes: Vec<u8>) -> Result<(), RuntimeError> {
        let storage = self.deployed()?;
        self.check_bytes(bytes.len() as u64)?;
        if self.nbytes().get() == storage.layout.nbytes() {
            let init = Init::Data(Arc::new(bytes));
            return self.context.write_all(&storage.layout, &storage.shards, &init);
        }
        let mut requests = Vec::new();
        for piece in storage.pieces(&self.range()) {
            let place = |at: u64| usize::try_from(at - self.offset_bytes).expect("within the view");
            let own = place(piece.range.start)..place(piece.range.end);
            let buffer = self.context.data.then(|| Buffer::new(bytes[own].to_vec().into()));
            for copy in piece.copies {
                self.context.step()?;
                requests.push((Request::MemoryWrite(piece.within(copy)), buffer.clone()));
            }
        }
        self.context.perform(requests)?;
        Ok(())
    }

    /// Returns the tensor's range of the storage's addresses, in bytes.
    pub(crate) fn range(&self) -> Range<u64> {
        self.offset_bytes..self.offset_bytes + self.nbytes().get()
    }

    fn check_type<T: Element>(&self) -> Result<(), RuntimeError> {
        if T::DTYPE == self.dtype {
            return Ok(());
        }
        Err(RuntimeError::Type { expected: self.dtype, found: T::DTYPE })
    }
}

/// Copies the rows of a part into the whole tensor.
fn scatter(part: &Shard, shape: Shape, dtype: DType, bytes: &[u8], all: &mut [u8]) {
    let (_, columns) = shape.matrix();
    let place = |element: u64| usize::try_from(element).expect("it fits memory") * dtype.width();
    let width = place(part.columns.end - part.columns.start);
    for (row, bytes) in part.rows.clone().zip(bytes.chunks_exact(width)) {
        let from = place(row * columns + part.columns.start);
        all[from..from + width].copy_from_slice(bytes);
    }
}

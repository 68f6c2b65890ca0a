//! Classes `AllocationToken` and `TokenBlock`: names of blocks that no handle owns.

use std::hash::{DefaultHasher, Hash, Hasher};

use cubeyard_memory::flex;
use pyo3::prelude::*;

use super::address::Address;
use super::arguments;

/// Names a block without owning it: two numbers, which fit into a message or a file of this process.
///
/// `Allocation.into_token` gives one; `FlexAllocator.free_token` frees its block, `FlexAllocator.adopt` owns it again. A
/// token of a freed block is refused, even if the place was given to another block.
///
/// >>> from cubeyard.memory import AllocationToken, FlexAllocator
/// >>> allocator = FlexAllocator()
/// >>> token = allocator.allocate(1000).into_token()
/// >>> AllocationToken(*token.parts) == token
/// True
/// >>> allocator.block_of(token).size
/// 1024
/// >>> allocator.free_token(token)
/// >>> allocator.free_token(token)
/// Traceback (most recent call last):
///   ...
/// cubeyard.errors.InputError: the token is stale: its block was freed before
#[pyclass(frozen, eq, module = "cubeyard.memory")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct AllocationToken(pub(crate) flex::AllocationToken);

impl AllocationToken {
    /// Converts an argument.
    pub(crate) fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let found = value.cast::<Self>().map(|token| *token.get());
        found.map_err(|_| arguments::unexpected("token", value, "an AllocationToken"))
    }
}

#[pymethods]
impl AllocationToken {
    #[new]
    fn new(
        #[pyo3(from_py_with = arguments::place)] place: u64,
        #[pyo3(from_py_with = arguments::key)] key: u64,
    ) -> Self {
        Self(flex::AllocationToken::from_parts(place, key))
    }

    /// The two numbers of the token: allocator and region, and block.
    #[getter]
    fn parts(&self) -> (u64, u64) {
        self.0.to_parts()
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.to_parts().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let (place, key) = self.0.to_parts();
        format!("AllocationToken({place:#x}, {key:#x})")
    }
}

/// The block of a token.
#[pyclass(frozen, get_all, module = "cubeyard.memory")]
pub(crate) struct TokenBlock {
    /// Present address of the block. Pin it to keep it there.
    address: Address,
    /// Length of the block in bytes.
    size: u64,
    /// Number of bytes that were asked for.
    requested: u64,
    /// Purpose of the block: "tensor", "program" or "staging".
    kind: &'static str,
}

impl From<flex::TokenBlock> for TokenBlock {
    fn from(block: flex::TokenBlock) -> Self {
        Self {
            address: block.address.into(),
            size: block.size.get(),
            requested: block.requested.get(),
            kind: block.kind.name(),
        }
    }
}

#[pymethods]
impl TokenBlock {
    fn __repr__(&self) -> String {
        let place = cubeyard_memory::VirtualAddress::from(&self.address);
        format!("<TokenBlock of {} at {place}>", cubeyard_memory::Bytes::new(self.size))
    }
}

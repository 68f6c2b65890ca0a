//! Lower bound on the host memory of a run, computed from its parameters alone, before anything is built.

use std::iter::Sum;
use std::ops::Add;

use cubeyard_device::topology::Topology;
use cubeyard_units::Bytes;
use thiserror::Error;

/// Bytes per element in data mode: the input on the host, the element in the memory of a PE, and the reference. Runs of
/// all benches need 13 to 20.
const ELEMENT_BYTES: f64 = 12.0;

/// Bytes per command: its recording, and the operations of each unit. Runs of all benches need 300 to 2,300.
const COMMAND_BYTES: f64 = 300.0;

/// Lower bounds on the objects that a run holds in host memory. They are `f64`, because products of parameters
/// may exceed 64 bits and the estimate need not be exact.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Needs {
    /// Number of elements of all tensors, which are held only in data mode.
    pub elements: f64,
    /// Number of commands of all PEs together, and of tiles of tiled operations.
    pub commands: f64,
}

impl Needs {
    /// Counts the elements of a tensor with these dimensions.
    pub fn elements<const D: usize>(dimensions: [u64; D]) -> Self {
        Self { elements: product(dimensions), commands: 0.0 }
    }

    /// Counts commands, as a product of factors.
    pub fn commands<const D: usize>(counts: [u64; D]) -> Self {
        Self { elements: 0.0, commands: product(counts) }
    }

    /// Counts the tiles of the product of an m × k and a k × n matrix on a machine's matrix unit.
    pub fn tiles(topology: &Topology, [m, k, n]: [u64; 3]) -> Self {
        let gemm = &topology.spec().pe.core.gemm;
        let tile = |length: u64, of: u32| length.div_ceil(u64::from(of.max(1)));
        Self::commands([tile(m, gemm.m), tile(k, gemm.k), tile(n, gemm.n)])
    }

    /// Returns the lower bound on host memory, with or without data.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts of floats saturate"
    )]
    pub fn bytes(self, data: bool) -> Bytes {
        let elements = if data { self.elements * ELEMENT_BYTES } else { 0.0 };
        Bytes::new((elements + self.commands * COMMAND_BYTES) as u64)
    }

    /// Fails if the lower bound exceeds a limit.
    pub fn within(self, limit: Bytes, data: bool) -> Result<(), TooLarge> {
        let bytes = self.bytes(data);
        if bytes <= limit {
            return Ok(());
        }
        Err(TooLarge { bytes, limit, needs: if data { self } else { self.timed() } })
    }

    /// Describes the objects as text.
    fn shown(self) -> String {
        let count = |count: f64, of| (count >= 1.0).then(|| format!("{} {of}", rounded(count)));
        let parts = [count(self.elements, "elements"), count(self.commands, "commands")];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }

    fn timed(self) -> Self {
        Self { elements: 0.0, ..self }
    }
}

/// A run needs more host memory than allowed. Choose smaller parameters, or raise the limit.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error("it needs at least {bytes} of the host's memory, for {}; the limit is {limit}", needs.shown())]
pub struct TooLarge {
    /// Lower bound on the memory that the run needs.
    pub bytes: Bytes,
    /// Limit on the host's memory.
    pub limit: Bytes,
    /// The objects that need the memory.
    pub needs: Needs,
}

/// Formats a count with a unit, e.g. `16.0 million`.
fn rounded(count: f64) -> String {
    const UNITS: [(f64, &str); 4] =
        [(1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand")];
    match UNITS.iter().find(|(unit, _)| count >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", count / unit),
        None => format!("{count:.0}"),
    }
}

fn product<const D: usize>(counts: [u64; D]) -> f64 {
    counts.iter().map(|count| *count as f64).product()
}

impl Add for Needs {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { elements: self.elements + other.elements, commands: self.commands + other.commands }
    }
}

impl Sum for Needs {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), Add::add)
    }
}

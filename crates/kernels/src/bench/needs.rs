//! Memory of the host that a run takes at least, by its parameters alone: known before anything is built.

use std::iter::Sum;
use std::ops::Add;

use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;

use super::run::sips;
use super::{Bench, BenchError, RunConfig, Values};

/// Bytes of an element in data mode: the number that the host made, the element in the memory of a PE, and
/// the numbers that it is compared with. Runs of all benches take 13 to 20.
const ELEMENT_BYTES: f64 = 12.0;

/// Bytes of a command: as it was recorded, and as what each unit did for it. Runs of all benches take 300 to
/// 2,300.
const COMMAND_BYTES: f64 = 300.0;

/// Things that a run holds in the memory of the host, as many at least. They are counted in `f64`: products of
/// parameters may exceed 64 bits, and the estimate is none of single bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Needs {
    /// Elements of all tensors; they are held in data mode alone.
    pub elements: f64,
    /// Commands of all PEs together, and tiles of tiled operations.
    pub commands: f64,
}

impl Needs {
    /// Elements of tensors, each a product of dimensions.
    pub fn elements<const D: usize>(dimensions: [u64; D]) -> Self {
        Self { elements: product(dimensions), commands: 0.0 }
    }

    /// Commands, a product of how many there are in how many places.
    pub fn commands<const D: usize>(counts: [u64; D]) -> Self {
        Self { elements: 0.0, commands: product(counts) }
    }

    /// Tiles of a product of matrices, m × k and k × n, by the matrix engine of a machine.
    pub fn tiles(topology: &Topology, [m, k, n]: [u64; 3]) -> Self {
        let gemm = &topology.spec().pe.core.gemm;
        let tile = |length: u64, of: u32| length.div_ceil(u64::from(of.max(1)));
        Self::commands([tile(m, gemm.m), tile(k, gemm.k), tile(n, gemm.n)])
    }

    /// Bytes of the host that they take at least, with data or without.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts of floats saturate"
    )]
    pub fn bytes(self, data: bool) -> Bytes {
        let elements = if data { self.elements * ELEMENT_BYTES } else { 0.0 };
        Bytes::new((elements + self.commands * COMMAND_BYTES) as u64)
    }

    /// An error if they take more than so many bytes.
    pub fn within(self, limit: Bytes, data: bool) -> Result<(), BenchError> {
        let bytes = self.bytes(data);
        if bytes <= limit {
            return Ok(());
        }
        Err(BenchError::TooLarge { bytes, limit, needs: if data { self } else { self.timed() } })
    }

    /// What is held, in words.
    pub(super) fn shown(self) -> String {
        let count = |count: f64, of| (count >= 1.0).then(|| format!("{} {of}", rounded(count)));
        let parts = [count(self.elements, "elements"), count(self.commands, "commands")];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }

    fn timed(self) -> Self {
        Self { elements: 0.0, ..self }
    }
}

/// Three digits of a count, as in `16.0 million`.
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

/// Refuses a run that needs more of the host's memory than so many bytes, as far as its parameters say.
///
/// What it takes is estimated from below: a run that is refused would not have fitted.
pub fn check_memory(bench: &dyn Bench, config: &RunConfig, limit: Bytes) -> Result<(), BenchError> {
    let values = Values::new(bench.name(), &bench.parameters(), &config.set)?;
    let sips = sips(bench, config).len() as u64;
    bench.needs(&values, &config.topology, sips).within(limit, config.data)
}

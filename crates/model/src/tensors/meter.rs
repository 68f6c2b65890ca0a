//! Memory use of the tensors of a model, by purpose.

use cubeyard_runtime::{Context, RuntimeError};

use crate::cut::Cut;
use crate::error::ModelError;
use crate::memory::{Memory, Use};

/// Records the memory use of allocations.
pub(super) struct Meter<'a> {
    pub(super) context: &'a Context,
    pub(super) cut: &'a Cut,
    /// Bytes in use by PE, after each kind of allocation.
    pub(super) used: Vec<Vec<u64>>,
}

impl Meter<'_> {
    /// Allocates tensors, one for each maker, and records the memory then in use.
    pub(super) fn metered<M, T>(
        &mut self,
        what: &'static str,
        makers: &[M],
        make: impl Fn(&M) -> Result<T, RuntimeError>,
    ) -> Result<Vec<T>, ModelError> {
        let all: Result<Vec<_>, _> = makers.iter().map(make).collect();
        let stats = self.context.memory_stats();
        self.used.push(stats.pes.iter().map(|pe| pe.used.get()).collect());
        all.map_err(|source| match source {
            RuntimeError::Allocate(_) => {
                let (model, source) = (self.cut.spec.name.clone(), Box::new(source));
                ModelError::DoesNotFit { model, what, source }
            }
            other => other.into(),
        })
    }

    /// Returns the memory use of each kind of allocation.
    pub(super) fn memory(&self) -> Memory {
        let none = vec![0; self.used.last().map_or(0, Vec::len)];
        let befores = std::iter::once(&none).chain(&self.used);
        let uses: Vec<Use> = befores
            .zip(&self.used)
            .map(|(before, after)| {
                Use::of(
                    after
                        .iter()
                        .enumerate()
                        .map(|(pe, used)| used - before.get(pe).copied().unwrap_or_default()),
                )
            })
            .collect();
        let stats = self.context.memory_stats();
        let total = Use::of(stats.pes.iter().map(|pe| pe.used.get()));
        let capacity = stats.pes.first().map_or(0, |pe| (pe.used + pe.free).get());
        Memory { weights: uses[0], cache: uses[1], activations: uses[2], total, capacity }
    }
}

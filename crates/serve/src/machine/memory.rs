//! Memory that remains for the KV cache.

use cubeyard_memory::Bytes;
use cubeyard_model::{Cut, Phase};

use super::{MachineTimes, ServedModel};
use crate::error::ServeError;

/// Size of the KV cache of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSize {
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes of a block on all PEs together.
    pub block_bytes: Bytes,
    /// Bytes of weights on the PE that has most of them, as the allocator reports them.
    pub weights: Bytes,
    /// Bytes of activations of the largest batch on the PE that has most of them.
    pub activations: Bytes,
    /// Memory of a PE.
    pub capacity: Bytes,
}

impl MachineTimes<'_> {
    /// Returns the size of the KV cache: `share` of a PE's memory, without weights and the activations of a batch of
    /// `tokens` tokens, times the number of PEs. The tokens of a block are dealt over the PEs of a group of cubes.
    pub fn cache_size(
        &mut self,
        block_size: u64,
        tokens: u64,
        share: f64,
    ) -> Result<CacheSize, ServeError> {
        if !(share > 0.0 && share <= 1.0) {
            return Err(ServeError::value("memory-share", share, "a number above 0 and up to 1"));
        }
        let tokens = tokens.next_multiple_of(self.runs.unit()?);
        let memory = self.runs.memory(tokens)?;
        let (weights, activations) = (memory.weights.most, memory.activations.most);
        let capacity = memory.capacity;
        let (model, unit) = (self.runs.model(), self.runs.unit()?);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of it"
        )]
        let usable = (capacity as f64 * share) as u64;
        let left = usable.saturating_sub(weights + activations);
        let (token, pes) = token_bytes(model, unit)?;
        let block = token * block_size;
        let blocks = u64::try_from(u128::from(left) * u128::from(pes) / u128::from(block.max(1)));
        let blocks = blocks.unwrap_or(u64::MAX).min(u64::from(u32::MAX));
        if blocks == 0 {
            let name = model.spec.name.clone();
            return Err(ServeError::NoRoom { model: name, left, block: block.div_ceil(pes) });
        }
        let [weights, activations, capacity] = [weights, activations, capacity].map(Bytes::new);
        Ok(CacheSize { blocks, block_bytes: Bytes::new(block), weights, activations, capacity })
    }
}

/// Returns the bytes of the cache of one token on all PEs together, and the number of PEs.
fn token_bytes(model: &ServedModel, unit: u64) -> Result<(u64, u64), ServeError> {
    let sips = model.topology.sips().count() as u64;
    // One token of a sequence for each PE of a group: each PE has the cache of one token for the heads of its group.
    let work = model.work(Phase::Decode, unit, 1);
    let cut = Cut::new(&model.spec, work, &model.topology, sips)?;
    Ok((cut.cache_bytes() * (cut.all() / unit), cut.all()))
}

//! Calls of `empty_cache()`, which a history does not name.
//!
//! PyTorch returns segments in such a call, or because a request finds no memory. After the latter it grows or refuses the
//! request, and the next entry says so. A call that a growth follows directly is therefore not counted. Neither is a call
//! that returns nothing.

use crate::trace::EmptiedCache;
use crate::trace::snapshot::{Cursor, SnapshotError};
use cubeyard_units::Bytes;

/// Calls found so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Emptying {
    /// Bytes of the segments returned by the last entries.
    returned: u64,
    found: EmptiedCache,
}

impl Emptying {
    pub(super) fn step(
        &mut self,
        action: &str,
        entry: &Cursor<'_, '_>,
    ) -> Result<(), SnapshotError> {
        match action {
            "segment_free" | "segment_unmap" => {
                let size = entry.field("size")?.unsigned()?;
                self.returned = self.returned.saturating_add(size);
            }
            "segment_alloc" | "segment_map" | "oom" => self.returned = 0,
            _ => *self = Self { returned: 0, found: self.found() },
        }
        Ok(())
    }

    /// Returns the calls, given that the history ends here.
    pub(super) fn found(self) -> EmptiedCache {
        let EmptiedCache { calls, bytes } = self.found;
        match Bytes::new(self.returned) {
            returned if returned.is_zero() => self.found,
            returned => EmptiedCache {
                calls: calls + 1,
                bytes: bytes.checked_add(returned).unwrap_or(Bytes::MAX),
            },
        }
    }
}

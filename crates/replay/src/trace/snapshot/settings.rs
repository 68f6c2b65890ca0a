//! Settings of the allocator recorded in a snapshot.

use super::{Cursor, SnapshotError};
use crate::trace::RecordedBy;
use cubeyard_pickle::Value;

/// Settings in a snapshot; PyTorch's defaults if the snapshot has none.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) by: RecordedBy,
    pub(super) expandable: bool,
    pub(super) other: Vec<&'static str>,
}

impl Settings {
    pub(super) fn read(root: &Cursor<'_, '_>) -> Result<Self, SnapshotError> {
        let mut settings = Self { by: RecordedBy::PyTorch, expandable: false, other: Vec::new() };
        let Some(found) = root.optional("allocator_settings")? else { return Ok(settings) };
        // PyTorch has neither of these keys; every Cubeyard snapshot has both.
        if found.optional("max_regions")?.is_some() && found.optional("growth")?.is_some() {
            settings.by = RecordedBy::Cubeyard;
            return Ok(settings);
        }
        if let Some(expandable) = found.optional("expandable_segments")? {
            settings.expandable = expandable.boolean()?;
        }
        let changed = |key, is_default: fn(Value) -> bool| -> Result<bool, SnapshotError> {
            let value = found.optional(key)?.map(|setting| setting.value());
            Ok(value.is_some_and(|value| !is_default(value)))
        };
        if changed("max_split_size", |value| matches!(value, Value::Integer(..0)))? {
            settings.other.push("max_split_size_mb");
        }
        if changed("garbage_collection_threshold", |value| value == Value::Float(0.0))? {
            settings.other.push("garbage_collection_threshold");
        }
        if let Some(divisions) = found.optional("roundup_power2_divisions")?
            && divisions.has_value_other_than(Value::Integer(0))?
        {
            settings.other.push("roundup_power2_divisions");
        }
        Ok(settings)
    }
}

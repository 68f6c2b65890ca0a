//! Reads the keys of features that the default machine does not have: finite buffers, and rows in the HBM.

use std::num::NonZero;

use cubeyard_sim::{Arbiter, BufferSpec};

use super::super::spec::HbmSpec;
use super::Result;
use crate::model::{RefreshSpec, RowsSpec};
use cubeyard_yaml::InputProblem;
use cubeyard_yaml::{Field, Map};

/// Largest number of flits in a buffer.
const MOST_PLACES: u32 = 1 << 20;
/// Largest number of banks of a channel.
const MOST_BANKS: u32 = 1024;

/// Reads the value of a key, unless the key is absent or its value is `none`.
pub(super) fn given<'a, T>(
    field: Option<Field<'a>>,
    read: impl FnOnce(&Field<'a>) -> Result<T>,
) -> Result<Option<T>> {
    let is_none = |field: &Field<'_>| field.choice(&[("none", ())]).is_ok();
    field.filter(|field| !is_none(field)).map(|field| read(&field)).transpose()
}

/// Returns the value of a required key that the default file does not have.
fn need<'a>(map: &mut Map<'a>, within: &Field<'_>, name: &'static str) -> Result<Field<'a>> {
    let (expected, found) = (format!("the key `{name}` in it"), "none".to_owned());
    map.optional(name).ok_or_else(|| within.error(InputProblem::Value { expected, found }))
}

pub(super) fn buffers(field: &Field<'_>) -> Result<BufferSpec> {
    const NAMES: [(&str, Arbiter); 3] = [
        ("fifo", Arbiter::Fifo),
        ("round_robin", Arbiter::RoundRobin),
        ("oldest_first", Arbiter::OldestFirst),
    ];
    let mut map = field.map()?;
    let flits = need(&mut map, field, "flits")?.whole(1, MOST_PLACES)?;
    let arbiter = map.optional("arbiter").map(|field| field.choice(&NAMES)).transpose()?;
    map.finish()?;
    let flits = NonZero::new(flits).expect("at least one");
    Ok(BufferSpec { flits, arbiter: arbiter.unwrap_or_default() })
}

/// Reads the rows of an HBM, whose channels are already known.
pub(super) fn rows(field: &Field<'_>, hbm: &HbmSpec) -> Result<RowsSpec> {
    let mut map = field.map()?;
    let row_field = need(&mut map, field, "row_bytes")?;
    let spec = RowsSpec {
        banks: need(&mut map, field, "banks")?.whole(1, MOST_BANKS)?,
        row_bytes: row_field.bytes()?.get(),
        activate: need(&mut map, field, "activate_ns")?.ns()?,
        precharge: need(&mut map, field, "precharge_ns")?.ns()?,
        refresh: None,
    };
    let refresh_field = map.optional("refresh");
    map.finish()?;
    if !spec.row_bytes.is_multiple_of(hbm.burst.get()) {
        let expected = format!("a multiple of hbm.burst_bytes, {}", hbm.burst.get());
        return Err(row_field.unexpected(expected));
    }
    let refresh = given(refresh_field, |field| refresh(field, spec, hbm))?;
    Ok(RowsSpec { refresh, ..spec })
}

fn refresh(field: &Field<'_>, rows: RowsSpec, hbm: &HbmSpec) -> Result<RefreshSpec> {
    let mut map = field.map()?;
    let interval_field = need(&mut map, field, "interval_ns")?;
    let interval = interval_field.ns()?;
    let spec = RefreshSpec { interval, takes: need(&mut map, field, "takes_ns")?.ns()? };
    map.finish()?;
    let burst = hbm.channel_bandwidth.span(hbm.burst.get());
    let rows = RowsSpec { refresh: Some(spec), ..rows };
    let least = rows.least_interval(burst, hbm.turn_around);
    let expected = || format!("at least {} ns, or refreshes leave no time for a burst", least.ns());
    (interval >= least).then_some(spec).ok_or_else(|| interval_field.unexpected(expected()))
}

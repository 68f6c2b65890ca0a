//! Conversion of arguments, with errors that name them.

use cubeyard_memory::device::AddressMode;
use cubeyard_memory::policy::Kind as BlockKind;
use pyo3::prelude::*;

use crate::error::Kind;

/// Converts an argument to a number, or to another value.
pub(crate) fn number<'py, T>(name: &str, value: &Bound<'py, PyAny>, expected: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    value.extract().map_err(|_| unexpected(name, value, expected))
}

/// Creates the exception for an argument of an unexpected kind.
pub(crate) fn unexpected(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let shown = value.repr().map_or_else(|_| "an object".to_owned(), |text| text.to_string());
    Kind::Input.error(format!("{name} is {shown}: expected {expected}"))
}

pub(crate) fn size(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    number("size", value, "a number of bytes, 1 to 2^64 - 1")
}

pub(crate) fn limit(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    number("limit", value, "a number of bytes, 0 to 2^64 - 1")
}

pub(crate) fn memory(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    number("memory", value, "a number of bytes, 0 to 2^64 - 1")
}

pub(crate) fn offset(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    number("offset", value, "a number of bytes, 0 to 2^64 - 1")
}

pub(crate) fn length(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    number("length", value, "a number of bytes, 0 to 2^64 - 1")
}

pub(crate) fn region_id(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    number("region_id", value, "a number, 0 to 2^64 - 1")
}

pub(crate) fn alignment(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    number("alignment", value, "a power of two")
}

pub(crate) fn stream(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    number("stream", value, "a number of a stream, 0 to 2^32 - 1")
}

pub(crate) fn site(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    number("site", value, "a number of a call site, 0 to 2^32 - 1")
}

pub(crate) fn table_entries(value: &Bound<'_, PyAny>) -> PyResult<u16> {
    number("table", value, "a number of entries, 0 to 65535")
}

pub(crate) fn tile(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    number("tile", value, "a number of bytes, 1 to 2^64 - 1")
}

pub(crate) fn stride(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    number("stride", value, "a number of bytes, 1 to 2^64 - 1")
}

pub(crate) fn binary(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    number("binary", value, "a number of bytes, 1 to 2^64 - 1")
}

pub(crate) fn parameters(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    number("parameters", value, "a number of operands, 0 to 2^64 - 1")
}

pub(crate) fn events(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    number("limit", value, "a number of events, 0 to 2^64 - 1")
}

pub(crate) fn place(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    number("place", value, "a number, 0 to 2^64 - 1")
}

pub(crate) fn key(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    number("key", value, "a number, 0 to 2^64 - 1")
}

/// Converts an argument that may be `None`.
pub(crate) fn optional<'py, T>(
    convert: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Option<T>> {
    if value.is_none() { Ok(None) } else { convert(value).map(Some) }
}

pub(crate) fn optional_limit(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    optional(limit, value)
}

pub(crate) fn soft(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    optional(|value| number("soft", value, "a number of bytes, or None"), value)
}

pub(crate) fn hard(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    optional(|value| number("hard", value, "a number of bytes, or None"), value)
}

pub(crate) fn budget(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    number("budget", value, "a number of bytes, 0 to 2^64 - 1")
}

pub(crate) fn name(value: &Bound<'_, PyAny>) -> PyResult<String> {
    number("name", value, "a string")
}

/// Converts the number of a device in a snapshot, which lists all devices up to this one.
pub(crate) fn device_number(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    number::<u16>("device", value, "a number of a device, 0 to 65535").map(u32::from)
}

pub(crate) fn kind(value: &Bound<'_, PyAny>) -> PyResult<BlockKind> {
    let names = BlockKind::ALL.map(BlockKind::name).join(", ");
    let name: String = number("kind", value, &format!("one of {names}"))?;
    let kind = BlockKind::ALL.into_iter().find(|kind| kind.name() == name);
    kind.ok_or_else(|| Kind::Input.error(format!("kind is {name:?}: expected one of {names}")))
}

/// Parses the name of an address mode.
pub(crate) fn mode(name: String) -> PyResult<AddressMode> {
    match name.as_str() {
        "physical" => Ok(AddressMode::Physical),
        "virtual" => Ok(AddressMode::Virtual),
        _ => {
            let text = format!("mode is {name:?}: expected \"physical\" or \"virtual\"");
            Err(Kind::Input.error(text))
        }
    }
}

//! Serialisation of quantities in reports, for `#[serde(serialize_with)]`: numbers in the unit that the key names.

use std::fmt::Display;

use cubeyard_sim::{Bandwidth, Span, Time};
use serde::{Serialize as _, Serializer};

/// Writes a duration in nanoseconds.
pub fn ns<S: Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
    span.ns().serialize(to)
}

/// Writes a time in nanoseconds since the start of the simulation.
pub fn at_ns<S: Serializer>(time: &Time, to: S) -> Result<S::Ok, S::Error> {
    ns(&(*time - Time::ZERO), to)
}

/// Writes a bandwidth in 10⁹ bytes per second.
pub fn gbs<S: Serializer>(bandwidth: &Bandwidth, to: S) -> Result<S::Ok, S::Error> {
    bandwidth.gb_per_second().serialize(to)
}

/// Writes a value as text.
pub fn text<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// Writes a hash in hexadecimal digits.
pub fn hex<S: Serializer>(hash: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{hash:016x}"))
}

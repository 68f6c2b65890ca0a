//! Time of copies between the host and devices, and between devices.
//!
//! A copy takes its bytes over the bandwidth of the PCIe link of each SIP on its way. It takes the links whole, one
//! direction each, and no PEs. The host submits it as it submits a launch.

use cubeyard_capi::Failure;

use crate::devices::{self, Device, Devices};
use crate::operators::{self, Work};
use crate::pes::{Claim, Direction};
use crate::streams::Span;

/// Stream of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the device.
    pub device: u32,
    /// Number of the stream.
    pub stream: u32,
}

/// Adds a copy of `bytes` to the streams at its ends, and returns its span. An end without a place is the host. Adds
/// nothing and returns `None` if both ends are the host, if they are one device, or if there is no such stream.
pub fn add(from: Option<Place>, to: Option<Place>, bytes: u64) -> Result<Option<Span>, Failure> {
    let devices = devices::devices()?;
    let device = |place: Place| devices.device(place.device).map(|device| (place, device));
    let (from, to) = (from.map(device).transpose()?, to.map(device).transpose()?);
    let span = match (from, to) {
        (Some(from), None) => one(devices, from, Direction::Out, bytes),
        (None, Some(to)) => one(devices, to, Direction::In, bytes),
        (Some(from), Some(to)) if from.0.device != to.0.device => both(devices, from, to, bytes),
        _ => None,
    };
    let kind = match (from, to) {
        (_, None) => operators::TO_HOST,
        (None, _) => operators::FROM_HOST,
        _ => operators::BETWEEN_DEVICES,
    };
    let at = to.or(from).map(|(place, _)| place);
    if let (Some(span), Some(Place { device, stream })) = (span, at) {
        operators::note(Work { id: kind, device, stream, span, bytes })?;
    }
    Ok(span)
}

/// Adds a copy between the host and a device.
fn one(
    devices: &Devices,
    (Place { device: sip, stream }, device): (Place, &Device),
    direction: Direction,
    bytes: u64,
) -> Option<Span> {
    let links = [(sip, direction)];
    let (host, time) = times(devices, bytes);
    device.streams.launch_on(stream, Claim::Links(&links), host, time)
}

/// Adds a copy between two devices. It begins when both streams have finished their earlier work, and keeps both busy.
fn both(
    devices: &Devices,
    (from, source): (Place, &Device),
    (to, target): (Place, &Device),
    bytes: u64,
) -> Option<Span> {
    let links = [(from.device, Direction::Out), (to.device, Direction::In)];
    let (host, time) = times(devices, bytes);
    target.streams.hold(to.stream, source.streams.end(from.stream));
    let span = target.streams.launch_on(to.stream, Claim::Links(&links), host, time)?;
    source.streams.hold(from.stream, span.end);
    Some(span)
}

/// Returns the time of the host for a copy, and of the links.
fn times(devices: &Devices, bytes: u64) -> (u64, u64) {
    (operators::host_time(devices), devices.summary.pcie_per_sip.span(bytes).ps())
}

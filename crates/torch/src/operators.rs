//! Time of PyTorch's operators: whether they take any, how much, and how often each ran.
//!
//! The shim describes an operator by its name and words for its tensors. A registered function gives its cost once; the
//! shim remembers it. The operator then takes all PEs of its SIP for that time.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cubeyard_capi::{Failure, Status};

use crate::devices::{self, Devices};
use crate::streams::Span;
use crate::trial;

/// Number of copies from the host to a device, among the operators.
pub const FROM_HOST: u32 = 0;
/// Number of copies from a device to the host.
pub const TO_HOST: u32 = 1;
/// Number of copies between devices.
pub const BETWEEN_DEVICES: u32 = 2;

/// Cost of an operator: its picoseconds, and the number under which it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Time on the PEs, in picoseconds.
    pub picoseconds: u64,
    /// Number of the operator with this cost.
    pub id: u32,
}

/// Function that returns the cost of an operator, from its name and its words; `None` if it takes no time.
pub type CostFunction = fn(&str, &[u64]) -> Result<Option<Cost>, String>;

/// Function that is called with each operator and copy, if they are observed.
pub type Observer = fn(&Work) -> Result<(), String>;

/// An operator or copy that took time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Number of the operator with its cost, or of the kind of copy.
    pub id: u32,
    /// Number of the device.
    pub device: u32,
    /// Number of the stream.
    pub stream: u32,
    /// Begin and end.
    pub span: Span,
    /// Bytes of a copy; 0 for an operator, whose cost has them.
    pub bytes: u64,
}

/// Sums over the operators of one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Number of operators.
    pub count: u64,
    /// Sum of their times in picoseconds, without the host's.
    pub picoseconds: u64,
    /// Sum of the bytes of copies.
    pub bytes: u64,
}

static COST: OnceLock<CostFunction> = OnceLock::new();
static OBSERVER: OnceLock<Observer> = OnceLock::new();
static OBSERVED: AtomicBool = AtomicBool::new(false);
static TOTALS: Mutex<Vec<Total>> = Mutex::new(Vec::new());

/// Whether operators take time: not asked yet, no, or yes.
static TIMED: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

/// Sets the function that returns costs, and the observer. Only the first call has an effect.
pub fn set_functions(cost: CostFunction, observer: Observer) {
    let _ = COST.set(cost);
    let _ = OBSERVER.set(observer);
}

/// Sets whether the observer is called.
pub fn observe(wanted: bool) {
    OBSERVED.store(wanted, Ordering::Release);
}

/// Returns whether operators take time. `CUBEYARD_TIME` says so until [`set_timed`] is called.
pub fn is_timed() -> bool {
    match TIMED.load(Ordering::Relaxed) {
        UNKNOWN => {
            // Devices that cannot be made are reported by their first use.
            let timed = devices::devices().is_ok_and(|devices| devices.settings.timed);
            let known = if timed { ON } else { OFF };
            let _ = TIMED.compare_exchange(UNKNOWN, known, Ordering::AcqRel, Ordering::Acquire);
            TIMED.load(Ordering::Relaxed) == ON
        }
        known => known == ON,
    }
}

/// Sets whether operators take time from now on.
pub fn set_timed(timed: bool) {
    TIMED.store(if timed { ON } else { OFF }, Ordering::Release);
}

/// Returns the cost of an operator; `None` if it takes no time.
pub fn cost(name: &str, words: &[u64]) -> Result<Option<Cost>, Failure> {
    let unset = || Failure::new(Status::Internal, "no function for the times of operators is set");
    let cost = COST.get().ok_or_else(unset)?;
    cost(name, words).map_err(|problem| {
        Failure::new(Status::Argument, format!("time of {name} on the device: {problem}"))
    })
}

/// Adds an operator to a stream of a device, on all PEs of its SIP.
pub fn add(device: u32, stream: u32, cost: Cost) -> Result<(), Failure> {
    let all = devices::devices()?;
    let none = || {
        Failure::new(
            Status::UnknownKey,
            format!("stream {stream}: device {device} has no such stream"),
        )
    };
    let (host, streams) = (host_time(all), &all.device(device)?.streams);
    let span = streams.launch_on_sip(stream, device, host, cost.picoseconds).ok_or_else(none)?;
    note(Work { id: cost.id, device, stream, span, bytes: 0 })
}

/// Returns the host's time for each operator, copy or launch, in picoseconds.
pub fn host_time(devices: &Devices) -> u64 {
    devices.settings.topology.spec().host_launch.ps()
}

/// Returns the sums over the operators since the process began, by their numbers.
pub fn totals() -> Vec<Total> {
    lock().clone()
}

/// Counts work, and calls the observer. Work of a trial is not counted.
pub(crate) fn note(work: Work) -> Result<(), Failure> {
    if trial::is_active() {
        return Ok(());
    }
    count(&work);
    if !OBSERVED.load(Ordering::Acquire) {
        return Ok(());
    }
    let failed = |problem| Failure::new(Status::Internal, problem);
    OBSERVER.get().map_or(Ok(()), |observer| observer(&work)).map_err(failed)
}

fn count(work: &Work) {
    let mut totals = lock();
    let index = usize::try_from(work.id).unwrap_or(usize::MAX);
    if totals.len() <= index {
        totals.resize(index.saturating_add(1), Total::default());
    }
    if let Some(total) = totals.get_mut(index) {
        total.count += 1;
        total.picoseconds = total.picoseconds.saturating_add(work.span.end - work.span.begin);
        total.bytes = total.bytes.saturating_add(work.bytes);
    }
}

fn lock() -> MutexGuard<'static, Vec<Total>> {
    TOTALS.lock().unwrap_or_else(PoisonError::into_inner)
}

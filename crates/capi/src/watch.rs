//! Subscribers: functions of the caller that are called with every event, and logs of events.

use std::ffi::{c_char, c_void};
use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

use cubeyard_memory::flex::{Action, Event, RmmLog, Subscription};

use crate::Front;
use crate::argument;
use crate::block::CAddress;
use crate::call::call;
use crate::status::{Failure, Status};

/// The struct `cubeyard_event` of the header.
#[repr(C)]
pub(crate) struct CEvent {
    action: u32,
    stream: u32,
    site: u32,
    unused: u32,
    number: u64,
    time_us: u64,
    thread: u64,
    address: CAddress,
    flat: u64,
    target: CAddress,
    target_flat: u64,
    size: u64,
    requested: u64,
    device_free: u64,
    pool: u32,
    tag: u32,
}

impl From<&Event> for CEvent {
    fn from(event: &Event) -> Self {
        Self {
            action: number_of(event.action),
            stream: event.stream,
            site: event.site,
            unused: 0,
            number: event.number,
            time_us: event.time_us,
            thread: event.thread as u64,
            address: event.address.map(CAddress::from).unwrap_or_default(),
            flat: event.flat,
            target: event.target.map(CAddress::from).unwrap_or_default(),
            target_flat: event.target_flat,
            size: event.size.get(),
            requested: event.requested.get(),
            device_free: event.device_free.get(),
            pool: event.pool.get(),
            tag: event.tag.get().into(),
        }
    }
}

/// Returns the number of an action in the header; 0 for an action that the header does not know.
fn number_of(action: Action) -> u32 {
    match action {
        Action::Alloc => 1,
        Action::FreeRequested => 2,
        Action::FreeCompleted => 3,
        Action::SegmentAlloc => 4,
        Action::SegmentFree => 5,
        Action::SegmentMap => 6,
        Action::SegmentUnmap => 7,
        Action::RoomReserved => 8,
        Action::RoomReleased => 9,
        Action::Move => 10,
        Action::StreamWait => 11,
        Action::OutOfMemory => 12,
        Action::Snapshot => 13,
        Action::BudgetExceeded => 14,
        _ => 0,
    }
}

type Watch = unsafe extern "C" fn(*mut c_void, *const CEvent);

/// A subscriber function of the caller, with its first argument.
struct Watcher {
    function: Watch,
    user: *mut c_void,
}

// SAFETY: according to the header, subscribers may be called on any thread, with the given `user`.
unsafe impl Send for Watcher {}
// SAFETY: likewise; the allocator calls them on one thread at a time.
unsafe impl Sync for Watcher {}

impl Watcher {
    fn run(&self, event: &Event) {
        let event = CEvent::from(event);
        // SAFETY: the caller passed this function for this purpose, with this pointer; the event lives as long as the
        // call.
        unsafe { (self.function)(self.user, &raw const event) }
    }
}

/// A log of events in a file, and the name of the file.
type FileLog = (Arc<RmmLog<BufWriter<File>>>, String);

/// A subscription, with the log that it writes, if any.
pub(crate) struct Watched {
    subscription: Subscription,
    log: Option<FileLog>,
}

impl Watched {
    /// Ends the subscription, and completes the log.
    fn end(self) -> Result<(), Failure> {
        self.subscription.unsubscribe();
        let Some((log, path)) = self.log else { return Ok(()) };
        log.flush().map_err(|error| Failure::new(Status::Io, format!("{path}: {error}")))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_subscribe(
    allocator: *const Front,
    callback: Option<Watch>,
    user: *mut c_void,
    subscription: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        argument::place(subscription, "subscription")?;
        let watcher = Watcher { function: argument::function(callback, "callback")?, user };
        let made = front.allocator.subscribe(move |event| watcher.run(event));
        let number = front.subscriptions.insert(Watched { subscription: made, log: None });
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(subscription, "subscription", number) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_subscribe_rmm_log(
    allocator: *const Front,
    path: *const c_char,
    subscription: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator and a string.
        let (front, path) = unsafe { (Front::of(allocator)?, argument::text(path, "path")?) };
        argument::place(subscription, "subscription")?;
        let failed = |error| Failure::new(Status::Io, format!("{path}: {error}"));
        let file = BufWriter::new(File::create(path).map_err(failed)?);
        let log = Arc::new(RmmLog::new(file));
        let writer = Arc::clone(&log);
        let made = front.allocator.subscribe(move |event| writer.record(event));
        let watched = Watched { subscription: made, log: Some((log, path.to_owned())) };
        let number = front.subscriptions.insert(watched);
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(subscription, "subscription", number) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_unsubscribe(allocator: *const Front, subscription: u64) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        front.refuse_reentrance()?;
        front.subscriptions.remove(subscription)?.end()
    })
}

//! Temporary files beside the files that they will replace; removed if the process ends early.

#![expect(
    unsafe_code,
    reason = "a process that is interrupted or out of memory may only call what is safe in a signal handler"
)]

use std::ffi::{CString, c_char, c_int};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::identity::folder;

/// Paths of all temporary files; no command writes more than this array holds. A path is never freed, so that a signal
/// handler can read it at any time.
static PATHS: [AtomicPtr<c_char>; 8] = [const { AtomicPtr::new(ptr::null_mut()) }; 8];

/// Signals that end a process, unless it was started with them ignored.
const SIGNALS: [c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGXFSZ];

/// File that is removed when this value is dropped or the process ends, unless it has been renamed.
#[derive(Debug)]
pub(super) struct Temporary {
    path: PathBuf,
    slot: &'static AtomicPtr<c_char>,
    is_there: bool,
}

impl Temporary {
    /// Creates a file in the directory of `to`, with the permissions of `to` if it exists.
    pub(super) fn beside(to: &Path) -> io::Result<(Self, File)> {
        static HANDLED: Once = Once::new();
        HANDLED.call_once(handle_signals);
        let (this, file) = loop {
            match Self::create(folder(to)) {
                // Left by a process with the same id that was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => break created?,
            }
        };
        if let Ok(metadata) = fs::metadata(to) {
            file.set_permissions(metadata.permissions())?;
        }
        Ok((this, file))
    }

    /// Creates a file with a name that this process has not used.
    fn create(folder: &Path) -> io::Result<(Self, File)> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".cubeyard-{}-{number}.tmp", std::process::id()));
        let mut this = Self { slot: known(&path)?, path, is_there: false };
        let file = File::options().write(true).create_new(true).open(&this.path)?;
        this.is_there = true;
        Ok((this, file))
    }

    /// Renames the file, replacing any file at the destination.
    pub(super) fn rename(mut self, to: &Path) -> io::Result<()> {
        fs::rename(&self.path, to)?;
        self.is_there = false;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.is_there {
            // The file may already have been removed.
            let _ = fs::remove_file(&self.path);
        }
        self.slot.store(ptr::null_mut(), Ordering::Release);
    }
}

/// Registers a path for [`remove_all`].
fn known(path: &Path) -> io::Result<&'static AtomicPtr<c_char>> {
    let path = CString::new(path.as_os_str().as_bytes())?.into_raw();
    let free = |slot: &&AtomicPtr<c_char>| {
        let none = ptr::null_mut();
        slot.compare_exchange(none, path, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    PATHS.iter().find(free).ok_or_else(|| io::Error::other("too many files at once"))
}

/// Removes all temporary files. Neither allocates nor locks, so that it can be called in any context.
pub(crate) fn remove_all() {
    for slot in &PATHS {
        let path = slot.load(Ordering::Acquire);
        if !path.is_null() {
            // SAFETY: the path ends with 0 and is never freed.
            unsafe { libc::unlink(path) };
        }
    }
}

fn handle_signals() {
    for signal in SIGNALS {
        // SAFETY: the handler calls only functions that are safe in a signal handler.
        unsafe {
            if libc::signal(signal, interrupted as *const () as libc::sighandler_t) == libc::SIG_IGN
            {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
}

/// Removes unfinished files, and ends the process as the signal would have.
extern "C" fn interrupted(signal: c_int) {
    remove_all();
    // SAFETY: both calls are safe in a signal handler; the signal is delivered when the handler returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

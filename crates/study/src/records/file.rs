//! File held by one writer: appended line by line, and replaced as a whole.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::RecordsError;

/// Open file, locked until it is dropped.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    file: File,
}

impl RecordFile {
    /// Opens a regular file that no other process is writing, and creates it if it does not exist.
    pub(super) fn open(path: &Path) -> Result<Self, RecordsError> {
        loop {
            if fs::metadata(path).is_ok_and(|it| !it.is_file()) {
                return Err(RecordsError::NotPlain(path.to_owned()));
            }
            let file = File::options().read(true).append(true).create(true).open(path);
            let this = Self { file: file.map_err(failed(path))?, path: path.to_owned() };
            match this.file.try_lock() {
                Ok(()) if this.is_at_path().map_err(failed(path))? => return Ok(this),
                // The other writer has just ended, and has replaced the file by a sorted one.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(RecordsError::Busy(path.to_owned())),
                Err(TryLockError::Error(error)) => return Err(failed(path)(error)),
            }
        }
    }

    fn is_at_path(&self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        Ok(fs::metadata(&self.path).is_ok_and(|it| (it.dev(), it.ino()) == (own.dev(), own.ino())))
    }

    pub(super) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    pub(super) fn contents(&mut self) -> Result<Vec<u8>, RecordsError> {
        let mut contents = Vec::new();
        let read = self.file.rewind().and_then(|()| self.file.read_to_end(&mut contents));
        read.map_err(failed(&self.path))?;
        Ok(contents)
    }

    /// Truncates the file to a number of bytes.
    pub(super) fn cut(&mut self, length: u64) -> Result<(), RecordsError> {
        self.file.set_len(length).map_err(failed(&self.path))
    }

    /// Appends bytes, either all of them or none.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), RecordsError> {
        let before = self.file.metadata().map(|it| it.len());
        let written = before.and_then(|before| {
            self.file.write_all(bytes).inspect_err(|_| {
                // If this fails too, the incomplete line is cut off when the file is next read.
                let _ = self.file.set_len(before);
            })
        });
        written.map_err(|error| RecordsError::Append { path: self.path(), error })
    }

    /// Replaces the file. The contents are written under another name first, so that a complete
    /// file exists at any time.
    pub(super) fn replace(&mut self, text: &str) -> Result<(), RecordsError> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let beside = self.path.with_file_name(format!(".{name}.{}", std::process::id()));
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &self.path));
        written.map_err(|error| {
            // The partial file is useless, and a failure to remove it would not change the error.
            let _ = fs::remove_file(&beside);
            failed(&self.path)(error)
        })
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> RecordsError {
    move |error| RecordsError::File { path: path.to_owned(), error }
}

//! Connection with one time limit for all reads or writes together.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Connection with a deadline, after which reads and writes fail.
#[derive(Debug)]
pub(super) struct Deadline<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl<'a> Deadline<'a> {
    pub(super) fn new(stream: &'a TcpStream, limit: Duration) -> Self {
        Self { stream, until: now() + limit }
    }

    /// Returns the remaining time, which is never zero.
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.until.saturating_duration_since(now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Deadline<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Deadline<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[expect(clippy::disallowed_methods, reason = "a front reads the clock")]
fn now() -> Instant {
    Instant::now()
}

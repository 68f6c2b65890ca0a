//! Lines of a kernel's source, named by errors, findings and reports.

use std::fmt;
use std::num::NonZeroU32;
use std::panic::Location;

use super::Tl;

/// A line in a kernel's source.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// A line of Rust.
    Rust(&'static Location<'static>),
    /// A line of a kernel written in another language.
    Script(&'a ScriptLine),
}

/// A line of a kernel that is not written in Rust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptLine {
    /// Path or name of the file.
    pub file: String,
    /// Line, counted from 1.
    pub line: u32,
}

/// Number of a line that a kernel has [registered](Tl::new_line).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineId(NonZeroU32);

impl LineId {
    /// Returns the index of the line among the lines of the kernel.
    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// The line of a command, in Rust or in a script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandLine {
    pub(crate) rust: &'static Location<'static>,
    pub(crate) script: Option<LineId>,
}

impl From<&'static Location<'static>> for Place<'_> {
    fn from(location: &'static Location<'static>) -> Self {
        Self::Rust(location)
    }
}

/// Formats as file name and line, e.g. `softmax.rs:41`.
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line) = match self {
            Self::Rust(location) => (location.file(), location.line()),
            Self::Script(script) => (script.file.as_str(), script.line),
        };
        let file = file.rsplit(['/', '\\']).next().unwrap_or_default();
        write!(f, "{file}:{line}")
    }
}

impl Tl {
    /// Registers a line of a kernel that is not written in Rust.
    ///
    /// # Panics
    /// If the kernel has 2³² lines.
    pub fn new_line(&self, line: ScriptLine) -> LineId {
        let lines = &mut self.state.tape.borrow_mut().lines;
        lines.push(line);
        let number = u32::try_from(lines.len()).ok().and_then(NonZeroU32::new);
        LineId(number.expect("fewer than 2³² lines, and one was pushed"))
    }

    /// Sets the line of the following commands and errors, instead of the calling line of Rust.
    pub fn set_line(&self, line: LineId) {
        self.state.line.set(Some(line));
    }

    /// Returns the calling line of the kernel.
    #[track_caller]
    pub(crate) fn here(&self) -> CommandLine {
        CommandLine { rust: Location::caller(), script: self.state.line.get() }
    }
}

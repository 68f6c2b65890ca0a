//! The `cubeyard` command as users run it.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

mod bad_input;
mod ccl;
mod compare;
mod designs;
mod files;
mod kernel_pages;
mod levers;
mod memory;
mod memory_limit;
mod model;
mod model_plan;
mod own_bench;
mod pictures;
mod placement;
mod probe;
mod replay;
mod replay_holders;
mod run;
mod serve;
mod shell;
mod topology;
mod validate;
mod vary;
mod view;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use expect_test::Expect;
use serde_json::Value;

/// A separate folder for a test, in which the command runs.
struct Sandbox {
    folder: PathBuf,
}

impl Sandbox {
    /// Makes an empty folder called `name`, which no other test may use.
    fn new(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder).expect("what the last run left can go");
        }
        std::fs::create_dir_all(&folder).expect("a folder for tests");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).expect("a file for tests");
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cubeyard"));
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    /// Runs the command to its end.
    fn run(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments).output().expect("the command starts"))
    }
}

/// Exit code and output of a command.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("it writes UTF-8");
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Returns the standard output of a successful command.
    #[track_caller]
    fn result(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout
    }
}

/// Returns the JSON of a successful command.
#[track_caller]
fn json(run: Run) -> Value {
    serde_json::from_str(&run.result()).expect("it is JSON")
}

/// Checks that a command is refused with exactly this message, and prints nothing.
#[track_caller]
fn refused(run: &Run, expected: &Expect) {
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
    expected.assert_eq(&run.stderr);
}

/// Returns the path of a file in `testdata/traces`.
fn recorded(name: &str) -> String {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
    traces.join(name).to_str().expect("the repository has a name in UTF-8").to_owned()
}

//! `--memory`: no command takes more, and none is aborted.

use std::process::{Command, Stdio};

use crate::{Run, Sandbox};

const COMMANDS: [&[&str]; 8] = [
    &["ccl", "--sizes", "256"],
    &["list"],
    &["model"],
    &["placement", "--shape", "64x64"],
    &["probe"],
    &["replay"],
    &["run", "copy"],
    &["validate"],
];

/// Rust aborts a process that has no more memory, and the system kills it. A limit of one byte is beyond what
/// any command needs to begin with.
#[test]
fn every_command_ends_with_3_beyond_the_limit() {
    let sandbox = Sandbox::new("memory-every");
    for command in COMMANDS {
        let run = sandbox.run(&[command, &["--memory", "1"]].concat());
        assert_eq!((run.code, run.stdout.as_str()), (Some(3), ""), "{command:?}: {}", run.stderr);
        let said = "error: this needs more than the limit of 1 B of memory (--memory)\n  help: ask for less";
        assert!(run.stderr.starts_with(said), "{command:?}: {}", run.stderr);
    }
}

#[test]
fn a_limit_that_is_enough_changes_nothing() {
    let sandbox = Sandbox::new("memory-enough");
    let limited = sandbox.run(&["--memory", "1GiB", "run", "copy"]).result();
    assert_eq!(limited, sandbox.run(&["run", "copy"]).result());
    let tight = sandbox.run(&["run", "copy", "--memory", "256K"]);
    assert_eq!((tight.code, tight.stdout.as_str()), (Some(3), ""), "{}", tight.stderr);
}

/// What the system refuses, whatever the limit says: Rust aborts the process, which is no exit code at all.
#[cfg(target_os = "linux")]
#[test]
fn a_host_that_gives_no_more_is_no_abort() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v 60000; exec \"$0\" --memory 1T validate"]);
    shell.arg(env!("CARGO_BIN_EXE_cubeyard")).stdin(Stdio::null());
    let run = Run::of(shell.output().unwrap());
    assert_eq!((run.code, run.stdout.as_str()), (Some(3), ""), "{}", run.stderr);
    let said = "error: this needs more memory than the host gives, below the limit of 1.00 TiB (--memory)\n";
    assert!(run.stderr.starts_with(said), "{}", run.stderr);
}

#[test]
fn a_limit_that_is_no_size_is_refused() {
    let sandbox = Sandbox::new("memory-bad");
    for text in ["", "0", "-1", "much", "1.5G"] {
        let run = sandbox.run(&["list", &format!("--memory={text}")]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{text}");
        assert!(run.stderr.contains("such as 512M, 2GiB or 2147483648"), "{}", run.stderr);
    }
}

#[test]
fn the_help_of_every_command_says_what_the_limit_is_without_one() {
    let sandbox = Sandbox::new("memory-help");
    for command in COMMANDS {
        let help = sandbox.run(&[command[0], "--help"]).result();
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = "three quarters of what the host or its control group has free";
        assert!(words.contains("--memory <SIZE>") && words.contains(said), "{help}");
    }
}

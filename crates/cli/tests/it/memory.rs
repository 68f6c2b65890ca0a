//! `--memory`: no command exceeds the limit, and none is aborted.

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

/// Without a limit, Rust aborts a process that has no more memory, or the system kills it. Every command exceeds a limit
/// of one byte at once.
#[test]
fn every_command_ends_with_3_beyond_the_limit() {
    let sandbox = Sandbox::new("memory-every");
    for command in COMMANDS {
        let run = sandbox.run(&[command, &["--memory", "1"]].concat());
        assert_eq!((run.code, run.stdout.as_str()), (Some(3), ""), "{command:?}: {}", run.stderr);
        let said = "error: this needs more than the limit of 1 B of memory (--memory)\n  help: reduce the work";
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

/// The system may refuse memory below the limit. Rust then aborted the process, without an exit code.
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
        let said = "three quarters of the free memory of the host or its control group";
        assert!(words.contains("--memory <SIZE>") && words.contains(said), "{help}");
    }
}

/// Checks that a run is refused under a limit of 2 GiB by its parameters, before anything is built.
#[track_caller]
fn too_large(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let run = sandbox.run(&[arguments, &["--memory", "2GiB"]].concat());
    assert_eq!((run.code, run.stdout.as_str()), (Some(3), ""), "{}", run.stderr);
    assert!(run.stderr.starts_with("error: it needs at least "), "{}", run.stderr);
    assert!(run.stderr.contains("the limit is 2.00 GiB (--memory)\n"), "{}", run.stderr);
    run.stderr
}

/// The first command was aborted when it requested 512 TiB; the others took all memory of the host.
#[test]
fn what_cannot_fit_is_refused_with_an_estimate() {
    let sandbox = Sandbox::new("memory-estimate");
    let attention = ["heads=65536", "sequence=1048576", "head-dim=1024"];
    let attention: Vec<_> = attention.iter().flat_map(|text| ["--set", text]).collect();
    too_large(&sandbox, &[&["run", "flash-attention", "--data"][..], &attention].concat());
    let copy = ["run", "copy", "--set", "bytes=4294967296", "--set", "cubes=16", "--data"];
    assert!(too_large(&sandbox, &copy).contains("1.1 trillion elements"));
    let sets = ["--set", "block=1", "--set", "elements=4000000", "--set", "cubes=16"];
    let added = too_large(&sandbox, &[&["run", "vector-add"][..], &sets].concat());
    assert!(added.contains("16.0 million commands"), "{added}");
    too_large(&sandbox, &["ccl", "--sizes", "16G", "--data"]);
    too_large(&sandbox, &["ccl", "--sizes", "512G", "--algorithm", "ring"]);
    sandbox.write("deep.yaml", "layers: 100000\n");
    too_large(&sandbox, &["model", "--spec", "deep.yaml", "--layers", "100000"]);
}

/// Refused runs do not fit: a limit slightly above the estimate suffices.
#[test]
fn an_estimate_is_near_what_a_run_takes() {
    let sandbox = Sandbox::new("memory-near");
    let copy = ["run", "copy", "--set", "bytes=524288", "--data", "--memory"];
    let refused = sandbox.run(&[&copy[..], &["191M"]].concat());
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("at least 192."), "{}", refused.stderr);
    let run = sandbox.run(&[&copy[..], &["300M"]].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

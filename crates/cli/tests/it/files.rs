//! Output files never replace inputs, are written all or none, and are complete or unchanged.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::{Run, Sandbox};

const LOG: &str = "alloc a 1024\nfree a\n";

/// Returns the names of all files in a sandbox.
fn names(sandbox: &Sandbox) -> Vec<String> {
    let entries = fs::read_dir(&sandbox.folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[track_caller]
fn refused(sandbox: &Sandbox, arguments: &[&str], said: &str) {
    let run = sandbox.run(arguments);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{arguments:?}: {}", run.stderr);
    assert!(run.stderr.contains(said), "{arguments:?}: {}", run.stderr);
}

/// `--topology t.yaml --report t.yaml` drew a page over the machine.
#[test]
fn a_file_that_is_read_is_not_written() {
    let sandbox = Sandbox::new("files-read");
    for (name, contents) in [("t.yaml", "sips: {count: 2}\n"), ("c.yaml", "defaults: {}\n")] {
        sandbox.write(name, contents);
    }
    sandbox.write("p.yaml", "transfers: []\n");
    sandbox.write("t.svg", LOG);
    symlink("t.yaml", sandbox.path("link.yaml")).unwrap();
    fs::hard_link(sandbox.path("t.yaml"), sandbox.path("hard.svg")).unwrap();
    fs::create_dir(sandbox.path("folder")).unwrap();
    fs::hard_link(sandbox.path("t.yaml"), sandbox.path("folder/pe.svg")).unwrap();
    let topology =
        "cannot be written: --topology is read from this file\n  help: name another file with";
    let cases: [(&[&str], &str); 9] = [
        (&["run", "copy", "--topology", "t.yaml", "--report", "t.yaml"], topology),
        (&["run", "copy", "--topology", "t.yaml", "--trace", "./t.yaml"], topology),
        (&["run", "copy", "--topology", "link.yaml", "--trace", "t.yaml"], topology),
        (&["run", "copy", "--topology", "t.yaml", "--report", "link.yaml"], topology),
        (&["ccl", "--topology", "t.yaml", "--plot", "hard.svg"], topology),
        (
            &["probe", "--topology", "t.yaml", "--case", "pe-dma-local", "--trace", "t.yaml"],
            topology,
        ),
        (&["placement", "--shape", "8", "--topology", "t.yaml", "--draw", "hard.svg"], topology),
        (&["topology", "--topology", "t.yaml", "--draw", "folder"], topology),
        (
            &["replay", "t.svg", "--plot", "t.svg"],
            "cannot be written: a trace is read from this file",
        ),
    ];
    for (arguments, said) in cases {
        refused(&sandbox, arguments, said);
    }
    let pattern = "cannot be written: --pattern is read from this file";
    refused(&sandbox, &["probe", "--pattern", "p.yaml", "--trace", "p.yaml"], pattern);
    assert_eq!(sandbox.read("t.yaml"), "sips: {count: 2}\n");
    assert_eq!(sandbox.read("t.svg"), LOG);
}

/// The second output overwrote the first, and both were reported as written.
#[test]
fn two_outputs_are_two_files() {
    let sandbox = Sandbox::new("files-two");
    symlink("one", sandbox.path("other")).unwrap();
    for [trace, report] in [["one", "one"], ["one", "./one"], ["one", "other"], ["other", "one"]] {
        let arguments = ["run", "copy", "--trace", trace, "--report", report];
        refused(&sandbox, &arguments, "cannot be written: --trace is written to this file");
    }
    assert_eq!(names(&sandbox), ["other"]);
    // Two outputs may share a file that is not a regular file.
    let nowhere = ["run", "copy", "--trace", "/dev/null", "--report", "/dev/null"];
    sandbox.run(&nowhere).result();
}

/// Runs the command with a limit of 4 KiB on the size of files.
fn limited(sandbox: &Sandbox, arguments: &[&str]) -> Run {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\""]);
    shell.arg(env!("CARGO_BIN_EXE_cubeyard")).args(arguments);
    Run::of(shell.current_dir(&sandbox.folder).stdin(Stdio::null()).output().unwrap())
}

/// A failed write deleted the old file.
#[test]
fn a_write_that_fails_leaves_what_was_there() {
    let sandbox = Sandbox::new("files-fails");
    sandbox.write("t.yaml", "");
    let transfer =
        "- {op: read, from: sip0.cube0.pe0, to: sip0.cube0.pe1.hbm, bytes: 64 KiB}\n".repeat(64);
    sandbox.write("pattern.yaml", format!("transfers:\n{transfer}"));
    for name in ["a.html", "b.trace", "c.svg"] {
        sandbox.write(name, "old");
    }
    let before = names(&sandbox);
    let cases: [&[&str]; 4] = [
        &["run", "copy", "--report", "a.html", "--trace", "b.trace"],
        &["run", "copy", "--trace", "b.trace"],
        &["replay", "--plot", "c.svg", "--policy", "best-fit"],
        &["probe", "--pattern", "pattern.yaml", "--trace", "b.trace"],
    ];
    for arguments in cases {
        let run = limited(&sandbox, arguments);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{arguments:?}: {}", run.stderr);
        assert!(run.stderr.contains(": cannot be written: "), "{}", run.stderr);
        assert!(run.stderr.contains("File too large"), "{}", run.stderr);
        for name in ["a.html", "b.trace", "c.svg"] {
            assert_eq!(sandbox.read(name), "old", "{arguments:?}");
        }
        assert_eq!(names(&sandbox), before, "{arguments:?}");
    }
}

/// The trace is written while the pipe of the report has no reader yet; the command is interrupted there. Test runners
/// do not ignore this signal.
#[test]
fn an_interrupted_command_leaves_old_files_and_no_others() {
    let sandbox = Sandbox::new("files-interrupted");
    sandbox.write("a.trace", "old");
    assert!(Command::new("mkfifo").arg(sandbox.path("pipe")).status().unwrap().success());
    let mut command = sandbox.command(&["run", "copy", "--trace", "a.trace", "--report", "pipe"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut waits = 0..6000;
    while names(&sandbox).len() < 3 {
        waits.next().expect("a file beside the trace within a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), None, "a signal ends it");
    assert_eq!(names(&sandbox), ["a.trace", "pipe"]);
    assert_eq!(sandbox.read("a.trace"), "old");
}

#[test]
fn links_are_followed_and_modes_kept() {
    let sandbox = Sandbox::new("files-links");
    fs::create_dir(sandbox.path("far")).unwrap();
    sandbox.write("far/page.html", "old");
    fs::set_permissions(sandbox.path("far/page.html"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("far/page.html", sandbox.path("there.html")).unwrap();
    symlink("far/new.html", sandbox.path("new.html")).unwrap();
    for name in ["there.html", "new.html"] {
        sandbox.run(&["run", "copy", "--report", name]).result();
        assert!(fs::symlink_metadata(sandbox.path(name)).unwrap().is_symlink());
        assert!(sandbox.read(name).starts_with("<!DOCTYPE html>"), "{name}");
    }
    let mode = fs::metadata(sandbox.path("far/page.html")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(fs::read_dir(sandbox.path("far")).unwrap().count(), 2);
}

/// Standard output follows the output file if both are the same file.
#[test]
fn standard_output_and_pipes_are_written_in_place() {
    let sandbox = Sandbox::new("files-stdout");
    let to_file = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", command, env!("CARGO_BIN_EXE_cubeyard")]).stderr(Stdio::null());
        assert!(shell.current_dir(&sandbox.folder).status().unwrap().success(), "{command}");
    };
    to_file("\"$0\" run copy --report /dev/stdout > both");
    let both = sandbox.read("both");
    assert!(both.starts_with("<!DOCTYPE html>") && both.ends_with("\n    serve both\n"), "{both}");
    to_file("mkfifo pipe; cat pipe > read & \"$0\" run copy --report pipe > printed; wait");
    assert_eq!(sandbox.read("read") + &sandbox.read("printed"), both);
    assert!(!fs::metadata(sandbox.path("pipe")).unwrap().is_file());
}

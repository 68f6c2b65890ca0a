//! Files that expand to much memory are refused early, under a limit on the memory of the process.

use std::io::Write as _;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::{Run, Sandbox};

/// Returns a gzip file of `count` copies of `block` between `head` and `tail`.
fn bomb(head: &[u8], block: &[u8], count: usize, tail: &[u8]) -> Vec<u8> {
    let mut file = GzEncoder::new(Vec::new(), Compression::fast());
    file.write_all(head).expect("memory takes everything");
    (0..count).for_each(|_| file.write_all(block).expect("memory takes everything"));
    file.write_all(tail).expect("memory takes everything");
    file.finish().expect("memory takes everything")
}

/// Runs the command in a process that cannot have more than `mib` of memory.
fn confined(sandbox: &Sandbox, mib: u64, arguments: &[&str]) -> Run {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {}; exec \"$@\"", mib << 10), "sh"]);
    command.arg(env!("CARGO_BIN_EXE_cubeyard")).args(arguments);
    command.current_dir(&sandbox.folder).stdin(Stdio::null());
    Run::of(command.output().expect("the command starts"))
}

/// Empty lists once took 96 bytes each, so that 120 KB of gzip took 10 GB.
#[test]
fn a_pickle_of_empty_lists_is_refused_at_a_small_multiple_of_its_size() {
    let sandbox = Sandbox::new("bomb-lists");
    sandbox.write("lists.gz", bomb(b"\x80\x04(", &vec![b']'; 1 << 20], 24, b"t."));
    let run = confined(&sandbox, 1024, &["replay", "lists.gz"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
    let said = "expected data that needs at most 16 bytes of memory per byte of the pickle";
    assert!(run.stderr.contains(said), "{}", run.stderr);
}

/// The whole file was read before its first byte was checked.
#[test]
fn zeros_are_refused_by_their_first_bytes() {
    let sandbox = Sandbox::new("bomb-zeros");
    sandbox.write("zeros.gz", bomb(b"", &vec![0; 1 << 20], 512, b""));
    sandbox.write("opcode.gz", bomb(b"\x80\x04", &vec![0; 1 << 20], 512, b""));
    for (file, said) in [
        ("zeros.gz", "a trace does not begin with"),
        ("/dev/zero", "a trace does not begin with"),
        ("opcode.gz", "byte 2, no opcode"),
    ] {
        let run = confined(&sandbox, 256, &["replay", file]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
}

/// A valid file that is too large for the limit is not invalid input: the command ends with code 3 and a remedy.
#[test]
fn a_file_beyond_the_limit_says_how_to_allow_more() {
    let sandbox = Sandbox::new("memory-files");
    let script: Vec<_> = (0..200_000).map(|it| format!("alloc a{it} 512\n")).collect();
    sandbox.write("large.trace", script.concat());
    let replay = |limit| {
        let run = sandbox.run(&["replay", "large.trace", "--policy=first-fit", "--memory", limit]);
        (run.code, run.stderr)
    };
    let help = "help: allow more with --memory SIZE, or record a shorter part of the work\n";
    let reading =
        "error: large.trace: reading it takes more than 16.00 MiB of memory, which is the limit";
    assert_eq!(replay("16M"), (Some(3), format!("{reading}\n  {help}")));
    let replaying =
        "error: replaying large takes more than 64.00 MiB of memory, which is the limit";
    assert_eq!(replay("64M"), (Some(3), format!("{replaying}\n  {help}")));
    assert_eq!(replay("192M"), (Some(0), String::new()));
}

/// The estimated memory of a replay is above the memory of each policy. Otherwise the process would end with code 3 after
/// it began.
#[test]
fn what_is_replayed_fits_the_limit_that_let_it_begin() {
    let sandbox = Sandbox::new("memory-estimate");
    let script: Vec<_> = (0..40_000_u64)
        .map(|it| {
            let size = 512 * (1 + it * 7919 % 4096);
            let free = if it % 3 == 2 { format!("free a{}\n", it / 2) } else { String::new() };
            format!("alloc a{it} {size} stream {}\n{free}", it % 50)
        })
        .collect();
    sandbox.write("many.trace", script.concat());
    // All policies but the plan, which takes a minute for this many live blocks.
    let policies =
        ["pytorch", "pytorch-expandable", "first-fit", "quick-fit", "recycle", "lifetime"];
    for policy in policies {
        let replay =
            |memory| sandbox.run(&["replay", "many.trace", "--policy", policy, "--memory", memory]);
        // 16 MiB always, 512 bytes for each allocation, and the trace.
        let enough = replay("42M");
        assert_eq!(enough.code, Some(0), "{policy}: {}", enough.stderr);
        let less = replay("36M");
        assert_eq!(less.code, Some(3), "{policy}");
        assert!(less.stderr.starts_with("error: replaying many"), "{policy}: {}", less.stderr);
    }
}

//! Invalid input: exit code 2, a message with the location, nothing on standard output.

use std::io::Read as _;

use expect_test::{Expect, expect};

use crate::{Sandbox, recorded, refused};

const LOG: &str = "\
Thread,Time,Action,Pointer,Size,Stream
1,00:00:00.000000,allocate,0x200,1024,0
1,00:00:00.000001,free,0x200,1024,0
";

/// Replays a file called `name` with these contents.
#[track_caller]
fn refuse_file(name: &str, contents: impl AsRef<[u8]>, expected: &Expect) {
    let sandbox = Sandbox::new(&format!("bad-{name}"));
    sandbox.write(name, contents);
    refused(&sandbox.run(&["replay", name]), expected);
}

/// Returns a recorded snapshot, decompressed.
fn snapshot() -> Vec<u8> {
    let file = std::fs::File::open(recorded("resnet_train.pickle.gz")).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_truncated_pickle() {
    refuse_file(
        "half.pickle",
        &snapshot()[..10_000],
        &expect![[r#"
        error: half.pickle: snapshot, byte 2, FRAME: expected 65540 more bytes, found 9989
          help: take the snapshot again with torch.cuda.memory._dump_snapshot(FILE)
    "#]],
    );
}

#[test]
fn a_pickle_that_would_run_code() {
    refuse_file(
        "hostile.pickle",
        b"\x80\x02cos\nsystem\n(X\x02\0\0\0idtR.",
        &expect![[r#"
        error: hostile.pickle: snapshot, byte 2, GLOBAL: expected plain data, found an opcode that creates a class or function
          help: take the snapshot again with torch.cuda.memory._dump_snapshot(FILE)
    "#]],
    );
}

#[test]
fn a_snapshot_of_nothing() {
    let empty = b"\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces]u.";
    refuse_file(
        "nothing.pickle",
        empty,
        &expect![[r#"
        error: nothing.pickle: the snapshot holds no allocation
          help: call torch.cuda.memory._record_memory_history() before the work that you want to see
    "#]],
    );
}

#[test]
fn truncated_gzip() {
    let whole = std::fs::read(recorded("resnet_train.csv.gz")).unwrap();
    refuse_file(
        "half.csv.gz",
        &whole[..2000],
        &expect![[r#"
        error: half.csv.gz: gzip, byte 11800 of what is in it: expected more, found the end of the file
          help: copy or record the file again
    "#]],
    );
}

#[test]
fn damaged_gzip() {
    refuse_file(
        "damaged.csv.gz",
        b"\x1f\x8bnothing of the kind",
        &expect![[r#"
        error: damaged.csv.gz: gzip, byte 0 of what is in it: invalid gzip header
          help: copy or record the file again
    "#]],
    );
}

#[test]
fn a_foreign_file() {
    refuse_file(
        "picture.png",
        b"\x89PNG\r\n\x1a\n",
        &expect![[r#"
        error: picture.png: byte 0: this is a PNG image, which holds no trace: expected a PyTorch memory snapshot, an RMM log or a script
          help: make a snapshot with torch.cuda.memory._dump_snapshot(FILE), or a log with RMM's logging_resource_adaptor
    "#]],
    );
    refuse_file(
        "letter.txt",
        "Dear reader,\n",
        &expect![[r#"
        error: letter.txt: line 1: a trace does not begin with `Dear reader,`: expected a PyTorch memory snapshot, an RMM log or a script
          help: make a snapshot with torch.cuda.memory._dump_snapshot(FILE), or a log with RMM's logging_resource_adaptor
    "#]],
    );
}

#[test]
fn an_empty_file() {
    refuse_file(
        "empty.csv",
        "",
        &expect![[r#"
        error: empty.csv: byte 0: the file is empty
          help: copy or record the file again
    "#]],
    );
}

#[test]
fn a_log_with_a_missing_column() {
    refuse_file(
        "column.csv",
        LOG.replace(",Size", ""),
        &expect![[r#"
        error: column.csv: RMM log, line 1: the header has no column `Size`
          help: correct the log, or record it again with RMM's logging_resource_adaptor
    "#]],
    );
}

#[test]
fn a_free_without_an_allocation() {
    refuse_file(
        "free.csv",
        LOG.replace("free,0x200", "free,0x300"),
        &expect![[r#"
        error: free.csv: RMM log, line 3: 0x300 is freed, but is not live
          help: correct the log, or record it again with RMM's logging_resource_adaptor
    "#]],
    );
    refuse_file(
        "free.trace",
        "alloc a 1\nfree b\n",
        &expect![[r#"
        error: free.trace: script, line 2: `b` is freed, but is not live
          help: correct the script
    "#]],
    );
}

#[test]
fn a_size_beyond_64_bits() {
    let size = "18446744073709551616";
    refuse_file(
        "size.csv",
        LOG.replace("1024", size),
        &expect![[r#"
        error: size.csv: RMM log, line 2: expected a number of bytes of at most 64 bits as `Size`, found `18446744073709551616`
          help: correct the log, or record it again with RMM's logging_resource_adaptor
    "#]],
    );
    refuse_file(
        "size.trace",
        format!("alloc a {size}\n"),
        &expect![[r#"
        error: size.trace: script, line 1: expected the size of the allocation, found `18446744073709551616`
          help: correct the script
    "#]],
    );
}

#[test]
fn a_file_that_is_not_there() {
    let sandbox = Sandbox::new("bad-missing");
    refused(
        &sandbox.run(&["replay", "missing.csv"]),
        &expect![[r#"
        error: missing.csv: No such file or directory (os error 2)
          help: check the path
    "#]],
    );
}

#[test]
fn a_folder() {
    let sandbox = Sandbox::new("bad-folder");
    refused(
        &sandbox.run(&["replay", "."]),
        &expect![[r#"
            error: .: no file in this folder is named like a trace
              help: expected names that end in .csv, .pickle, .pkl, .trace, .log, or in one of them and .gz
        "#]],
    );
}

#[test]
fn the_first_bad_file_of_several_and_nothing_of_the_good_ones() {
    let sandbox = Sandbox::new("bad-several");
    sandbox.write("good.csv", LOG);
    sandbox.write("bad.csv", "Time,Action\n");
    sandbox.write("worse.csv", "");
    let run = sandbox.run(&["replay", "good.csv", "bad.csv", "worse.csv", "--plot", "out.svg"]);
    refused(
        &run,
        &expect![[r#"
        error: bad.csv: RMM log, line 1: the header has no column `Pointer`
          help: correct the log, or record it again with RMM's logging_resource_adaptor
    "#]],
    );
    assert!(!sandbox.path("out.svg").exists());
}

#[test]
fn a_lag_that_is_no_number() {
    let sandbox = Sandbox::new("bad-lag");
    refused(
        &sandbox.run(&["replay", "--lag", "-1"]),
        &expect![[r#"
            error: invalid value '-1' for '--lag <N|recorded>': lag is `-1`: expected a number of launches, such as 0 or 50, or `recorded`

            For more information, try '--help'.
        "#]],
    );
    refused(
        &sandbox.run(&["replay", "--lag", "many"]),
        &expect![[r#"
            error: invalid value 'many' for '--lag <N|recorded>': lag is `many`: expected a number of launches, such as 0 or 50, or `recorded`

            For more information, try '--help'.
        "#]],
    );
}

#[test]
fn an_unknown_policy() {
    let sandbox = Sandbox::new("bad-policy");
    refused(
        &sandbox.run(&["replay", "--policy", "best-fot"]),
        &expect![[r#"
            error: invalid value 'best-fot' for '--policy <NAME>': there is no policy `best-fot`: did you mean `best-fit`? The policies are pytorch, pytorch-expandable, first-fit, best-fit, quick-fit, recycle, lifetime, planned

            For more information, try '--help'.
        "#]],
    );
}

#[test]
fn a_picture_that_cannot_be_written() {
    let sandbox = Sandbox::new("bad-plot");
    sandbox.write("good.csv", LOG);
    let plot = |file| sandbox.run(&["replay", "good.csv", "--plot", file]);
    refused(
        &plot("missing/out.svg"),
        &expect![[r#"
        error: missing/out.svg: cannot be written: there is no folder missing
          help: create the folder
    "#]],
    );
    refused(
        &plot("out.png"),
        &expect![[r#"
        error: invalid value 'out.png' for '--plot <OUT>': expected a file name that ends in .svg or .html

        For more information, try '--help'.
    "#]],
    );
    std::fs::create_dir(sandbox.path("folder.svg")).unwrap();
    refused(
        &plot("folder.svg"),
        &expect![[r#"
        error: folder.svg: cannot be written: it is a folder
          help: name a file
    "#]],
    );
}

/// `/dev/full` passes the early check but accepts no byte.
#[cfg(target_os = "linux")]
#[test]
fn a_picture_that_there_is_no_room_for() {
    let sandbox = Sandbox::new("bad-full");
    sandbox.write("good.csv", LOG);
    std::os::unix::fs::symlink("/dev/full", sandbox.path("out.svg")).unwrap();
    refused(
        &sandbox.run(&["replay", "good.csv", "--plot", "out.svg"]),
        &expect![[r#"
            error: out.svg: cannot be written: No space left on device (os error 28)
              help: name another file with --plot
        "#]],
    );
}

#[test]
fn an_unknown_command() {
    let sandbox = Sandbox::new("bad-command");
    let run = sandbox.run(&["replya"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    assert!(run.stderr.contains("replay"), "{}", run.stderr);
}

//! The header and the library as C programs see them: compiled, linked and run.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

mod environment;
mod header;
#[path = "../../../../testdata/long_tests.rs"]
mod long_tests;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use expect_test::expect;

/// Returns the path of a file of this crate.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the folder of `libcubeyard`, which is built once, in the folder and the profile of this test.
fn library() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(built).clone()
}

fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its file");
    let profile = test.ancestors().nth(2).expect("a test is in `deps` of its profile");
    let target = profile.parent().expect("a profile is in the target folder");
    let release = profile.ends_with("release").then_some("--release");
    run(Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline", "--package", "cubeyard-clib"])
        .args(release)
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR")));
    profile.to_owned()
}

/// Runs a command, which must succeed.
fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{words}");
    output
}

/// Compiles a C program against the library and returns its path.
fn compiled(source: &Path, name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let library = library();
    run(Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g"])
        .arg(source)
        .arg("-I")
        .arg(file("include"))
        .arg("-L")
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .args(["-lcubeyard", "-lpthread", "-o"])
        .arg(&program));
    program
}

/// Returns a command that runs a program without the variables that the library reads.
fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    for name in environment::VARIABLES {
        command.env_remove(name);
    }
    // Cargo's own path precedes the program's path, and may contain a library of an earlier build.
    command.env("LD_LIBRARY_PATH", library());
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("C programs here write ASCII")
}

/// Compiles and runs a C program and returns its output.
fn output_of(source: &str, name: &str) -> String {
    stdout(&run(&mut clean(&compiled(&file(source), name))))
}

#[test]
fn a_device_that_is_smaller_than_a_default_region_is_told_the_remedy() {
    let told = output_of("examples/own_device.c", "own_device");
    assert!(told.contains("less than any of the fallback sizes"), "{told}");
    assert!(told.contains("`sizes:fitted` from the start"), "{told}");
}

#[test]
fn the_example_runs_as_it_says() {
    let program = compiled(&file("examples/embed.c"), "embed");
    let snapshot = Path::new(env!("CARGO_TARGET_TMPDIR")).join("embed.pickle");
    let output = stdout(&run(clean(&program).arg(&snapshot)));
    expect![[r#"
        weights  region 0 + 0x00000000, 41943168 bytes for 41943045
        program  region 1 + 0x00000000, 300032 bytes for 300000
        launch   segment 0, flat address 0x400000000
        pressure: 20 MiB wanted, the longest free range is 3 MiB; dropping 4 cached blocks
        batch    region 0 + 0x02800080, 20971520 bytes for 20971520
        pressure: 100 MiB wanted, the longest free range is 3 MiB; dropping 0 cached blocks
        100 MiB: CUBEYARD_ERROR_TOO_BIG
        out of memory: wanted 100.00 MiB (104857600 B, rounded to 104857600 B)
          free 4.00 MiB, longest free range 4.00 MiB, in 1 regions
          device: 0 B of 128.00 MiB free; no more regions are acquired
          region 0x0: 64.00 MiB, 4.00 MiB free, longest range 4.00 MiB, 2 blocks
          no region can ever hold it: the longest block is 64.00 MiB, and the device has 128.00 MiB in all
          it fits under none of the 17 remedies tried on a copy; 96.00 MiB more must be free
        allocated 63214720, reserved 134217728, retries 2, out of memory 1
        destroy: CUBEYARD_ERROR_IN_USE: 3 blocks and 0 pins are live; free them, or abandon them
        done
    "#]].assert_eq(&output);
    let pickle = std::fs::read(snapshot).expect("the example writes a snapshot");
    assert_eq!(pickle[..2], [0x80, 4], "protocol 4");
}

#[test]
fn wrong_calls_are_refused_and_change_nothing() {
    expect![[r#"
        158 expectations hold
    "#]]
    .assert_eq(&output_of("tests/it/c/errors.c", "errors"));
}

#[test]
fn devices_and_streams_can_be_functions_of_the_caller() {
    expect![[r#"
        84 expectations hold
    "#]]
    .assert_eq(&output_of("tests/it/c/callbacks.c", "callbacks"));
}

#[test]
fn functions_of_a_device_may_call_back_and_never_wait_for_themselves() {
    expect![[r#"
        4 calls back
    "#]]
    .assert_eq(&output_of("tests/it/c/reentrant.c", "reentrant"));
}

#[test]
fn what_belongs_to_one_allocator_is_refused_by_another() {
    expect![[r#"
        34 expectations hold
    "#]]
    .assert_eq(&output_of("tests/it/c/foreign.c", "foreign"));
}

#[test]
fn the_child_of_a_fork_is_refused_what_its_parent_made() {
    expect![[r#"
        the child went its own way
    "#]]
    .assert_eq(&output_of("tests/it/c/fork.c", "fork"));
}

#[test]
fn programs_are_launched_and_memory_compacted_on_several_devices() {
    expect![[r#"
        165 expectations hold
    "#]]
    .assert_eq(&output_of("tests/it/c/launch.c", "launch"));
}

#[test]
fn a_device_may_refuse_for_a_while_but_not_return_a_region_twice() {
    expect![[r#"
        42 expectations hold
    "#]]
    .assert_eq(&output_of("tests/it/c/refusals.c", "refusals"));
}

#[test]
fn blocks_are_freed_on_other_threads() {
    expect![[r#"
        6000 blocks freed on other threads
    "#]]
    .assert_eq(&output_of("tests/it/c/threads.c", "threads"));
}

#[test]
fn pools_have_regions_of_their_own_and_tags_have_budgets() {
    expect![[r#"
        77 expectations hold
    "#]]
    .assert_eq(&output_of("tests/it/c/pools.c", "pools"));
}

#[test]
fn blocks_move_in_steps_grow_in_place_and_rest() {
    expect![[r#"
        132 expectations hold
    "#]]
    .assert_eq(&output_of("tests/it/c/moving.c", "moving"));
}

#[test]
fn subscribers_receive_every_event_until_they_are_taken_back() {
    let program = compiled(&file("tests/it/c/watch.c"), "watch");
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("watch.csv");
    expect![[r#"
        78 expectations hold
    "#]]
    .assert_eq(&stdout(&run(clean(&program).arg(&log))));
}

/// Runs random histories through the C functions, and returns the output.
fn histories(count: u32, operations: u32) -> String {
    let program = compiled(&file("tests/it/c/histories.c"), "histories");
    stdout(&run(clean(&program).arg(count.to_string()).arg(operations.to_string())))
}

#[test]
fn random_histories_agree_with_the_ledger() {
    let count = long_tests::cases(240);
    let words = format!("{count} histories of 2000 operations agree with the ledger\n");
    assert_eq!(histories(count, 2000), words);
}

/// Takes about six minutes.
#[test]
#[ignore = "takes long: cargo test -p cubeyard-capi --release --test it long_random_histories -- --ignored"]
fn long_random_histories_agree_with_the_ledger() {
    let words = "600 histories of 100000 operations agree with the ledger\n";
    assert_eq!(histories(600, 100_000), words);
}

//! Files of records: resumed, torn, shared, and on a full disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cubeyard_bench::record::{FORMAT, Record};
use cubeyard_study::{Records, RecordsError};
use serde_json::json;

/// Returns a path for a test, in an empty folder.
fn fresh(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder.join("records.jsonl")
}

/// Returns the record of an input, with a figure.
fn record(n: u64) -> Record {
    let map = |key: &str, value: u64| [(key.to_owned(), json!(value))].into_iter().collect();
    let record = Record::named("square".to_owned(), String::new(), map("n", n));
    Record { figures: Some(map("value", n * n)), ..record }
}

fn failed(n: u64) -> Record {
    Record { figures: None, error: Some("refused".to_owned()), ..record(n) }
}

fn keys(numbers: &[u64]) -> Vec<String> {
    numbers.iter().map(|n| record(*n).key()).collect()
}

/// Adds records of these inputs.
fn add(path: &Path, resume: bool, numbers: &[u64]) -> Records {
    let mut records = Records::open(Some(path), resume).unwrap();
    numbers.iter().for_each(|n| records.add(&record(*n)).unwrap());
    records
}

fn inputs(path: &Path) -> Vec<u64> {
    let line = |line: &str| Record::read(line).unwrap().inputs["n"].as_u64().unwrap();
    fs::read_to_string(path).unwrap().lines().map(line).collect()
}

#[test]
fn records_are_in_the_file_as_soon_as_they_are_added() {
    let path = fresh("appended");
    let records = add(&path, true, &[3, 1]);
    assert_eq!(inputs(&path), [3, 1]);
    assert_eq!(records.line(&record(1).key()), Some(record(1).line().as_str()));
    assert_eq!(records.line("other"), None);
}

#[test]
fn a_sorted_file_has_the_order_of_the_keys_and_then_other_records_as_they_came() {
    let path = fresh("sorted");
    add(&path, true, &[9, 8, 2, 3, 1]).sort(&keys(&[1, 2, 3])).unwrap();
    assert_eq!(inputs(&path), [1, 2, 3, 9, 8]);
    let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 1, "no temporary file is left");
}

#[test]
fn a_resumed_file_keeps_records_and_what_failed_is_made_again() {
    let path = fresh("resumed");
    add(&path, true, &[1, 2]).add(&failed(3)).unwrap();
    let mut records = Records::open(Some(&path), true).unwrap();
    assert_eq!([1, 2, 3, 4].map(|n| records.has(&record(n).key())), [true, true, false, false]);
    records.add(&record(3)).unwrap();
    assert!(records.has(&record(3).key()));
    records.sort(&keys(&[1, 2, 3])).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().last(), Some(&*record(3).line()));
    drop(records);
    assert!(!Records::open(Some(&path), false).unwrap().has(&record(1).key()));
    assert!(inputs(&path).is_empty(), "all records are made again");
}

#[test]
fn the_torn_line_of_a_killed_writer_is_cut_off() {
    let path = fresh("torn");
    drop(add(&path, true, &[1, 2, 3]));
    let whole = fs::read(&path).unwrap();
    let line = whole.len() / 3;
    for torn in [line * 2 + 1, line * 2 + 7, line * 2 + 40, line * 3 - 1, line * 2, 5, 0] {
        fs::write(&path, &whole[..torn]).unwrap();
        let kept = torn / line;
        let records = Records::open(Some(&path), true).unwrap();
        assert_eq!(inputs(&path), (1..=kept as u64).collect::<Vec<_>>(), "{torn}");
        assert!(!records.has(&record(3).key()));
        drop(records);
        let rest: Vec<_> = (kept as u64 + 1..=3).collect();
        drop(add(&path, true, &rest));
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
}

#[test]
fn a_file_of_something_else_is_refused_and_kept() {
    let path = fresh("other");
    let newer = record(1).line().replace(&format!("\"format\":{FORMAT}"), "\"format\":9") + "\n";
    for (contents, expected) in [
        ("dear diary".to_owned(), "records.jsonl:1: not a record"),
        ("dear\ndiary\n".to_owned(), "records.jsonl:1: not a record"),
        (record(1).line() + "\nnothing\n", "records.jsonl:2: not a record"),
        (record(1).line() + "\n{\"form\":", "records.jsonl:2: not a record"),
        (newer, "records.jsonl:1: a record of format 9"),
    ] {
        fs::write(&path, &contents).unwrap();
        let error = Records::open(Some(&path), true).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), contents);
    }
    for path in ["/dev/full", "/dev/zero", "/dev/null", "."] {
        let error = Records::open(Some(Path::new(path)), true).unwrap_err();
        assert!(matches!(error, RecordsError::NotPlain(_)), "{error}");
    }
    let nowhere = path.with_file_name("no").join("folder.jsonl");
    let error = Records::open(Some(&nowhere), true).unwrap_err().to_string();
    assert!(error.ends_with("folder.jsonl: No such file or directory"), "{error}");
}

#[test]
fn a_second_writer_is_refused_until_the_first_has_ended() {
    let path = fresh("shared");
    let mut first = add(&path, true, &[2]);
    for resume in [true, false] {
        let error = Records::open(Some(&path), resume).unwrap_err();
        assert!(matches!(error, RecordsError::Busy(_)), "{error}");
    }
    first.add(&record(1)).unwrap();
    first.sort(&keys(&[1, 2])).unwrap();
    drop(first);
    assert!(add(&path, true, &[3]).has(&record(2).key()));
    assert_eq!(inputs(&path), [1, 2, 3]);
}

/// Runs itself again in a process with a limit of 4 KiB on files, which simulates a full disk.
#[test]
#[expect(clippy::disallowed_methods, reason = "the second process is told its file")]
fn a_full_disk_is_named_and_leaves_whole_records() {
    if let Some(path) = std::env::var_os("CUBEYARD_FULL_DISK") {
        return fill(Path::new(&path));
    }
    let path = fresh("full");
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\""]);
    shell.arg(std::env::current_exe().unwrap());
    shell.args(["--exact", "records::a_full_disk_is_named_and_leaves_whole_records"]);
    let ended = shell.env("CUBEYARD_FULL_DISK", &path).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    let kept = inputs(&path);
    assert!(kept.len() > 10 && kept.len() < 50, "{kept:?}");
    let rest: Vec<_> = (kept.len() as u64..50).collect();
    drop(add(&path, true, &rest));
    assert_eq!(inputs(&path), (0..50).collect::<Vec<_>>());
}

/// Adds records until one does not fit.
fn fill(path: &Path) {
    let mut records = Records::open(Some(path), true).unwrap();
    let errors: Vec<_> = (0..50).filter_map(|n| records.add(&record(n)).err()).collect();
    let text = "records.jsonl: File too large; earlier records are kept";
    assert!(errors[0].to_string().contains(text), "{}", errors[0]);
    let before = fs::read(path).unwrap();
    assert!(before.ends_with(b"\n"));
    assert!(matches!(records.sort(&keys(&[1])), Err(RecordsError::File { .. })));
    assert_eq!(fs::read(path).unwrap(), before);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

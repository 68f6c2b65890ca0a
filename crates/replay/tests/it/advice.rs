//! Advice on snapshots of PyTorch that do not tell everything, made of one that does.

use std::sync::Arc;

use cubeyard_memory::device::{Card, CardSpec};
use cubeyard_memory::{Bytes, FlexAllocator};
use cubeyard_replay::trace::{HistoryExtent, RecordedBy, Trace, read};
use cubeyard_replay::{POLICIES, Report, advice};

use crate::readers::python::python;
use crate::readers::{LIMIT, recorded_file};

/// The recorded snapshot, changed by a few lines of Python: `snapshot`, `entries` and `settings`.
fn changed(lines: &str) -> Trace {
    let program = format!(
        r#"
import pickle, sys
snapshot = pickle.load(sys.stdin.buffer)
entries, settings = snapshot["device_traces"][0], snapshot["allocator_settings"]
{lines}
snapshot["device_traces"] = [entries]
sys.stdout.buffer.write(pickle.dumps(snapshot, 4))
"#
    );
    let bytes = python(&program, &recorded_file("resnet_train.pickle.gz"));
    read("training", &bytes, LIMIT).expect("a snapshot").remove(0)
}

fn report(trace: &Trace) -> Report {
    let rows = POLICIES.iter().map(|policy| policy.replay(trace, &mut || 0, &mut |_| {}));
    Report { rows: rows.collect(), ..Report::new(trace) }
}

fn said(trace: &Trace) -> String {
    advice(&[report(trace)])
}

#[test]
fn a_whole_recording_that_the_model_reproduces_gives_advice() {
    let trace = changed("");
    let report = report(&trace);
    assert_eq!(trace.recording.as_ref().unwrap().history, HistoryExtent::Whole);
    assert_eq!((report.modelled, report.doubt()), (trace.recorded_reserved(), None));
    assert!(advice(&[report]).starts_with("`recycle` would have needed 7.02 GiB where PyTorch"));
}

/// It said "99 % less".
#[test]
fn a_snapshot_without_history_gives_no_advice() {
    let trace = changed("entries = []");
    assert_eq!(trace.recording.as_ref().unwrap().history, HistoryExtent::Missing);
    let said = said(&trace);
    assert!(said.starts_with("No advice on `training`: it has no history"), "{said}");
    assert!(!said.contains("less"), "{said}");
}

/// The last quarter of the history, as a ring that was full has it. It said "31 % less" where the whole says 17.
#[test]
fn a_history_that_has_wrapped_gives_no_advice() {
    let trace = changed("entries = entries[len(entries) * 3 // 4:]");
    let said = said(&trace);
    let expected = "No advice on `training`: its history begins with 5.80 GiB live and 7.47 GiB reserved, \
                    and what led to that is lost; record from the start, with a larger max_entries.";
    assert_eq!(said, expected);
    assert_eq!(report(&trace).recommended().map(|row| row.policy.name), None);
}

/// The cache of an earlier part of the program is part of what was reserved, though none of it is live.
#[test]
fn a_history_that_begins_with_a_cache_alone_is_not_whole() {
    let trace = changed(
        r#"snapshot["segments"].append({"device": 0, "address": 1 << 50, "total_size": 1 << 30, "stream": 0, "blocks": []})"#,
    );
    let (live, reserved) = (Bytes::ZERO, Bytes::gib(1));
    assert_eq!(trace.recording.unwrap().history, HistoryExtent::Begun { live, reserved });
}

#[test]
fn settings_that_the_recording_had_are_read() {
    // The history is one without expandable segments, so that a model with them does not reproduce it.
    let trace = changed(r#"settings["expandable_segments"] = True"#);
    assert!(trace.recording.as_ref().unwrap().expandable);
    let expected = "No advice on `training`: the model of PyTorch reserves 7.10 GiB for it where PyTorch \
                    reserved 8.48 GiB, so it misses something that mattered; compare the policies with each \
                    other only.";
    assert_eq!(said(&trace), expected);
    let trace = changed(
        r#"settings.update(max_split_size=128 << 20, garbage_collection_threshold=0.8)
settings["roundup_power2_divisions"]["256"] = 4"#,
    );
    let settings = trace.recording.unwrap().other_settings;
    let names = ["max_split_size_mb", "garbage_collection_threshold", "roundup_power2_divisions"];
    assert_eq!(settings, names);
}

/// The program ends where the last segment was asked for: 100 MiB are free beside what is reserved, and the
/// request is for 64 MiB more than that and all segments that nothing lives in.
const OUT_OF_MEMORY: &str = r#"
last = [place for place, entry in enumerate(entries) if entry["action"] == "segment_alloc"][-1]
time_us = entries[last]["time_us"]
entries = entries[:last]
live, kept = {}, {entry["addr"] for entry in entries if entry["action"] == "segment_alloc"}
for entry in entries:
    if entry["action"] == "alloc": live[entry["addr"]] = entry["size"]
    if entry["action"] == "free_completed": del live[entry["addr"]]
snapshot["segments"] = [segment for segment in snapshot["segments"] if segment["address"] in kept]
for segment in snapshot["segments"]:
    end = segment["address"] + segment["total_size"]
    block = lambda address: {"address": address, "size": 512, "requested_size": live[address], "state": "active_allocated"}
    segment["blocks"] = [block(address) for address in sorted(live) if segment["address"] <= address < end]
empty = sum(segment["total_size"] for segment in snapshot["segments"] if not segment["blocks"])
entries.append({"action": "oom", "device_free": 100 << 20, "size": empty + (164 << 20), "stream": 0, "time_us": time_us})
"#;

#[test]
fn a_request_that_failed_is_tried_with_every_policy() {
    let trace = changed(OUT_OF_MEMORY);
    let recording = trace.recording.as_ref().unwrap();
    let [failure] = recording.out_of_memory[..] else { panic!("one request failed") };
    assert_eq!(failure.event, trace.events.len());
    assert_eq!(failure.capacity, Some(trace.recorded_reserved().unwrap() + Bytes::mib(100)));
    let report = report(&trace);
    // One region that only grows has holes where the request does not fit, and PyTorch's segments have more.
    let fits: Vec<_> = report.rows.iter().map(|row| row.fits.unwrap()).collect();
    assert_eq!(fits, [false, true, false, false, false, true, true, true]);
    let said = advice(&[report]);
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("`training` ran out of memory when"), "{said}");
    let names = "`pytorch-expandable`, `recycle`, `lifetime`, `planned`";
    assert!(last.ends_with(&format!(": {names} would have fitted.")), "{said}");
}

#[test]
fn a_snapshot_of_cubeyard_is_known_as_one() {
    let card = Arc::new(Card::new(CardSpec::physical(Bytes::gib(16))));
    let config = "history:100,fallback_sizes:[8GiB]".parse().expect("a configuration");
    let allocator = FlexAllocator::builder(card).config(config).build().expect("an allocator");
    let _block = allocator.allocate(Bytes::mib(300)).expect("room");
    let mut bytes = Vec::new();
    allocator.snapshot().write_pickle(0, &mut bytes).expect("writing to memory");
    let trace = read("ours", &bytes, LIMIT).expect("a snapshot").remove(0);
    let recording = trace.recording.as_ref().unwrap();
    assert_eq!((recording.by, recording.history), (RecordedBy::Cubeyard, HistoryExtent::Whole));
    let report = report(&trace);
    assert_eq!(report.recorded_cells().unwrap()[0], "Cubeyard, as recorded");
    let said = advice(&[report]);
    let expected =
        "`first-fit` would have needed 300.00 MiB where Cubeyard reserved 8.00 GiB: 96 % less.";
    assert_eq!(said, expected);
}

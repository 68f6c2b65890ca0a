//! Traces recorded from real models, compared with PyTorch's own figures.

use cubeyard_memory::Bytes;
use cubeyard_replay::trace::{Allocate, Event, read, rmm};

use super::python::python;
use super::{LIMIT, peak_requested, recorded_file, traces_folder};

/// The names in `native.json` with the number of lines of each log, header excluded.
const LOGS: [(&str, usize); 5] = [
    ("gpt2_train", 56_995),
    ("llama_generate", 567_151),
    ("llama_train_ckpt", 73_032),
    ("resnet_train", 14_539),
    ("serving_mix", 126_624),
];

#[test]
fn logs_have_the_peak_that_pytorch_counted() {
    let native = std::fs::read(traces_folder().join("native.json")).expect("native.json");
    let native: serde_json::Value = serde_json::from_slice(&native).expect("JSON");
    for (name, events) in LOGS {
        let traces = read(name, &recorded_file(&format!("{name}.csv.gz")), LIMIT).expect(name);
        let said = &native[name]["default"];
        assert_eq!((traces.len(), traces[0].events.len()), (1, events), "{name}");
        assert_eq!(Some(u64::from(traces[0].allocations)), said["allocs"].as_u64(), "{name}");
        let peak = peak_requested(&traces[0]);
        assert_eq!(Some(peak), said["peak_requested"].as_u64().map(Bytes::new), "{name}");
    }
}

#[test]
fn a_log_is_written_as_it_was_read() {
    let bytes = recorded_file("resnet_train.csv.gz");
    let trace = rmm::read("resnet_train", &bytes, LIMIT).expect("a log");
    let mut written = Vec::new();
    rmm::write(&trace, &mut written).expect("writing to memory");
    assert!(written == bytes, "the log was recorded with the addresses that the writer gives");
}

#[test]
fn snapshots_have_the_peak_that_pytorch_reserved() {
    let snapshots = [
        ("resnet_train", 2521, 2518, 9_103_736_832),
        ("resnet_train_stacks", 1838, 1835, 4_674_551_808),
    ];
    for (name, allocations, frees, reserved) in snapshots {
        let traces = read(name, &recorded_file(&format!("{name}.pickle.gz")), LIMIT).expect(name);
        let [trace] = &traces[..] else { panic!("one device") };
        assert_eq!((trace.name.as_str(), trace.allocations), (name, allocations));
        assert_eq!(trace.events.len(), allocations as usize + frees, "{name}");
        assert_eq!(trace.recorded_reserved(), Some(Bytes::new(reserved)), "{name}");
        assert!(peak_requested(trace) < Bytes::new(reserved), "{name}");
    }
}

/// A pickle that needs sixteen bytes of memory per byte is refused; real snapshots need far less.
#[test]
fn snapshots_take_a_small_multiple_of_their_size() {
    for name in ["resnet_train", "resnet_train_stacks"] {
        let bytes = recorded_file(&format!("{name}.pickle.gz"));
        let limit = |times| Bytes::new(bytes.len() as u64 * times);
        let least = (1..30).find(|&times| read(name, &bytes, limit(times)).is_ok());
        assert!(least.is_some_and(|times| times <= 10), "{name}: {least:?} times");
    }
}

/// Prints the events of a history as Python pairs them: a free, or number, size and site of an allocation.
const PAIRED: &str = r#"
import pickle, sys
entries = pickle.load(sys.stdin.buffer)["device_traces"][0]
begin, live, sites, number = entries[0]["time_us"], {}, {}, 0
for entry in entries:
    time = entry["time_us"] - begin
    if entry["action"] == "alloc":
        frames = tuple((f["filename"], f["line"], f["name"]) for f in entry.get("frames", []))
        site = sites.setdefault(frames, 1 + len(sites)) if frames else 0
        print("alloc", number, entry["size"], site, time)
        live[entry["addr"]] = number
        number += 1
    if entry["action"] == "free_completed":
        print("free", live.pop(entry["addr"]), time)
"#;

#[test]
fn python_pairs_the_frees_of_a_snapshot_alike() {
    for name in ["resnet_train", "resnet_train_stacks"] {
        let bytes = recorded_file(&format!("{name}.pickle.gz"));
        let trace = read(name, &bytes, LIMIT).expect(name).remove(0);
        let lines: Vec<String> = trace.events.iter().map(line).collect();
        let paired = String::from_utf8(python(PAIRED, &bytes)).expect("text");
        assert!(lines.iter().eq(paired.lines()), "{name}");
        let site = |event: &Event| matches!(event, Event::Allocate(allocate) if allocate.site > 0);
        assert_eq!(trace.events.iter().any(site), name.ends_with("stacks"));
    }
}

fn line(event: &Event) -> String {
    match event {
        Event::Allocate(Allocate { id, size, site, time_us, .. }) => {
            format!("alloc {} {} {site} {time_us}", id.0, size.get())
        }
        Event::Free { id, time_us } => format!("free {} {time_us}", id.0),
    }
}

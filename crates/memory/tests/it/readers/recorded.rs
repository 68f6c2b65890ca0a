//! Traces recorded from real models, against what PyTorch said about them.

use cubeyard_memory::Bytes;
use cubeyard_memory::trace::{read, rmm};

use super::{peak_requested, recorded_file, traces_folder};

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
        let traces = read(name, &recorded_file(&format!("{name}.csv.gz"))).expect(name);
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
    let trace = rmm::read("resnet_train", &bytes).expect("a log");
    let mut written = Vec::new();
    rmm::write(&trace, &mut written).expect("writing to memory");
    assert!(written == bytes, "the log was recorded with the addresses that the writer gives");
}

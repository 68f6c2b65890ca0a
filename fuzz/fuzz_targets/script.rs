//! Any bytes as a trace of unknown form, and any text as a script: a valid trace is written and read back unchanged.

#![no_main]

use cubeyard_memory::Bytes;
use cubeyard_replay::trace::read;
use cubeyard_replay::trace::script::Script;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = read("fuzz", bytes, Bytes::gib(1));
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(script) = Script::parse(text) else { return };
    let written = script.to_string();
    let again = Script::parse(&written).expect("what was written can be read");
    let steps = |script: Script| -> Vec<_> {
        script.statements.into_iter().map(|statement| statement.step).collect()
    };
    assert_eq!(steps(again), steps(script));
});

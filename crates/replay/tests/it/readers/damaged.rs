//! Damaged and malicious files: each gives an error quickly.

use cubeyard_pickle::{self as pickle, Limits};
use cubeyard_replay::trace::read;
use proptest::prelude::*;

use super::python::python;
use super::{LIMIT, recorded_file};

/// Returns the beginning and the end of a recorded snapshot, small enough to damage each byte.
fn small_snapshot() -> Vec<u8> {
    let program = r#"
import pickle, sys
snapshot = pickle.load(sys.stdin.buffer)
entries = snapshot["device_traces"][0][:3] + snapshot["device_traces"][0][2000:2004]
for entry in entries: entry["frames"] = entry["frames"][:2]
snapshot["device_traces"] = [entries]
snapshot["segments"] = [s for s in snapshot["segments"] if s["allocated_size"]][:1]
sys.stdout.buffer.write(pickle.dumps(snapshot, 4))
"#;
    let bytes = python(program, &recorded_file("resnet_train_stacks.pickle.gz"));
    assert!(read("whole", &bytes, LIMIT).is_ok_and(|traces| traces.len() == 1));
    bytes
}

#[test]
fn a_snapshot_that_is_cut_off_anywhere_is_refused() {
    let bytes = small_snapshot();
    for end in 0..bytes.len() {
        assert!(read("cut", &bytes[..end], LIMIT).is_err(), "cut at {end} of {}", bytes.len());
    }
    assert!(bytes.len() > 1000);
}

#[test]
fn a_snapshot_with_a_wrong_byte_is_read_or_refused() {
    let mut bytes = small_snapshot();
    for place in 0..bytes.len() {
        for flipped in [0x01, 0x80, 0xff] {
            bytes[place] ^= flipped;
            let _ = read("flipped", &bytes, LIMIT);
            bytes[place] ^= flipped;
        }
    }
}

/// Returns nested lists, each of which holds the next list many times.
fn bomb(levels: u8, top: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x80\x04]\x94".to_vec();
    for level in 0..levels {
        bytes.extend(b"0]\x94(");
        bytes.extend([b'h', level].repeat(200));
        bytes.push(b'e');
    }
    bytes.extend(top);
    bytes
}

#[test]
fn a_bomb_of_shared_lists_does_not_go_off() {
    let plain = bomb(60, b".");
    let document = pickle::read(&plain, &Limits::default()).expect("plain data");
    assert_eq!(document.containers(), 61);
    // The same list as the history of two hundred devices, with two hundred entries each.
    let snapshot = bomb(2, b"0}(\x8c\x08segments]\x8c\x0ddevice_tracesh\x02u.");
    let error = read("bomb", &snapshot, LIMIT).unwrap_err().to_string();
    let said = "snapshot, device_traces[0][0]: expected a dictionary, found a list";
    assert_eq!(error, said);
}

/// A comparison of these frames by their text would compare ten terabytes.
#[test]
fn a_long_text_in_many_frames_is_looked_at_once() {
    let mut bytes = b"\x80\x04\x8c\x08filename\x940\x8c\x04line\x940\x8c\x04name\x940X".to_vec();
    bytes.extend(4_000_000_u32.to_le_bytes());
    bytes.extend(b"x".repeat(4_000_000));
    bytes.extend(
        b"\x940}(\x8c\x08segments]\x8c\x0ddevice_traces]](}(\x8c\x06action\x8c\x05alloc\
        \x8c\x04addrK\x01\x8c\x04sizeK\x01\x8c\x06streamK\x01\x8c\x06frames](",
    );
    for line in 0..200_000_u32 {
        bytes.extend(b"}(h\x00h\x03h\x02h\x03h\x01J");
        bytes.extend(line.to_le_bytes());
        bytes.push(b'u');
    }
    bytes.extend(b"eueau.");
    assert!(read("long", &bytes, LIMIT).is_ok_and(|traces| traces[0].allocations == 1));
}

#[test]
fn an_entry_that_occurs_twice_is_refused() {
    let bytes = b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces]](}(\
        \x8c\x06action\x8c\x03oomu2eau.";
    let error = read("twice", bytes, LIMIT).unwrap_err().to_string();
    let said = "snapshot, device_traces[0][1]: expected a new entry, \
                found an object that occurs earlier";
    assert_eq!(error, said);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read("random", &bytes, LIMIT);
        let _ = pickle::read(&bytes, &Limits::default());
    }

    #[test]
    fn any_opcodes_are_read_or_refused(
        codes in proptest::collection::vec(
            prop::sample::select(b"(.012IJKLMNXade}]gh)jlpqrstuG\x80\x85\x86\x87\x88\x89\x8a\x8b\x8c\x94\n\x00\x01\x02".to_vec()),
            0..80,
        )
    ) {
        let _ = pickle::read(&codes, &Limits::default());
    }

    #[test]
    fn any_lines_are_read_or_refused(
        lines in proptest::collection::vec(
            "(1|x),0:0:[0-9]\\.[0-9]{1,7},(allocate|free|allocate failure),(0x[0-9a-f]|[0-9]|\\(nil\\)),[0-9]{1,3},0", 0..20
        )
    ) {
        let log = format!("Thread,Time,Action,Pointer,Size,Stream\n{}", lines.join("\n"));
        let _ = read("random", log.as_bytes(), LIMIT);
    }
}

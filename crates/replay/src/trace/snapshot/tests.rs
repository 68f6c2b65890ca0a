use std::io;

use super::*;
use crate::trace::{Allocate, Event, Lag, SharedFree, TraceId};
use cubeyard_pickle::{DictWriter, write_dict};
use cubeyard_units::Bytes;

type Writer<'w> = DictWriter<'w, Vec<u8>>;

/// An entry of a history: action, address, size and time.
type Entry = (&'static str, u64, u64, u64);

/// A block of a segment: address, requested size and state.
type Block = (u64, u64, &'static str);

fn write_entry(dict: &mut Writer<'_>, &(action, address, size, time): &Entry) -> io::Result<()> {
    dict.entry("action").text(action)?;
    dict.entry("addr").integer(address)?;
    dict.entry("size").integer(size)?;
    dict.entry("stream").integer(0x7f00)?;
    dict.entry("time_us").integer(time)
}

fn write_block(dict: &mut Writer<'_>, &(address, size, state): &Block) -> io::Result<()> {
    dict.entry("address").integer(address)?;
    dict.entry("size").integer(512)?;
    dict.entry("requested_size").integer(size)?;
    dict.entry("state").text(state)
}

/// One segment of 4096 bytes on a device.
fn write_segment(dict: &mut Writer<'_>, device: u64, blocks: &[Block]) -> io::Result<()> {
    dict.entry("device").integer(device)?;
    dict.entry("address").integer(0)?;
    dict.entry("total_size").integer(4096)?;
    dict.entry("stream").integer(0)?;
    dict.entry("blocks").list(|list| {
        blocks.iter().try_for_each(|block| list.item().dict(|dict| write_block(dict, block)))
    })
}

/// A snapshot of devices with a history and a segment each.
fn snapshot(devices: &[(&[Entry], &[Block])]) -> Vec<u8> {
    write_dict(Vec::new(), |root| {
        root.entry("segments").list(|segments| {
            (0..).zip(devices).try_for_each(|(device, (_, blocks))| {
                segments.item().dict(|dict| write_segment(dict, device, blocks))
            })
        })?;
        root.entry("device_traces").list(|traces| {
            devices.iter().try_for_each(|(entries, _)| {
                traces.item().list(|list| {
                    let mut entries = entries.iter();
                    entries.try_for_each(|entry| list.item().dict(|dict| write_entry(dict, entry)))
                })
            })
        })
    })
    .expect("writing to memory")
}

fn one_device(entries: &[Entry], blocks: &[Block]) -> Trace {
    let mut traces =
        read("test", &snapshot(&[(entries, blocks)]), Bytes::mib(1)).expect("a snapshot");
    assert_eq!(traces.len(), 1);
    traces.remove(0)
}

fn message(entries: &[Entry], blocks: &[Block]) -> String {
    read("test", &snapshot(&[(entries, blocks)]), Bytes::mib(1)).unwrap_err().to_string()
}

fn allocate(id: u32, size: u64, stream: u32, time_us: u64) -> Event {
    let (id, size) = (TraceId(id), Bytes::new(size));
    Event::Allocate(Allocate { id, size, stream, site: 0, time_us })
}

fn free(id: u32, time_us: u64) -> Event {
    Event::Free { id: TraceId(id), time_us }
}

fn shared(id: u32, before: u32, time_us: u64) -> SharedFree {
    SharedFree { id: TraceId(id), before, time_us }
}

#[test]
fn memory_comes_back_when_its_free_is_completed() {
    let trace = one_device(
        &[
            ("alloc", 0x100, 10, 50),
            ("free_requested", 0x100, 10, 51),
            ("alloc", 0x200, 20, 52),
            ("free_completed", 0x100, 10, 53),
            ("alloc", 0x100, 30, 54),
        ],
        &[(0x100, 30, "active_allocated"), (0x200, 20, "active_allocated")],
    );
    let expected =
        [allocate(0, 10, 0, 0), allocate(1, 20, 0, 2), free(0, 3), allocate(2, 30, 0, 4)];
    assert_eq!((trace.events, trace.allocations), (expected.to_vec(), 3));
    assert_eq!(trace.shared, [shared(0, 1, 1)]);
    assert_eq!(trace.lag, Lag::default(), "it has one stream");
}

#[test]
fn a_free_is_taken_at_its_request_where_its_completion_was_not_recorded() {
    let entries = [
        ("alloc", 0x100, 10, 0),
        ("free_requested", 0x100, 10, 1),
        ("alloc", 0x100, 20, 2),
        ("free_completed", 0x100, 20, 3),
    ];
    let events = one_device(&entries, &[]).events;
    assert_eq!(events, [allocate(0, 10, 0, 0), free(0, 1), allocate(1, 20, 0, 2), free(1, 3)]);
    assert_eq!(one_device(&entries, &[]).shared, []);
}

#[test]
fn a_free_that_was_not_completed_in_the_end_did_not_happen() {
    let entries = [
        ("alloc", 0x100, 10, 0),
        ("alloc", 0x200, 20, 0),
        ("free_requested", 0x100, 10, 1),
        ("free_requested", 0x200, 20, 2),
        ("oom", 0, 1 << 40, 3),
    ];
    let both = [allocate(0, 10, 0, 0), allocate(1, 20, 0, 0)];
    let pending = [(0x100, 10, "active_pending_free"), (0x200, 20, "active_pending_free")];
    assert_eq!(one_device(&entries, &pending).events, both);
    assert_eq!(one_device(&entries, &pending).shared, [shared(0, 2, 1), shared(1, 2, 2)]);
    assert_eq!(one_device(&entries, &pending[..1]).events, [both[0], both[1], free(1, 2)]);
}

#[test]
fn what_was_live_at_the_start_comes_first_by_address() {
    let trace = one_device(
        &[
            ("free_completed", 0x300, 3, 100),
            ("alloc", 0x400, 4, 101),
            ("free_requested", 0x200, 2, 102),
            ("free_completed", 0x200, 2, 102),
            ("alloc", 0x300, 5, 103),
        ],
        &[
            (0x500, 6, "active_pending_free"),
            (0x100, 1, "active_allocated"),
            (0x300, 5, "active_allocated"),
            (0x600, 9, "inactive"),
        ],
    );
    // The blocks that are live in the end are on their segment's stream, which is another one.
    let start =
        [allocate(0, 1, 0, 0), allocate(1, 2, 1, 0), allocate(2, 3, 1, 0), allocate(3, 6, 0, 0)];
    let rest = [free(2, 0), allocate(4, 4, 1, 1), free(1, 2), allocate(5, 5, 1, 3)];
    assert_eq!(trace.events, [start, rest].concat());
    assert_eq!(trace.allocations, 6);
}

#[test]
fn the_peak_counts_segments_from_before_the_recording() {
    let entries = [
        ("segment_alloc", 0x1000, 1000, 0),
        ("segment_free", 0x1000, 3000, 1),
        ("segment_map", 0x1000, 500, 2),
        ("segment_unmap", 0x1000, 100, 3),
        ("alloc", 0x100, 1, 4),
    ];
    // In the end 4096; before that 4196, 3696, 6696 and 5696.
    assert_eq!(one_device(&entries, &[]).recorded_reserved(), Some(Bytes::new(6696)));
    let contradiction = [("segment_alloc", 0x1000, 5000, 0), ("alloc", 0x100, 1, 4)];
    assert_eq!(one_device(&contradiction, &[]).recorded_reserved(), None);
}

#[test]
fn devices_are_named_where_there_are_several() {
    let entries: &[Entry] = &[("alloc", 0x100, 1, 4)];
    let blocks: &[Block] = &[(0x100, 1, "active_allocated")];
    let bytes = snapshot(&[(entries, &[]), (&[], &[]), (&[], blocks)]);
    let traces = read("test", &bytes, Bytes::mib(1)).unwrap();
    let names: Vec<&str> = traces.iter().map(|trace| trace.name.as_str()).collect();
    assert_eq!(names, ["test-device0", "test-device2"]);
    assert_eq!(traces[1].events, [allocate(0, 1, 0, 0)]);
    assert_eq!(read("test", &snapshot(&[(&[], &[])]), Bytes::mib(1)), Ok(vec![]));
}

#[test]
fn histories_that_cannot_be_are_refused() {
    assert_eq!(
        message(&[("alloc", 0x100, 1, 0), ("alloc", 0x100, 1, 1)], &[]),
        "device_traces[0][1]: 0x100 is allocated, but is already live"
    );
    let twice = [("free_completed", 0x100, 1, 0), ("free_requested", 0x100, 1, 1)];
    assert_eq!(message(&twice, &[]), "device_traces[0][1]: 0x100 is freed, but is not live");
    let overlap = [(0x100, 1, "active_allocated"), (0x100, 1, "active_allocated")];
    assert_eq!(
        message(&[], &overlap),
        "segments[0].blocks[1]: 0x100 is allocated, but is already live"
    );
}

#[test]
fn a_part_that_is_wrong_is_named() {
    assert_eq!(
        message(&[("compact", 0x100, 1, 0)], &[]),
        "device_traces[0][0].action: expected an action of PyTorch 2.15 or earlier, \
         found the string `compact`"
    );
    assert_eq!(
        message(&[], &[(0, 0, "asleep")]),
        "segments[0].blocks[0].state: expected `active_allocated`, `active_pending_free` or \
         `inactive`, found the string `asleep`"
    );
    let with_address = |write: fn(&mut Writer<'_>) -> io::Result<()>| {
        let bytes = write_dict(Vec::new(), |root| {
            root.entry("segments").list(|_| Ok(()))?;
            root.entry("device_traces").list(|traces| {
                traces.item().tuple(|_| Ok(()))?;
                traces.item().list(|entries| {
                    entries.item().dict(|dict| {
                        dict.entry("action").text("alloc")?;
                        write(dict)
                    })
                })
            })
        });
        read("test", &bytes.expect("writing to memory"), Bytes::mib(1)).unwrap_err().to_string()
    };
    assert_eq!(
        with_address(|_| Ok(())),
        "device_traces[1][0].addr: expected a value, found nothing"
    );
    assert_eq!(
        with_address(|entry| entry.entry("addr").text("0x100")),
        "device_traces[1][0].addr: expected an integer, found the string `0x100`"
    );
    assert_eq!(
        with_address(|entry| entry.entry("addr").integer(-5)),
        "device_traces[1][0].addr: expected an integer that is not negative, \
         found the integer -5"
    );
    let list = read("test", b"\x80\x04].", Bytes::mib(1)).unwrap_err().to_string();
    assert_eq!(list, "snapshot: expected a dictionary, found a list");
}

fn write_frames(dict: &mut Writer<'_>, lines: &[u64]) -> io::Result<()> {
    dict.entry("frames").list(|frames| {
        lines.iter().try_for_each(|&line| {
            frames.item().dict(|frame| {
                frame.entry("name").text("forward")?;
                frame.entry("line").integer(line)?;
                frame.entry("filename").text("model.py")
            })
        })
    })
}

#[test]
fn equal_stacks_are_equal_sites() {
    let stacks: [&[u64]; 5] = [&[1, 2], &[], &[2, 1], &[1, 2], &[1]];
    let bytes = write_dict(Vec::new(), |root| {
        root.entry("segments").list(|_| Ok(()))?;
        root.entry("device_traces").list(|traces| {
            traces.item().list(|entries| {
                (1..).zip(stacks).try_for_each(|(address, lines)| {
                    entries.item().dict(|dict| {
                        write_entry(dict, &("alloc", address, 1, 0))?;
                        write_frames(dict, lines)
                    })
                })
            })
        })
    });
    let traces = read("test", &bytes.expect("writing to memory"), Bytes::mib(1)).unwrap();
    let sites = traces[0].events.iter().map(|event| match event {
        Event::Allocate(allocate) => allocate.site,
        Event::Free { .. } => unreachable!("nothing is freed"),
    });
    assert_eq!(sites.collect::<Vec<_>>(), [1, 0, 2, 1, 3]);
}

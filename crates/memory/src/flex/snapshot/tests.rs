//! Requirements of PyTorch's viewers on a snapshot.

use std::sync::Arc;

use super::*;
use crate::device::{Card, CardSpec};
use crate::policy::Request;
use cubeyard_pickle::{Document, Limits, Value};

/// Returns an allocator on a virtual function that has produced every kind of event.
fn busy(config: &str) -> FlexAllocator {
    let card = Arc::new(Card::new(CardSpec::virtual_function(Bytes::mib(64), 8)));
    let config = config.parse().unwrap();
    let allocator = FlexAllocator::builder(card).config(config).build().unwrap();
    let blocks: Vec<_> =
        [9, 4, 7, 3].map(|size| allocator.allocate(Bytes::mib(size)).unwrap()).into();
    let _ = allocator.allocate(Bytes::MAX).unwrap_err();
    drop(allocator.allocate(Bytes::mib(15)).unwrap());
    blocks.into_iter().step_by(2).for_each(|block| {
        block.leak();
    });
    allocator.trim();
    allocator.allocate(Bytes::new(1000)).unwrap().leak();
    allocator
}

const CONFIGS: [&str; 2] =
    ["fallback_sizes:[16MiB;8MiB],history:1000", "growth:recycle(64MiB),history:1000"];

fn written(snapshot: &Snapshot, device: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    snapshot.write_pickle(device, &mut bytes).unwrap();
    bytes
}

#[test]
fn segments_do_not_overlap_and_their_blocks_fill_them() {
    for config in CONFIGS {
        let snapshot = busy(config).snapshot();
        assert!(snapshot.segments.len() > 1, "{config} makes several");
        let mut end = 0;
        for segment in &snapshot.segments {
            assert!(segment.address >= end, "segments overlap");
            end = segment.address;
            for block in &segment.blocks {
                assert_eq!(block.address, end, "blocks follow each other");
                end += block.size.get();
            }
            assert_eq!(end, segment.address + segment.total_size.get());
        }
    }
}

#[test]
fn segments_agree_with_the_statistics() {
    for config in CONFIGS {
        let allocator = busy(config);
        let (snapshot, stats) = (allocator.snapshot(), allocator.stats());
        let total: Bytes = snapshot.segments.iter().map(|segment| segment.total_size).sum();
        assert_eq!(total, stats.reserved());
        let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
        let live = blocks.filter(|block| block.state == BlockState::Allocated);
        assert_eq!(live.map(|block| block.size).sum::<Bytes>(), stats.allocated());
    }
}

/// The viewer undoes events from last to first, and assumes that the block of each event exists.
#[test]
fn undoing_all_events_leaves_nothing() {
    for config in CONFIGS {
        let snapshot = busy(config).snapshot();
        let mut segments: Vec<_> = snapshot
            .segments
            .iter()
            .map(|segment| (segment.address, segment.address + segment.total_size.get()))
            .collect();
        let events = pieces(&snapshot.history);
        for event in events.iter().rev() {
            let (start, end) = (event.address, event.address.saturating_add(event.size.get()));
            match event.action {
                Action::SegmentFree | Action::SegmentUnmap => segments.push((start, end)),
                Action::SegmentAlloc | Action::SegmentMap => {
                    let place =
                        segments.iter().position(|&(low, high)| low <= start && end <= high);
                    let (low, high) = segments.swap_remove(place.expect("one segment holds it"));
                    assert!(event.action == Action::SegmentMap || (low, high) == (start, end));
                    segments.extend([(low, start), (end, high)].iter().filter(|(a, b)| a < b));
                }
                _ => {}
            }
        }
        assert_eq!(segments, []);
        let seen = |action| events.iter().any(|event| event.action == action);
        assert!(seen(Action::SegmentFree) || seen(Action::SegmentUnmap), "{config} gives back");
    }
}

#[test]
fn a_growable_region_is_only_the_memory_in_it() {
    let history = busy(CONFIGS[1]).snapshot().history;
    let whole =
        |entry: &&HistoryEntry| matches!(entry.action, Action::SegmentAlloc | Action::SegmentFree);
    assert_eq!(history.iter().find(whole), None);
}

#[test]
fn a_recycled_granule_is_unmapped_first() {
    use Action::{Alloc, FreeCompleted, FreeRequested, SegmentMap, SegmentUnmap};
    let card = Arc::new(Card::new(CardSpec::physical(Bytes::mib(64))));
    let config = "growth:recycle(64MiB),history:1000".parse().unwrap();
    let allocator = FlexAllocator::builder(card).config(config).build().unwrap();
    let (low, high) =
        (allocator.allocate(Bytes::mib(2)).unwrap(), allocator.allocate(Bytes::mib(2)).unwrap());
    drop(low);
    let long = allocator.allocate(Bytes::mib(4)).unwrap();
    let actions: Vec<_> = allocator.snapshot().history.iter().map(|entry| entry.action).collect();
    let expected = [
        [SegmentMap, Alloc].as_slice(),
        &[SegmentMap, Alloc],
        &[FreeRequested, FreeCompleted],
        &[SegmentUnmap, SegmentMap, Alloc],
    ];
    assert_eq!(actions, expected.concat());
    drop((high, long));
}

#[test]
fn the_pickle_is_of_protocol_4_and_its_numbers_are_exact_as_doubles() {
    for config in CONFIGS {
        let bytes = written(&busy(config).snapshot(), 0);
        assert_eq!(bytes[..2], [0x80, 4]);
        let document = cubeyard_pickle::read(&bytes, &Limits::default()).unwrap();
        let mut integers = 0;
        check_exact(&document, document.root(), &mut integers);
        assert!(integers > 50, "{integers} were looked at");
    }
}

fn check_exact(document: &Document<'_>, value: Value, seen: &mut usize) {
    match value {
        Value::Integer(number) => {
            assert!((0..1 << 53).contains(&number));
            *seen += 1;
        }
        Value::Large(number) => panic!("{number} is no exact double"),
        Value::List(items) | Value::Tuple(items) => {
            document.items(items).iter().for_each(|&item| check_exact(document, item, seen));
        }
        Value::Dict(dict) => {
            document.entries(dict).for_each(|(_, item)| check_exact(document, item, seen));
        }
        _ => {}
    }
}

#[test]
fn the_trace_of_a_device_stands_at_its_number() {
    let bytes = written(&busy(CONFIGS[0]).snapshot(), 2);
    let document = cubeyard_pickle::read(&bytes, &Limits::default()).unwrap();
    let Value::Dict(root) = document.root() else { panic!("a snapshot is a dictionary") };
    let Some(Value::List(traces)) = document.get(root, "device_traces") else {
        panic!("it has traces")
    };
    let lengths = document.items(traces).iter().map(|trace| match trace {
        Value::List(entries) => document.items(*entries).len(),
        _ => panic!("a trace is a list"),
    });
    assert!(matches!(lengths.collect::<Vec<_>>()[..], [0, 0, events] if events > 0));
    let Some(Value::List(segments)) = document.get(root, "segments") else {
        panic!("it has segments")
    };
    for &segment in document.items(segments) {
        let Value::Dict(segment) = segment else { panic!("a segment is a dictionary") };
        assert_eq!(document.get(segment, "device"), Some(Value::Integer(2)));
    }
}

#[test]
fn a_history_can_begin_and_end_at_any_time_and_names_call_sites() {
    use Action::{Alloc, FreeCompleted, FreeRequested};
    let card = Arc::new(Card::new(CardSpec::physical(Bytes::gib(16))));
    let allocator = FlexAllocator::new(card);
    let at = |site| Request { site, ..Request::new(Bytes::new(256)) };
    let before = allocator.allocate_for(&at(1)).unwrap();
    assert!(allocator.snapshot().history.is_empty(), "nothing is kept by default");
    allocator.record_history(100);
    let during = allocator.allocate_for(&at(2)).unwrap();
    drop(allocator.allocate_for(&at(3)).unwrap());
    drop(before);
    let snapshot = allocator.snapshot();
    let sites: Vec<_> = snapshot.history.iter().map(|entry| (entry.action, entry.site)).collect();
    assert_eq!(
        sites,
        [
            (Alloc, 2),
            (Alloc, 3),
            (FreeRequested, 3),
            (FreeCompleted, 3),
            // The block was allocated before the history began.
            (FreeRequested, 0),
            (FreeCompleted, 0)
        ]
    );
    let blocks: Vec<_> = snapshot.segments[0].blocks.iter().map(|block| block.site).collect();
    assert_eq!(blocks, [0, 2, 0]);
    let frame =
        |site| Frame { filename: "train.py".to_owned(), line: site, name: "step".to_owned() };
    let mut bytes = Vec::new();
    snapshot.write_pickle_with(0, &mut bytes, &|site| vec![frame(site)]).unwrap();
    let names = bytes.windows(8).filter(|window| window == b"train.py").count();
    assert!(names > 0, "the stacks are written");
    allocator.record_history(0);
    drop(during);
    assert!(allocator.snapshot().history.is_empty());
}

//! Traces of several streams: memory of one never serves another, under no policy.

use std::collections::BTreeMap;

use cubeyard_memory::Bytes;
use cubeyard_replay::trace::{Allocate, Event, Trace, read, script::Script};
use cubeyard_replay::{Kind, Make, POLICIES, ReplayPolicy, Report, Target, advice, policy, run};

use crate::readers::{LIMIT, recorded_file};

/// Snapshots of programs with several streams, and the bytes that PyTorch reserved for them.
const RECORDED: [(&str, u64); 3] = [
    ("gather_record_stream", 692_060_160),
    ("prefetch_train", 6_786_383_872),
    ("streams_infer", 2_195_718_144),
];

fn script(text: &str) -> Trace {
    Script::parse(text).unwrap().to_trace("two").unwrap()
}

/// Returns the sum of the live bytes of each stream at its own peak, which no policy can go below.
pub(crate) fn apart(trace: &Trace) -> Bytes {
    let mut streams: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
    let mut blocks = BTreeMap::new();
    for event in &trace.events {
        match event {
            Event::Allocate(Allocate { id, size, stream, .. }) => {
                let size = size.get().next_multiple_of(128);
                blocks.insert(*id, (*stream, size));
                let [live, peak] = streams.entry(*stream).or_default();
                *live += size;
                *peak = (*peak).max(*live);
            }
            Event::Free { id, .. } => {
                let (stream, size) = blocks[id];
                streams.entry(stream).or_default()[0] -= size;
            }
        }
    }
    Bytes::new(streams.values().map(|[_, peak]| peak).sum())
}

/// Checks that live blocks do not overlap, and that no byte is ever used by two streams.
pub(crate) fn check_places(policy: &ReplayPolicy, trace: &Trace) {
    let mut target = policy.target(trace).expect("a policy of the table");
    let (mut live, mut used) = (BTreeMap::new(), BTreeMap::<u64, (u64, u32)>::new());
    let mut tokens = BTreeMap::new();
    for event in &trace.events {
        match event {
            Event::Allocate(request) if request.size.is_zero() => {}
            Event::Allocate(request) => {
                let token = target.allocate(request).expect("there is no limit");
                let start = target.address(token).expect("all of these have addresses");
                let end = start + request.size.get();
                let below = live.range(..end).next_back();
                let is_free = below.is_none_or(|(_, &reach)| reach <= start);
                assert!(is_free, "{}: {request:?} overlaps a live block", policy.name);
                live.insert(start, end);
                tokens.insert(request.id, (token, start));
                mark(&mut used, [start, end], request, policy.name);
            }
            Event::Free { id, .. } => {
                let Some((token, start)) = tokens.remove(id) else { continue };
                target.free(token);
                live.remove(&start);
            }
        }
    }
}

/// Records that a stream has used a range, which no other stream may have done.
fn mark(
    used: &mut BTreeMap<u64, (u64, u32)>,
    [mut start, mut end]: [u64; 2],
    request: &Allocate,
    policy: &str,
) {
    while let Some((&first, &(last, stream))) =
        used.range(..end).next_back().filter(|(_, (last, _))| *last > start)
    {
        assert_eq!(stream, request.stream, "{policy}: {request:?} uses memory of another stream");
        used.remove(&first);
        (start, end) = (start.min(first), end.max(last));
    }
    used.insert(start, (end, request.stream));
}

/// It said "`first-fit` needs 100.00 MiB where PyTorch reserves 200.00 MiB: 50 % less": the others gave the memory of
/// stream 0 to stream 1, which may still be at work in it.
#[test]
fn no_policy_is_said_to_save_what_two_streams_cannot_share() {
    let trace = script("alloc a 100 MiB\nfree a\nalloc b 100 MiB stream 1\nfree b\n");
    let mut report = report(&trace);
    for row in &report.rows {
        assert_eq!(row.outcome.peak_reserved, Bytes::mib(200), "{}", row.policy.name);
    }
    report.find_least(&trace);
    let said = advice(&[report]);
    assert!(said.starts_with("No policy here needs noticeably less"), "{said}");
}

fn report(trace: &Trace) -> Report {
    let rows = POLICIES.iter().map(|policy| policy.replay(trace, &mut || 0, &mut |_| {}));
    Report { rows: rows.collect(), ..Report::new(trace) }
}

#[test]
fn recorded_programs_of_several_streams_keep_them_apart_under_every_policy() {
    for (name, reserved) in RECORDED {
        let bytes = recorded_file(&format!("{name}.pickle.gz"));
        let trace = read(name, &bytes, LIMIT).unwrap().remove(0);
        let floor = apart(&trace);
        for policy in POLICIES {
            check_places(policy, &trace);
            let outcome = run(&trace, &mut *policy.target(&trace).unwrap(), &mut |_| {});
            assert!(outcome.peak_reserved >= floor, "{name}: {}", policy.name);
            if policy.name == "pytorch" {
                assert_eq!(outcome.peak_reserved.get(), reserved, "{name}, as PyTorch");
            }
        }
    }
}

/// A policy of a front, which puts every block at the first place that is free, whatever its stream.
struct Shelf {
    blocks: Vec<Option<u64>>,
    held: u64,
}

fn new_shelf(_: &Trace) -> Box<dyn Target + '_> {
    Box::new(Shelf { blocks: Vec::new(), held: 0 })
}

impl Target for Shelf {
    fn allocate(&mut self, request: &Allocate) -> Result<u64, String> {
        let free = self.blocks.iter().position(Option::is_none);
        let place = free.unwrap_or(self.blocks.len());
        self.blocks.resize(self.blocks.len().max(place + 1), None);
        self.blocks[place] = Some(request.size.get());
        self.held = self.held.max(self.blocks.iter().flatten().sum());
        Ok(place as u64)
    }

    fn free(&mut self, token: u64) {
        self.blocks[token as usize] = None;
    }

    fn reserved(&self) -> Bytes {
        Bytes::new(self.held)
    }
}

#[test]
fn a_policy_of_a_front_has_a_target_for_each_stream() {
    let shelf = ReplayPolicy {
        name: "shelf",
        kind: Kind::Online,
        make: Make::Front,
        ..*policy("first-fit").unwrap()
    };
    let replayed = |text: &str| {
        shelf.replay_over(&new_shelf, &script(text), &mut || 0, &mut |_| {}).outcome.peak_reserved
    };
    let one = "alloc a 4 MiB\nfree a\nalloc b 4 MiB\nfree b\n";
    assert_eq!(replayed(one), Bytes::mib(4));
    assert_eq!(replayed(&one.replace("b 4 MiB", "b 4 MiB stream 1")), Bytes::mib(8));
}

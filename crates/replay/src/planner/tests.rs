use proptest::prelude::*;

use super::*;
use crate::synthetic::WORKLOADS;
use crate::trace::Allocate;

const GRANULE: Bytes = Bytes::new(128);

/// Returns a trace: `Ok(size)` allocates `size` units of 128 bytes, `Err(number)` frees an allocation.
fn trace(steps: &[Result<u64, u32>]) -> Trace {
    let mut trace = Trace::default();
    for step in steps {
        trace.events.push(match *step {
            Ok(units) => {
                let id = TraceId(trace.allocations);
                trace.allocations += 1;
                Event::Allocate(Allocate {
                    id,
                    size: Bytes::new(128 * units),
                    stream: 0,
                    site: 0,
                    time_us: 0,
                })
            }
            Err(number) => Event::Free { id: TraceId(number), time_us: 0 },
        });
    }
    trace
}

/// Returns the blocks of a trace with one stream.
fn blocks(trace: &Trace) -> Vec<Block> {
    let mut streams = lifetimes(trace);
    assert!(streams.len() <= 1, "one stream");
    streams.pop_first().map(|(_, (_, blocks))| blocks).unwrap_or_default()
}

#[test]
fn nothing_needs_nothing() {
    let plan = plan(&Trace::default(), GRANULE).unwrap();
    assert_eq!((plan.offsets, plan.extent, plan.bound), (vec![], Bytes::ZERO, Bytes::ZERO));
}

#[test]
fn blocks_that_never_meet_share_their_place() {
    let trace = trace(&[Ok(3), Err(0), Ok(3), Err(1)]);
    let plan = plan(&trace, GRANULE).unwrap();
    assert_eq!(plan.offsets, [Bytes::ZERO, Bytes::ZERO]);
    assert_eq!(plan.extent, Bytes::new(3 * 128));
}

/// The loss of a language model is the worst case of every online fit: half, two wholes, the first two freed, two wholes
/// again. First fit needs seven halves, and the peak is six.
#[test]
fn the_loss_pattern_is_packed_without_waste() {
    let trace = trace(&[Ok(1), Ok(2), Ok(2), Err(1), Err(0), Ok(2), Ok(2)]);
    let plan = plan(&trace, GRANULE).unwrap();
    plan.verify(&trace).unwrap();
    assert_eq!(plan.extent, Bytes::new(6 * 128));
}

#[test]
fn blocks_of_different_streams_share_no_memory() {
    let mut trace = trace(&[Ok(3), Err(0), Ok(3), Err(1), Ok(3)]);
    let Event::Allocate(request) = &mut trace.events[2] else {
        unreachable!("the third event allocates")
    };
    request.stream = 7;
    let plan = plan(&trace, GRANULE).unwrap();
    assert_eq!(plan.offsets, [0, 384, 0].map(Bytes::new));
    assert_eq!(plan.ranges, BTreeMap::from([(0, Bytes::ZERO), (7, Bytes::new(384))]));
    assert_eq!((plan.extent, plan.bound), (Bytes::new(768), Bytes::new(768)));
}

#[test]
fn the_extent_is_in_whole_granules_and_odd_sizes_are_rounded() {
    let mut odd = trace(&[Ok(1)]);
    let Event::Allocate(request) = &mut odd.events[0] else {
        unreachable!("the trace begins with an allocation")
    };
    request.size = Bytes::new(1);
    let plan = plan(&odd, Bytes::mib(2)).unwrap();
    assert_eq!((plan.extent, plan.bound), (Bytes::mib(2), Bytes::mib(2)));
}

#[test]
fn verify_names_the_two_blocks_that_overlap() {
    let trace = trace(&[Ok(2), Ok(2)]);
    let mut plan = plan(&trace, GRANULE).unwrap();
    plan.offsets = vec![Bytes::ZERO, Bytes::new(128)];
    assert_eq!(plan.verify(&trace), Err(Overlap { live: TraceId(0), new: TraceId(1) }));
    plan.offsets = vec![Bytes::new(128), Bytes::ZERO];
    assert_eq!(plan.verify(&trace), Err(Overlap { live: TraceId(0), new: TraceId(1) }));
    plan.offsets = vec![Bytes::ZERO, Bytes::new(256)];
    assert_eq!(plan.verify(&trace), Ok(()));
}

#[test]
fn every_attempt_is_valid_on_the_beginning_of_every_workload() {
    for workload in WORKLOADS {
        let mut trace = workload.trace(2);
        trace.events.truncate(5000);
        for event in &mut trace.events {
            if let Event::Allocate(request) = event {
                request.stream = 0;
            }
        }
        let allocates = |event: &&Event| matches!(event, Event::Allocate(_));
        trace.allocations = u32::try_from(trace.events.iter().filter(allocates).count()).unwrap();
        let blocks = blocks(&trace);
        let peak_live = peak(&blocks);
        for attempt in FIRST.iter().chain(REPLAYS).chain(THEN).chain(SEARCH) {
            let offsets: Vec<_> = attempt(&blocks, peak_live).into_iter().map(Bytes::new).collect();
            let (ranges, extent, bound) = (BTreeMap::new(), Bytes::ZERO, Bytes::ZERO);
            let plan = Plan { offsets, ranges, extent, bound };
            assert_eq!(plan.verify(&trace), Ok(()), "{}", trace.name);
        }
    }
}

#[test]
fn no_greedy_order_is_tried_where_too_many_blocks_meet() {
    let count = |blocks, meetings| attempts(blocks, meetings).count();
    let many = greedy::SEARCHED + 1;
    assert_eq!(count(many, MANY_MEETINGS), 7);
    assert_eq!(count(many, MANY_MEETINGS + 1), 4);
    assert_eq!(count(many, TOO_MANY_MEETINGS), 4);
    assert_eq!(count(many, TOO_MANY_MEETINGS + 1), REPLAYS.len());
    assert_eq!(count(FEW + 1, 0), 8);
    assert_eq!(count(FEW, 0), 8);
}

#[test]
fn meetings_count_each_pair_once() {
    // 0 meets 1; 2 starts when 0 has gone and meets 1; 3 meets 1 and 2.
    let trace = trace(&[Ok(1), Ok(1), Err(0), Ok(1), Ok(1), Err(1)]);
    assert_eq!(meetings(&blocks(&trace)), 1 + 1 + 2);
}

/// Returns the minimum extent of any assignment of offsets, by trying all orders of first fit.
///
/// Some order of lowest-gap placement is optimal: take an optimal plan and push its blocks down in
/// the order of their offsets.
fn least_extent(blocks: &[Block]) -> u64 {
    fn descend(blocks: &[Block], placed: &mut Vec<(usize, u64)>, least: &mut u64) {
        let reached =
            placed.iter().map(|&(index, offset)| offset + blocks[index].size).max().unwrap_or(0);
        if reached >= *least {
            return;
        }
        if placed.len() == blocks.len() {
            *least = reached;
            return;
        }
        for index in 0..blocks.len() {
            if placed.iter().any(|&(other, _)| other == index) {
                continue;
            }
            let block = &blocks[index];
            let mut taken: Vec<_> = placed
                .iter()
                .filter(|&&(other, _)| {
                    blocks[other].start < block.end && block.start < blocks[other].end
                })
                .map(|&(other, offset)| (offset, offset + blocks[other].size))
                .collect();
            taken.sort_unstable();
            let offset =
                taken.iter().fold(
                    0,
                    |free, &(start, end)| {
                        if start >= free + block.size { free } else { free.max(end) }
                    },
                );
            placed.push((index, offset));
            descend(blocks, placed, least);
            placed.pop();
        }
    }
    let mut least = u64::MAX;
    descend(blocks, &mut Vec::new(), &mut least);
    least
}

/// Draws random histories: each step allocates a block or frees a live one.
fn histories(steps: usize) -> impl Strategy<Value = Trace> {
    prop::collection::vec((0_u64..6, any::<prop::sample::Index>()), 1..steps).prop_map(|choices| {
        let mut live: Vec<u32> = Vec::new();
        let mut steps = Vec::new();
        let mut next = 0;
        for (units, index) in choices {
            if units < 2 && !live.is_empty() {
                steps.push(Err(live.swap_remove(index.index(live.len()))));
            } else {
                steps.push(Ok(units.max(1)));
                live.push(next);
                next += 1;
            }
        }
        trace(&steps)
    })
}

proptest! {
    #[test]
    fn plans_of_random_histories_are_valid_and_not_below_the_bound(trace in histories(200)) {
        let plan = plan(&trace, GRANULE).unwrap();
        prop_assert_eq!(plan.verify(&trace), Ok(()));
        prop_assert!(plan.extent >= plan.bound && plan.bound.get() >= peak(&blocks(&trace)));
    }

    #[test]
    fn plans_of_up_to_seven_blocks_are_optimal(trace in histories(8)) {
        let plan = plan(&trace, GRANULE).unwrap();
        prop_assert_eq!(plan.extent.get(), least_extent(&blocks(&trace)));
    }
}

#[test]
fn sizes_that_no_memory_holds_are_refused() {
    let script = "alloc a 9223372036854775808\nalloc b 9223372036854775808\n";
    let trace = crate::trace::script::Script::parse(script).unwrap().to_trace("huge").unwrap();
    assert_eq!(plan(&trace, GRANULE).unwrap_err().total, (1 << 64) + 256);
}

//! Logs that an allocator's subscriber has written, read back.

use std::sync::Arc;

use cubeyard_memory::device::{Card, CardSpec};
use cubeyard_memory::flex::{FlexAllocator, RmmLog};
use cubeyard_memory::policy::Request;
use cubeyard_memory::stats::{Pool, Quantity};
use cubeyard_memory::{Bytes, flex::Allocation};
use cubeyard_replay::trace::rmm;
use proptest::prelude::*;

use super::{LIMIT, peak_requested};
use crate::long_tests::cases;

/// A step of a program: a request of some units of 128 bytes, a free, or a compaction.
#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate(u64, u32),
    Free(prop::sample::Index),
    Compact,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1_u64..20_000, 0_u32..3).prop_map(|(units, stream)| Step::Allocate(units, stream)),
        5 => any::<prop::sample::Index>().prop_map(Step::Free),
        1 => Just(Step::Compact),
    ];
    prop::collection::vec(step, 1..150)
}

/// Runs a program, and returns its log and the peak of its allocated bytes.
fn logged(steps: &[Step]) -> (Vec<u8>, u64) {
    let card = Card::new(CardSpec::physical(Bytes::mib(96)));
    let config = "fallback_sizes:[32MiB]".parse().expect("a configuration");
    let allocator = FlexAllocator::builder(Arc::new(card)).config(config).build().expect("it fits");
    // Blocks from before the subscription are not in the log.
    let mut live: Vec<Allocation> = vec![allocator.allocate(Bytes::mib(1)).expect("room")];
    let log = Arc::new(RmmLog::new(Vec::new()));
    let writer = Arc::clone(&log);
    let subscription = allocator.subscribe(move |event| writer.record(event));
    let early = live.pop();
    drop(early);
    allocator.reset_peak_stats();
    for step in steps {
        match *step {
            Step::Allocate(units, stream) => {
                let request = Request { stream, ..Request::new(Bytes::new(128 * units)) };
                live.extend(allocator.allocate_for(&request));
            }
            Step::Free(pick) if !live.is_empty() => {
                drop(live.swap_remove(pick.index(live.len())));
            }
            Step::Free(_) => {}
            Step::Compact => drop(allocator.compact().commit()),
        }
    }
    let peak = allocator.stats().get(Quantity::AllocatedBytes, Pool::All).peak;
    subscription.unsubscribe();
    (Arc::into_inner(log).expect("the subscriber is gone").finish().expect("no file"), peak)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(300), failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_log_has_the_peak_of_its_allocator(steps in steps()) {
        let (log, peak) = logged(&steps);
        let trace = rmm::read("log", &log, LIMIT).expect("the log can be read");
        prop_assert_eq!(peak_requested(&trace), Bytes::new(peak));
        let policy = cubeyard_replay::policy("first-fit").expect("a policy");
        let row = policy.replay(&trace, &mut || 0, &mut |_| {});
        prop_assert_eq!(row.outcome.peak_live, Bytes::new(peak));
    }
}

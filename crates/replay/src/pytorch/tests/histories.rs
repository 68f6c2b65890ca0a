//! Invariants of any history of requests on a small device.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A request of up to 32 MiB on one of two streams, or the free of the live block with this number.
#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate(u64, u32),
    Free(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Every power of two is equally likely, so that all kinds of sizes occur.
    let size = (0_u32..25, 0_u64..512)
        .prop_map(|(log, more)| (1 << log) + (more << log.saturating_sub(9)));
    let step = prop_oneof![
        (size, 0_u32..2).prop_map(|(size, stream)| Step::Allocate(size, stream)),
        (0_usize..64).prop_map(Step::Free),
    ];
    vec(step, 1..300)
}

/// Checks that live blocks do not overlap, that nothing exceeds the device, and that all memory without live blocks can
/// be returned.
fn play(mut target: PyTorch, capacity: Bytes, steps: &[Step]) {
    let mut live = Vec::new();
    for &step in steps {
        match step {
            Step::Allocate(size, stream) => {
                live.extend(try_allocate(&mut target, Bytes::new(size), stream));
            }
            Step::Free(index) if index < live.len() => target.free(live.swap_remove(index)),
            Step::Free(_) => {}
        }
        assert!(target.allocated() <= target.reserved() && target.reserved() <= capacity);
    }
    assert_apart(&target, &live);
    for token in live {
        target.free(token);
    }
    target.growth.release_cached(&mut target.blocks, &mut target.device);
    assert_eq!(
        (target.allocated(), target.reserved(), target.segments()),
        (Bytes::ZERO, Bytes::ZERO, 0)
    );
    assert_eq!(target.blocks.all_free().count(), 0);
}

fn assert_apart(target: &PyTorch, live: &[u64]) {
    let range = |&token| {
        let block = target.blocks[BlockId::from_token(token).unwrap()];
        (block.address, block.address + block.size)
    };
    let mut ranges: Vec<_> = live.iter().map(range).collect();
    ranges.sort();
    assert!(ranges.is_sorted_by(|left, right| left.1 <= right.0), "{ranges:?}");
}

proptest! {
    #[test]
    fn any_history_keeps_blocks_apart_and_gives_all_memory_back(steps in steps()) {
        let capacity = Bytes::mib(100);
        play(PyTorch::native(Some(capacity)), capacity, &steps);
        play(PyTorch::expandable(Some(capacity)), capacity, &steps);
    }
}

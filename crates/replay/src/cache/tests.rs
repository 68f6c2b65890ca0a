use super::*;
use crate::trace::script::Script;

fn at_end(script: &str) -> CacheUse {
    let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
    CacheUse::at(&trace, Moment::after(&trace, trace.events.len()), None)
}

#[test]
fn a_free_segment_is_cached_and_the_rest_of_a_used_one_is_a_gap() {
    // A segment of 20 MiB for `a` and `b`, of which `a` leaves 8 MiB; one of 30 MiB that is wholly free.
    let found = at_end("alloc a 8 MiB\nalloc b 9 MiB\nalloc c 30 MiB\nfree a\nfree c\nalloc d 1\n");
    assert_eq!((found.policy, found.reserved), ("pytorch", Bytes::mib(52)));
    assert_eq!(found.allocated, Bytes::mib(9) + Bytes::new(512));
    assert_eq!(found.cached, Bytes::mib(30));
    assert_eq!(found.gaps, Bytes::mib(8 + 3 + 2) - Bytes::new(512));
    assert_eq!(found.longest_gap, Bytes::mib(8));
    let beside: Vec<_> =
        found.beside_gaps.iter().map(|group| (group.size, group.blocks, group.bytes)).collect();
    let small = (Bytes::new(1), 1, Bytes::mib(2) - Bytes::new(512));
    assert_eq!(beside, [small, (Bytes::mib(9), 2, Bytes::mib(11))]);
}

#[test]
fn a_gap_between_two_blocks_counts_for_the_older() {
    let found = at_end(
        "alloc a 4 MiB\nalloc hole 4 MiB\nalloc c 4 MiB\nalloc d 8 MiB\nfree a\nalloc a 3 MiB\nfree hole\n",
    );
    // `a` is now the younger neighbour of the hole; 1 MiB of its old block stays with it.
    let beside: Vec<_> = found.beside_gaps.iter().map(|group| (group.size, group.bytes)).collect();
    assert_eq!(beside, [(Bytes::mib(4), Bytes::mib(4))]);
    assert_eq!((found.cached, found.gaps), (Bytes::ZERO, Bytes::mib(4)));
}

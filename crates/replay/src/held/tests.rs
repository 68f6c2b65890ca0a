use super::*;
use crate::trace::script::Script;

fn trace(script: &str) -> Trace {
    Script::parse(script).unwrap().to_trace("test").unwrap()
}

fn amounts(held: &Held) -> Vec<(u64, u64, u64)> {
    held.groups.iter().map(|group| (group.size.get(), group.blocks, group.bytes.get())).collect()
}

#[test]
fn the_peak_is_the_first_moment_with_most_live_bytes() {
    let trace = trace("alloc a 200\nalloc b 100\nfree a\nalloc c 256\nfree c\nalloc d 256\n");
    let held = Held::at(&trace, Moment::of_peak(&trace));
    assert_eq!(held.moment, Moment { events: 2, time_us: 1 });
    assert_eq!((held.live.get(), held.requested.get(), held.blocks), (384, 300, 2));
    assert_eq!(amounts(&held), [(100, 1, 128), (200, 1, 256)]);
}

#[test]
fn allocations_of_one_size_are_one_group_with_the_ages_of_both_ends() {
    let trace = trace("alloc a 300\nalloc b 300\nalloc none 0\nalloc c 300 stream 1\n");
    let held = Held::at(&trace, Moment::of_peak(&trace));
    let [first, second] = held.groups[..] else { panic!("{held:?}") };
    assert_eq!((first.blocks, first.oldest.events, first.youngest.events), (2, 0, 1));
    assert_eq!((second.stream, second.oldest.events), (1, 3));
    let streams: Vec<_> = held.streams().into_iter().map(|(it, size)| (it, size.get())).collect();
    assert_eq!(streams, [(0, 768), (1, 384)]);
}

#[test]
fn a_trace_without_bytes_holds_nothing_and_a_hostile_one_overflows_nothing() {
    for script in ["", "alloc a 0\n", "alloc a 0\nfree a\n"] {
        let trace = trace(script);
        assert_eq!(Moment::of_peak(&trace), Moment::default());
        assert_eq!(Held::at(&trace, Moment::of_peak(&trace)), Held::default());
    }
    let most = "18446744073709551615";
    let trace = trace(&format!("alloc a {most}\nalloc b {most}\n"));
    assert_eq!(Held::at(&trace, Moment::after(&trace, 2)).live, Bytes::MAX);
}

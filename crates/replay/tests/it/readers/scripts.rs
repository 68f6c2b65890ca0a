//! Scripts: every script is read back as it was written.

use cubeyard_memory::Bytes;
use cubeyard_memory::policy::Kind;
use cubeyard_replay::trace::script::{Expectation, Request, Script, Statement, Step};
use cubeyard_replay::trace::{read, rmm};
use proptest::option;
use proptest::prelude::*;

use super::LIMIT;

fn sizes() -> impl Strategy<Value = Bytes> {
    (any::<u64>(), 0..64_u32).prop_map(|(bits, shift)| Bytes::new(bits >> shift << (shift / 2)))
}

fn powers_of_two() -> impl Strategy<Value = Bytes> {
    (0..64_u32).prop_map(|shift| Bytes::new(1 << shift))
}

fn names() -> impl Strategy<Value = String> {
    "[a-zé_][a-z0-9_.-]{0,6}"
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop::sample::select(&Kind::ALL[..])
}

fn outcomes() -> impl Strategy<Value = Expectation> {
    prop_oneof![sizes().prop_map(Expectation::Offset), Just(Expectation::OutOfMemory)]
}

fn requests() -> impl Strategy<Value = Request> {
    let places = (option::of(powers_of_two()), option::of(sizes()), any::<bool>());
    let purposes = (option::of(any::<u32>()), option::of(kinds()), option::of(outcomes()));
    (names(), sizes(), places, purposes).prop_map(
        |(name, size, (align, at, high), (stream, kind, outcome))| Request {
            align,
            at,
            high,
            stream,
            kind,
            outcome,
            ..Request::new(name, size)
        },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        sizes().prop_map(Step::Space),
        powers_of_two().prop_map(Step::Granule),
        names().prop_map(Step::Policy),
        requests().prop_map(Step::Allocate),
        (names(), any::<bool>()).prop_map(|(name, refused)| Step::Free { name, refused }),
        sizes().prop_map(Step::Largest),
        sizes().prop_map(Step::FreeBytes),
    ]
}

fn scripts() -> impl Strategy<Value = Script> {
    proptest::collection::vec(steps(), 0..40).prop_map(|steps| {
        let numbered = (1..).zip(steps);
        let statements = numbered.map(|(line, step)| Statement { line, step }).collect();
        Script { statements }
    })
}

/// Draws allocations on streams, numbered in the order of their first use; some blocks are freed.
fn runnable_scripts() -> impl Strategy<Value = String> {
    proptest::collection::vec((0..1000_u64, any::<bool>()), 1..60).prop_map(|sizes| {
        let lines = sizes.iter().enumerate().map(|(index, (size, freed))| {
            let stream = index / 8;
            let free = if *freed { format!("free a{index}\n") } else { String::new() };
            format!("alloc a{index} {size} stream {stream}\n{free}")
        });
        lines.collect()
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(script in scripts()) {
        prop_assert_eq!(Script::parse(&script.to_string()), Ok(script));
    }

    #[test]
    fn a_trace_survives_the_way_through_a_log(text in runnable_scripts()) {
        let traces = read("test", text.as_bytes(), LIMIT).expect("a script");
        let mut log = Vec::new();
        rmm::write(&traces[0], &mut log).expect("writing to memory");
        prop_assert_eq!(read("test", &log, LIMIT), Ok(traces));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        let _ = Script::parse(&text);
    }

    #[test]
    fn words_in_any_order_are_read_or_refused(
        words in proptest::collection::vec(
            "alloc|free|a|->|out|of|memory|high|align|at|1|2KiB|GiB|stream|kind|tensor|#|\n", 0..30
        )
    ) {
        let text = words.join(" ");
        if let Ok(script) = Script::parse(&text) {
            let written = script.to_string();
            prop_assert_eq!(Script::parse(&written).expect("what was written").to_string(), written);
            let _ = script.to_trace("test");
        }
    }
}

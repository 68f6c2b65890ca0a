//! The wheel against the heap.

use cubeyard_sim::queue::{EventQueue, Heap, Wheel};
use cubeyard_sim::{Span, Time};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// Put an event in, this long after the present.
    Push(u64, u32),
    /// Take an event out.
    Pop,
    /// Take all events out that are due within this time, and let it pass.
    Pass(u64),
}

fn delays() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        1..20_u64,
        (0..40_u64).prop_map(|clocks| clocks * 500),
        0..50_000_u64,
        (0..50_u32).prop_map(|bits| 1 << bits),
        (0..50_u32).prop_map(|bits| (1 << bits) - 1),
    ]
}

/// Times in which more comes than goes, and the other way round: few are pending, and many, and few again.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let steps = |pushes, pops| {
        let step = prop_oneof![
            pushes => (delays(), 0..4_u32).prop_map(|(delay, rank)| Step::Push(delay, rank)),
            pops => Just(Step::Pop),
            1 => delays().prop_map(Step::Pass),
        ];
        proptest::collection::vec(step, 1..100)
    };
    let times = prop_oneof![steps(12, 4), steps(5, 4), steps(4, 9)];
    proptest::collection::vec(times, 1..6).prop_map(|times| times.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_wheel_gives_what_the_heap_gives(steps in steps()) {
        let (mut wheel, mut heap) = (Wheel::default(), Heap::default());
        let (mut now, mut number, mut taken) = (Time::ZERO, 0_usize, 0_usize);
        for step in steps {
            match step {
                Step::Push(delay, rank) => {
                    wheel.push(now + Span::from_ps(delay), rank, number);
                    heap.push(now + Span::from_ps(delay), rank, number);
                    number += 1;
                }
                Step::Pop => {
                    let next = wheel.pop();
                    prop_assert_eq!(next, heap.pop());
                    if let Some(entry) = next {
                        now = entry.time;
                        taken += 1;
                    }
                }
                Step::Pass(span) => {
                    now += Span::from_ps(span);
                    while let Some(entry) = wheel.pop_until(now) {
                        prop_assert_eq!(Some(entry), heap.pop_until(now));
                        taken += 1;
                    }
                    prop_assert_eq!(heap.pop_until(now), None);
                }
            }
            prop_assert_eq!(wheel.next_time(), heap.next_time());
        }
        while let Some(entry) = wheel.pop() {
            prop_assert_eq!(Some(entry), heap.pop());
            taken += 1;
        }
        prop_assert_eq!(taken, number);
    }
}

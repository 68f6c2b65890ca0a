//! Unit tests of the wheel, and a comparison with a heap.

mod heap;

use proptest::prelude::*;

use super::*;
use crate::Span;
use heap::Heap;

#[derive(Clone, Debug)]
enum Step {
    /// Adds an event, this long after the current time.
    Push(u64, u32),
    /// Takes an event out.
    Pop,
    /// Takes out all events due within this time, and advances the time.
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

/// Phases with more pushes than pops, and the reverse: few events are pending, then many, then few again.
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

fn pop<E: Copy>(wheel: &mut Wheel<E>) -> Option<Entry<E>> {
    wheel.pop_until(Time::NEVER)
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
                    let next = pop(&mut wheel);
                    prop_assert_eq!(next, heap.pop_until(Time::NEVER));
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
        while let Some(entry) = pop(&mut wheel) {
            prop_assert_eq!(Some(entry), heap.pop_until(Time::NEVER));
            taken += 1;
        }
        prop_assert_eq!(taken, number);
    }
}

#[test]
fn the_last_instant_of_all_can_be_reached() {
    let mut wheel = Wheel::default();
    wheel.push(Time::NEVER, 0, 'z');
    wheel.push(Time::ZERO, 0, 'a');
    assert_eq!(pop(&mut wheel).map(|entry| entry.event), Some('a'));
    assert_eq!(wheel.next_time(), Some(Time::NEVER));
    assert_eq!(pop(&mut wheel).map(|entry| entry.event), Some('z'));
    assert_eq!(pop(&mut wheel), None);
}

#[test]
fn any_number_can_wait_for_the_last_instant_of_all() {
    let mut wheel = Wheel::default();
    let many = 3 * FEW;
    (0..many).for_each(|number| wheel.push(Time::NEVER, 0, number));
    let order: Vec<_> = std::iter::from_fn(|| pop(&mut wheel)).map(|entry| entry.event).collect();
    assert!(order.into_iter().eq(0..many));
}

#[test]
fn what_comes_before_a_crowd_far_away_is_not_kept_sorted() {
    let mut wheel = Wheel::default();
    (0..2 * FEW).for_each(|number| wheel.push(Time::from_ps(1 << 40), 0, number));
    (0..10_000).for_each(|number| wheel.push(Time::from_ps(number << FINE), 0, 0));
    assert!(wheel.present.len() <= FEW, "{} are kept sorted", wheel.present.len());
    assert_eq!(std::iter::from_fn(|| pop(&mut wheel)).count(), 2 * FEW + 10_000);
}

#[test]
fn an_event_of_this_instant_with_a_lower_rank_comes_next() {
    let mut wheel = Wheel::default();
    for rank in [1, 5, 9] {
        wheel.push(Time::from_ps(3), rank, rank);
    }
    assert_eq!(pop(&mut wheel).map(|entry| entry.event), Some(1));
    assert_eq!(pop(&mut wheel).map(|entry| entry.event), Some(5));
    wheel.push(Time::from_ps(3), 2, 2);
    let rest: Vec<_> = std::iter::from_fn(|| pop(&mut wheel)).map(|entry| entry.event).collect();
    assert_eq!(rest, [2, 9]);
}

#[test]
fn events_come_by_time_and_those_of_one_instant_by_rank() {
    let mut wheel = Wheel::default();
    wheel.push(Time::from_ps(20), 0, "late");
    wheel.push(Time::from_ps(10), 7, "early, but of a higher rank");
    wheel.push(Time::from_ps(10), 3, "early");
    let order: Vec<_> = std::iter::from_fn(|| pop(&mut wheel)).map(|entry| entry.event).collect();
    assert_eq!(order, ["early", "early, but of a higher rank", "late"]);
}

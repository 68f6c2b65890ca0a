//! Relations between policies that hold for every trace, on random ones.

use cubeyard_memory::Bytes;
use cubeyard_replay::trace::{Lag, Trace, script::Script};
use cubeyard_replay::{Kind, POLICIES, Report, Row, advice};
use proptest::prelude::*;

use crate::long_tests::cases;
use crate::streams::{apart, check_places};

/// A trace of about 20 blocks for which `best-fit` held 52 MiB and the plan 58.
const ABOVE: &str = include_str!("relations/above.trace");

fn replayed(trace: &Trace) -> Report {
    let rows = POLICIES.iter().map(|policy| policy.replay(trace, &mut || 0, &mut |_| {}));
    let mut report = Report { rows: rows.collect(), ..Report::new(trace) };
    report.find_least(trace);
    report
}

fn needed(row: &Row) -> Bytes {
    row.least.map_or(row.outcome.peak_reserved, |least| least.memory())
}

/// A plan knows the whole trace, so it needs no more than a policy that does not.
fn check_plan(report: &Report) {
    let [planned] =
        report.rows.iter().filter(|row| row.policy.kind == Kind::Planned).collect::<Vec<_>>()[..]
    else {
        panic!("there is one plan")
    };
    for row in &report.rows {
        let [plan, other] = [planned, row].map(|row| row.outcome.peak_reserved);
        assert!(plan <= other, "planned needs {plan}, {} {other}", row.policy.name);
    }
}

/// Neither the star nor a setting that can be typed needs more memory under a limit than PyTorch does.
fn check_advice(report: &Report) {
    let present = report.rows.iter().find(|row| row.policy.name == "pytorch").map(needed).unwrap();
    let starred = report.recommended().expect("a script gives no doubt");
    assert!(
        needed(starred) <= present,
        "{} needs {}, not {present}",
        starred.policy.name,
        needed(starred)
    );
    for setting in &report.settings {
        let least = setting.least.memory();
        assert!(least <= present, "{} runs in {least}, not {present}", setting.text);
    }
    let said = advice(std::slice::from_ref(report));
    let named =
        POLICIES.iter().find(|policy| said.starts_with(&format!("`{}` needs", policy.name)));
    let named = named.map(|policy| report.rows.iter().find(|row| row.policy.name == policy.name));
    assert!(named.flatten().is_none_or(|row| needed(row) <= present), "{said}");
}

fn read(text: &str) -> Trace {
    Script::parse(text).unwrap().to_trace("random").unwrap()
}

#[test]
fn a_plan_of_forty_events_is_not_above_best_fit() {
    check_plan(&replayed(&read(ABOVE)));
}

/// With `expandable_segments:True` less is held, but memory that is short is given back in pages of 20 MiB: it said "holds
/// 60.00 MiB, not 102.00 MiB; runs in 60.00 MiB, not 44.00 MiB".
#[test]
fn a_setting_that_needs_more_under_a_limit_is_not_proposed() {
    check_advice(&replayed(&read(include_str!("relations/raised.trace"))));
}

/// A script of random requests and frees: each step is a choice between both, a size and a stream.
fn script(steps: &[(u8, u32, u8)]) -> String {
    let (mut lines, mut live) = (Vec::new(), Vec::new());
    for (count, &(choice, size, stream)) in steps.iter().enumerate() {
        if choice < 115 && !live.is_empty() {
            let freed: usize = live.swap_remove(size as usize % live.len());
            lines.push(format!("free b{freed}\n"));
        } else {
            // Sizes from 0 to 32 MiB, evenly by their logarithms; most requests are those of the first stream.
            let bytes = (1_u64 << (size % 26)) + u64::from(size >> 6) % (1 << (size % 26))
                - u64::from(size % 97 == 0);
            lines.push(format!("alloc b{count} {bytes} stream {}\n", stream.saturating_sub(5)));
            live.push(count);
        }
    }
    lines.concat()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(400)) })]

    #[test]
    fn relations_hold_on_random_traces(
        steps in prop::collection::vec((any::<u8>(), any::<u32>(), 0_u8..8), 1..60),
        lag in prop_oneof![(0_u64..5).prop_map(Lag::Launches), Just(Lag::Recorded)],
    ) {
        let trace = read(&script(&steps)).with_lag(lag);
        let (report, floor) = (replayed(&trace), apart(&trace));
        for row in &report.rows {
            prop_assert_eq!(&row.outcome.failed, &None);
            let is_apart = row.policy.kind == Kind::PyTorch;
            let floor = if is_apart { floor } else { row.outcome.peak_live };
            prop_assert!(row.outcome.peak_reserved >= floor, "{}", row.policy.name);
            check_places(&row.policy, &trace);
        }
        check_plan(&report);
        check_advice(&report);
    }
}

//! Memory of streams whose work completes behind the host.

#[path = "../../examples/streams/ahead.rs"]
mod ahead;

use cubeyard_memory::Bytes;
use cubeyard_replay::trace::{Lag, Trace, read, script::Script};
use cubeyard_replay::{Kind, Outcome, POLICIES, ReplayPolicy, run};
use proptest::prelude::*;

use crate::long_tests::cases;
use crate::readers::{LIMIT, recorded_file};

/// PyTorch gives a freed block to the same stream at once, however far the device is behind.
#[test]
fn temporaries_of_one_stream_cost_pytorch_one_block_at_any_lag() {
    for (streams, lag) in ahead::CASES {
        let trace = ahead::trace(streams, lag);
        let expected = Bytes::mib(64 + 2 * u64::from(streams - 1));
        assert_eq!(ahead::peak("pytorch", &trace), expected, "{streams} streams, lag {lag}");
    }
}

#[test]
fn temporaries_of_one_stream_cost_us_at_most_a_tenth_more_than_pytorch() {
    for (streams, lag) in ahead::CASES {
        let trace = ahead::trace(streams, lag);
        let theirs = ahead::peak("pytorch", &trace);
        for policy in POLICIES.iter().filter(|policy| policy.kind == Kind::Online) {
            let ours = ahead::peak(policy.name, &trace);
            assert!(
                10 * ours.get() <= 11 * theirs.get(),
                "{streams} streams, lag {lag}: {} needs {ours}, PyTorch {theirs}",
                policy.name
            );
        }
    }
}

/// The programs of several streams that were recorded.
const RECORDED: [&str; 3] = ["gather_record_stream", "prefetch_train", "streams_infer"];

const LAGS: [Lag; 5] =
    [Lag::Launches(0), Lag::Launches(1), Lag::Launches(5), Lag::Launches(1000), Lag::Recorded];

fn recorded(name: &str) -> Trace {
    read(name, &recorded_file(&format!("{name}.pickle.gz")), LIMIT).unwrap().remove(0)
}

fn outcome(policy: &ReplayPolicy, trace: &Trace) -> Outcome {
    run(trace, &mut *policy.target(trace).unwrap(), &mut |_| {})
}

fn kind(kind: Kind) -> impl Iterator<Item = &'static ReplayPolicy> {
    POLICIES.iter().filter(move |policy| policy.kind == kind)
}

/// A larger lag changes the order in which memory comes back, and with it the places of blocks of different sizes. So
/// one more launch may save PyTorch a few bytes by chance. Ours need the fewest bytes without a lag. With a very large
/// lag, streams keep to their own ranges; that may need fewer bytes than with a small lag, because blocks mix less.
#[test]
fn recorded_programs_need_no_fewer_bytes_with_a_larger_lag() {
    for name in RECORDED {
        let trace = recorded(name);
        let lagging = |lag| trace.clone().with_lag(Lag::Launches(lag));
        let peaks =
            |policy| [0, 1, 50, 500].map(|lag| outcome(policy, &lagging(lag)).peak_reserved);
        let no_less = |few: Bytes, many: Bytes| 100 * many.get() >= 98 * few.get();
        for policy in kind(Kind::PyTorch) {
            let each = peaks(policy);
            let is_rising = each.windows(2).all(|pair| no_less(pair[0], pair[1]));
            assert!(is_rising && each[3] >= each[0], "{name}, {}: {each:?}", policy.name);
        }
        for policy in kind(Kind::Online) {
            let each = peaks(policy);
            let is_least = each.iter().all(|&peak| no_less(each[0], peak));
            assert!(is_least, "{name}, {}: {each:?}", policy.name);
        }
    }
}

/// Random requests and frees of blocks: each step is a choice between both, a size, and a stream.
type Steps = Vec<(u8, u32, u8)>;

fn steps() -> impl Strategy<Value = Steps> {
    prop::collection::vec((any::<u8>(), any::<u32>(), 0_u8..4), 1..80)
}

/// Converts steps to a script: the size of a request, and the stream and copy of an allocation, are functions.
fn script(steps: &Steps, size: fn(u32) -> u64, streams: &dyn Fn(u8) -> Vec<u32>) -> Trace {
    let (mut lines, mut live) = (Vec::new(), Vec::new());
    for (count, &(choice, random, stream)) in steps.iter().enumerate() {
        if choice < 115 && !live.is_empty() {
            let (freed, copies): (usize, usize) = live.swap_remove(random as usize % live.len());
            lines.extend((0..copies).map(|copy| format!("free b{freed}.{copy}\n")));
        } else {
            let streams = streams(stream);
            live.push((count, streams.len()));
            lines.extend(streams.iter().enumerate().map(|(copy, stream)| {
                format!("alloc b{count}.{copy} {} stream {stream}\n", size(random))
            }));
        }
    }
    Script::parse(&lines.concat()).unwrap().to_trace("random").unwrap()
}

fn any_size(random: u32) -> u64 {
    1 + (u64::from(random) >> 4) % (1 << (random % 26))
}

fn one_size(_: u32) -> u64 {
    2 << 20
}

/// Returns the bytes for a trace, and for the same trace with each event repeated on another stream.
fn doubled(policy: &ReplayPolicy, steps: &Steps, size: fn(u32) -> u64, lag: Lag) -> [u64; 2] {
    let traces = [vec![0], vec![0, 1]].map(|streams| script(steps, size, &|_| streams.clone()));
    traces.map(|trace| outcome(policy, &trace.with_lag(lag)).peak_reserved.get())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(200)) })]

    #[test]
    fn with_one_stream_the_lag_does_not_matter(steps in steps()) {
        let trace = script(&steps, any_size, &|_| vec![3]);
        for policy in POLICIES {
            let expected = outcome(policy, &trace);
            prop_assert_eq!(expected.waits, 0);
            for lag in LAGS {
                prop_assert_eq!(&outcome(policy, &trace.clone().with_lag(lag)), &expected);
            }
        }
    }

    #[test]
    fn without_shared_blocks_the_lag_does_not_matter_to_pytorch(steps in steps()) {
        let trace = script(&steps, any_size, &|stream| vec![stream.into()]);
        for policy in kind(Kind::PyTorch) {
            let expected = outcome(policy, &trace);
            for lag in LAGS {
                prop_assert_eq!(&outcome(policy, &trace.clone().with_lag(lag)), &expected);
            }
        }
    }

    /// All but `quick-fit`: it takes the block that was freed last, and frees of several streams that complete together
    /// are ordered by the streams' numbers.
    #[test]
    fn the_numbers_of_streams_do_not_matter(steps in steps(), lag in 0_usize..LAGS.len()) {
        let numbered = |number: fn(u8) -> u32| {
            script(&steps, any_size, &|stream| vec![number(stream)]).with_lag(LAGS[lag])
        };
        let (plain, others) = (numbered(u32::from), numbered(|stream| 1000 - 7 * u32::from(stream)));
        for policy in POLICIES.iter().filter(|policy| policy.name != "quick-fit") {
            let [plain, others] = [&plain, &others].map(|trace| outcome(policy, trace));
            prop_assert_eq!(plain, others, "{}", policy.name);
        }
    }

    #[test]
    fn blocks_of_one_size_need_the_live_bytes_without_a_lag_and_no_less_with_one(steps in steps()) {
        let trace = script(&steps, one_size, &|stream| vec![stream.into()]);
        for policy in kind(Kind::Online) {
            let needed = |lag| outcome(policy, &trace.clone().with_lag(Lag::Launches(lag)));
            let at_once = needed(0);
            prop_assert_eq!(at_once.peak_reserved, at_once.peak_live, "{}", policy.name);
            for lag in [1, 5, 1000] {
                prop_assert!(needed(lag).peak_reserved >= at_once.peak_reserved, "{}", policy.name);
            }
        }
    }

    #[test]
    fn a_copy_on_another_stream_doubles_what_pytorch_needs(steps in steps(), lag in 0_usize..LAGS.len()) {
        for policy in kind(Kind::PyTorch) {
            let [one, two] = doubled(policy, &steps, any_size, LAGS[lag]);
            prop_assert_eq!(two, 2 * one, "{}", policy.name);
        }
        for policy in kind(Kind::Online) {
            let [one, two] = doubled(policy, &steps, one_size, Lag::Launches(0));
            prop_assert!(two <= 2 * one, "{}", policy.name);
        }
    }

    #[test]
    fn a_copy_on_another_stream_at_most_doubles_what_we_need(steps in steps(), lag in 0_usize..LAGS.len()) {
        for policy in kind(Kind::Online) {
            let [one, two] = doubled(policy, &steps, one_size, LAGS[lag]);
            prop_assert!(two <= 2 * one, "{}: {two} bytes, alone {one}", policy.name);
        }
    }
}

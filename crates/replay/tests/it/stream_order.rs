//! Memory of streams whose work completes behind the host.

#[path = "../../examples/streams/ahead.rs"]
mod ahead;

use cubeyard_memory::Bytes;
use cubeyard_replay::{Kind, POLICIES};

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
#[ignore = "a freed block waits for its own stream; run it once its own stream takes it at once"]
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

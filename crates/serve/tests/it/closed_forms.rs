//! Services beside formulas of queueing theory and of arithmetic.

use cubeyard_serve::{
    Lengths, Limits, Load, Outcome, SchedulerConfig, ServiceConfig, ServiceReport, StepTimes,
    simulate,
};
use cubeyard_units::Span;

use crate::{linear, load, ms, service};

/// One sequence at a time.
const ALONE: SchedulerConfig = SchedulerConfig {
    max_num_seqs: 1,
    max_num_batched_tokens: 1 << 20,
    block_size: 16,
    enable_prefix_caching: true,
    enable_chunked_prefill: true,
    policy: cubeyard_serve::Policy::Fcfs,
};

fn run(load: &Load, config: &ServiceConfig, times: &mut dyn StepTimes) -> Outcome {
    simulate(load, config, times).unwrap()
}

/// Returns the mean wait of Poisson arrivals before one server, in units of the mean service time.
fn mean_wait(utilisation: f64, output: Lengths, count: u64) -> f64 {
    // A request of n output tokens takes n steps of 1 ms; the mean is 10 ms.
    let rate = utilisation * 100.0;
    let load = Load::drawn(count, rate, 1.0, Lengths::Fixed(16), output, 5).unwrap();
    let config = service(ALONE, 1000);
    let outcome = run(&load, &config, &mut linear(1, 0));
    let report = ServiceReport::new(&outcome, &load, &config, &Limits::default());
    report.queued.mean / 10.0
}

#[test]
fn waits_of_equal_requests_are_those_of_m_d_1() {
    for utilisation in [0.5_f64, 0.8] {
        let wait = mean_wait(utilisation, Lengths::Fixed(10), 100_000);
        let expected = utilisation / (2.0 * (1.0 - utilisation));
        assert!((wait / expected - 1.0).abs() < 0.05, "{utilisation}: {wait}, {expected}");
    }
}

/// Lengths from 1 to 19 have the mean 10 and the second moment 130.
#[test]
fn waits_of_unequal_requests_are_those_of_m_g_1() {
    for utilisation in [0.5_f64, 0.8] {
        let wait = mean_wait(utilisation, Lengths::Uniform(1, 19), 100_000);
        let expected = utilisation * 1.3 / (2.0 * (1.0 - utilisation));
        assert!((wait / expected - 1.0).abs() < 0.05, "{utilisation}: {wait}, {expected}");
    }
}

#[test]
fn regular_arrivals_do_not_wait_before_a_fast_enough_server() {
    let load = Load::regular(50, ms(10), Lengths::Fixed(16), Lengths::Fixed(10), 0).unwrap();
    let config = service(ALONE, 1000);
    let outcome = run(&load, &config, &mut linear(1, 0));
    assert!(outcome.served.iter().all(|it| it.started == it.sent));
    assert_eq!(outcome.busy, ms(500));
}

#[test]
fn one_request_takes_as_many_steps_as_its_chunks_and_tokens() {
    for (prompt, output, budget) in
        [(1, 1, 1), (100, 1, 64), (100, 7, 64), (64, 3, 64), (65, 40, 64)]
    {
        let scheduler = SchedulerConfig { max_num_batched_tokens: budget, ..ALONE };
        let config = service(scheduler, 64);
        let load = load(&[(3, prompt, output)]);
        let outcome = run(&load, &config, &mut linear(1, 0));
        assert_eq!(outcome.steps, prompt.div_ceil(budget) + output - 1);
        assert_eq!(outcome.peak_blocks, (prompt + output - 1).div_ceil(16));
        assert_eq!(outcome.allocated.get(), outcome.peak_blocks * 2048);
        let served = outcome.served[0];
        assert_eq!(served.end - served.sent, ms(1) * outcome.steps);
    }
}

#[test]
fn a_run_is_its_steps_and_its_idle_time() {
    let load =
        Load::drawn(300, 20.0, 0.5, Lengths::Uniform(1, 200), Lengths::Uniform(1, 30), 9).unwrap();
    let config = service(SchedulerConfig::default(), 4000);
    let mut times = linear(2, 0);
    times.per_token = Span::from_ps(30_000_000);
    let outcome = run(&load, &config, &mut times);
    assert_eq!(outcome.busy, times.fixed * outcome.steps + times.per_token * outcome.computed);
    // All prompts are computed once, and all tokens but the last of each answer.
    let [input, output] = outcome.tokens;
    assert_eq!(outcome.computed, input + output - 300);
    let idle = outcome.end.ps() - outcome.busy.ps();
    let report = ServiceReport::new(&outcome, &load, &config, &Limits::default());
    assert!((report.busy - (1.0 - idle as f64 / outcome.end.ps() as f64)).abs() < 1e-9);
}

#[test]
fn equal_requests_at_once_are_one_static_batch() {
    let load = load(&[(0, 32, 5); 8]);
    let config = service(SchedulerConfig::default(), 100);
    let outcome = run(&load, &config, &mut linear(1, 0));
    assert_eq!((outcome.steps, outcome.peak_blocks), (5, 8 * 3));
    assert!(outcome.served.iter().all(|it| it.first == outcome.served[0].first));
}

/// A closed loop of N clients on a server whose step takes a + b·N.
#[test]
fn a_closed_loop_has_the_throughput_of_its_batch() {
    let requests = vec![(0, 1, 21); 400];
    let mut config = service(SchedulerConfig::default(), 1000);
    config.max_concurrency = Some(8);
    let outcome = run(&load(&requests), &config, &mut linear(2, 1));
    // Eight requests of 21 steps, fifty times; no step has fewer than eight tokens.
    assert_eq!(outcome.end.ps(), (ms(2 + 8) * 21 * 50).ps());
    assert!(outcome.gaps.iter().all(|gap| *gap == ms(10)));
}

#[test]
fn requests_that_can_never_be_served_are_rejected_and_the_others_are_served() {
    let load = load(&[(0, 100, 1), (0, 16, 2), (0, 64, 1)]);
    let outcome = run(&load, &service(ALONE, 4), &mut linear(1, 0));
    assert_eq!((outcome.rejected, outcome.served.len()), (vec![0], 2));
    let whole =
        SchedulerConfig { enable_chunked_prefill: false, max_num_batched_tokens: 63, ..ALONE };
    let outcome = run(&load, &service(whole, 100), &mut linear(1, 0));
    assert_eq!((outcome.rejected, outcome.served.len()), (vec![0, 2], 1));
}

#[test]
fn a_shared_prefix_is_computed_once() {
    let mut load = load(&[(0, 32, 2), (10, 32, 2)]);
    for request in &mut load.requests {
        request.contents = vec![7];
    }
    load.hash_tokens = 512;
    let outcome = run(&load, &service(ALONE, 100), &mut linear(1, 0));
    // A prompt of two blocks finds one: at least a token is computed.
    let found: Vec<_> = outcome.served.iter().map(|it| it.found).collect();
    assert_eq!((found, outcome.computed), (vec![0, 16], 33 + 17));
    let off = SchedulerConfig { enable_prefix_caching: false, ..ALONE };
    let outcome = run(&load, &service(off, 100), &mut linear(1, 0));
    assert_eq!(outcome.computed, 66);
}

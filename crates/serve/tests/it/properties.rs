//! Relations that hold for every load and every configuration.

use cubeyard_serve::service::simulate_watched;
use cubeyard_serve::{
    Limits, Load, Outcome, Policy, Request, SchedulerConfig, ServiceConfig, ServiceReport, simulate,
};
use cubeyard_units::Time;
use proptest::prelude::*;

use crate::{linear, ms, service};

/// Requests with bursts, shared contents and priorities.
pub(crate) fn loads() -> impl Strategy<Value = Load> {
    let request = (0_u64..40, 1_u64..90, 1_u64..20, -1..2_i32, 0_u64..3);
    (proptest::collection::vec(request, 1..30), 1_u64..20).prop_map(|(mut all, hash_tokens)| {
        all.sort_by_key(|request| request.0);
        let request = |(arrival, prompt, output, priority, family): (u64, u64, u64, i32, u64)| {
            // Requests of a family have the same prompts, up to the shorter length.
            let contents = (0..prompt.div_ceil(hash_tokens)).map(|place| family * 1000 + place);
            let contents = if family == 0 { Vec::new() } else { contents.collect() };
            Request { arrival: Time::ZERO + ms(arrival), prompt, output, priority, contents }
        };
        Load { requests: all.into_iter().map(request).collect(), hash_tokens }
    })
}

pub(crate) fn configs() -> impl Strategy<Value = ServiceConfig> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (1_u64..9, 1_u64..80, 1_u64..9, flags, 8_u64..60).prop_map(
        |(max_num_seqs, max_num_batched_tokens, block_size, (cache, chunks, first), blocks)| {
            let scheduler = SchedulerConfig {
                max_num_seqs,
                max_num_batched_tokens,
                block_size,
                enable_prefix_caching: cache,
                enable_chunked_prefill: chunks,
                policy: if first { Policy::Fcfs } else { Policy::Priority },
            };
            service(scheduler, blocks)
        },
    )
}

fn run(load: &Load, config: &ServiceConfig) -> Outcome {
    simulate(load, config, &mut linear(3, 1)).unwrap()
}

fn report(load: &Load, config: &ServiceConfig) -> ServiceReport {
    ServiceReport::new(&run(load, config), load, config, &Limits::default())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn littles_law_holds_to_the_picosecond(load in loads(), config in configs()) {
        let outcome = run(&load, &config);
        let latencies = outcome.served.iter().map(|it| u128::from((it.end - it.sent).ps()));
        // Rejected requests leave at once; those that arrive during a step are counted until its end.
        if outcome.rejected.is_empty() {
            prop_assert_eq!(outcome.unanswered, latencies.sum::<u128>());
        }
        prop_assert_eq!(outcome.served.len() + outcome.rejected.len(), load.requests.len());
    }

    #[test]
    fn every_answered_request_has_all_its_tokens_in_order(load in loads(), config in configs()) {
        let outcome = run(&load, &config);
        let outputs = outcome.served.iter().map(|it| load.requests[it.request].output);
        prop_assert_eq!(outcome.gaps.len() as u64, outputs.map(|output| output - 1).sum::<u64>());
        for it in &outcome.served {
            let request = &load.requests[it.request];
            prop_assert!(request.arrival <= it.sent && it.sent <= it.started);
            prop_assert!(it.started < it.first && it.first <= it.end);
            prop_assert_eq!(it.first == it.end, request.output == 1);
        }
        prop_assert!(outcome.peak_blocks <= config.blocks);
        prop_assert!(outcome.allocated.get() <= config.blocks * config.block_bytes.get());
    }

    #[test]
    fn an_observer_changes_nothing(load in loads(), config in configs()) {
        let mut tokens = 0;
        let watched = simulate_watched(&load, &config, &mut linear(3, 1), &mut |step| {
            tokens += step.plan.scheduled.iter().map(|it| it.tokens).sum::<u64>();
        });
        let (watched, alone) = (watched.unwrap(), run(&load, &config));
        prop_assert_eq!(tokens, alone.computed);
        prop_assert_eq!((watched.served, watched.end), (alone.served, alone.end));
    }

    /// Blocks beyond those that were ever used at once, and released blocks between them, change nothing.
    #[test]
    fn more_memory_than_is_used_changes_nothing(load in loads(), config in configs()) {
        let scheduler = SchedulerConfig { enable_prefix_caching: false, ..config.scheduler };
        let all: u64 = load.requests.iter().map(|it| it.prompt + it.output).sum();
        let [some, more] = [all, all + 1000].map(|blocks| {
            report(&load, &ServiceConfig { scheduler, blocks, ..config })
        });
        let blocks = some.blocks;
        prop_assert_eq!(more.preemptions, 0);
        prop_assert_eq!(some, ServiceReport { blocks, ..more });
    }

    /// Without equal prompts and without preemption a cache finds nothing.
    #[test]
    fn a_cache_of_what_nothing_shares_changes_nothing(mut load in loads(), config in configs()) {
        load.requests.iter_mut().for_each(|it| it.contents.clear());
        let blocks = load.requests.iter().map(|it| it.prompt + it.output).sum();
        let [on, off] = [true, false].map(|enable_prefix_caching| {
            let scheduler = SchedulerConfig { enable_prefix_caching, ..config.scheduler };
            report(&load, &ServiceConfig { scheduler, blocks, ..config })
        });
        prop_assert_eq!(on, off);
    }

    /// A cache never makes the steps compute more tokens, if no request is preempted.
    #[test]
    fn a_cache_saves_the_tokens_that_it_finds(load in loads(), config in configs()) {
        let blocks = load.requests.iter().map(|it| it.prompt + it.output).sum();
        let outcome = run(&load, &ServiceConfig { blocks, ..config });
        let found: u64 = outcome.served.iter().map(|it| it.found).sum();
        let [input, output] = outcome.tokens;
        let served = outcome.served.len() as u64;
        prop_assert_eq!(outcome.computed + found, input + output - served);
    }

    #[test]
    fn equal_priorities_are_first_come_first_served(mut load in loads(), config in configs()) {
        load.requests.iter_mut().for_each(|it| it.priority = 4);
        let blocks = load.requests.iter().map(|it| it.prompt + it.output).sum();
        let [one, other] = [Policy::Fcfs, Policy::Priority].map(|policy| {
            let scheduler = SchedulerConfig { policy, ..config.scheduler };
            report(&load, &ServiceConfig { scheduler, blocks, ..config })
        });
        prop_assert_eq!(one, other);
    }

    /// Time before each step is added to every step.
    #[test]
    fn host_time_lengthens_the_run_by_its_steps_or_less(load in loads(), config in configs()) {
        let slow = run(&load, &ServiceConfig { step_overhead: ms(2), ..config });
        let fast = run(&load, &config);
        prop_assert!(slow.end >= fast.end);
        prop_assert_eq!(slow.tokens, fast.tokens);
    }
}

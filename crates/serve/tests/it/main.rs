//! Services held to closed forms, to a slow scheduler, and to relations that must hold.

mod closed_forms;
mod machine;
mod properties;
mod slow;

use cubeyard_memory::Bytes;
use cubeyard_serve::{LinearTimes, Load, Request, SchedulerConfig, ServiceConfig};
use cubeyard_units::{Span, Time};

/// Returns a span of whole milliseconds.
fn ms(count: u64) -> Span {
    Span::from_ps(count * 1_000_000_000)
}

/// Times of `fixed` ms for each step, and `per_token` ms for each token.
fn linear(fixed: u64, per_token: u64) -> LinearTimes {
    LinearTimes { fixed: ms(fixed), per_token: ms(per_token) }
}

/// Returns a load of requests with arrivals in milliseconds, prompts and outputs.
fn load(requests: &[(u64, u64, u64)]) -> Load {
    let request = |&(arrival, prompt, output): &(u64, u64, u64)| Request {
        arrival: Time::ZERO + ms(arrival),
        prompt,
        output,
        ..Request::default()
    };
    Load { requests: requests.iter().map(request).collect(), hash_tokens: 1 }
}

/// Returns the configuration of a service with this number of blocks.
fn service(scheduler: SchedulerConfig, blocks: u64) -> ServiceConfig {
    ServiceConfig { block_bytes: Bytes::kib(2), ..ServiceConfig::new(scheduler, blocks) }
}

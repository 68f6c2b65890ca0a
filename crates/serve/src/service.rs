//! Run of a service: requests arrive, steps run one after the other, and tokens are received.

mod series;

use cubeyard_memory::Bytes;
use cubeyard_units::{Span, Time};

use crate::error::ServeError;
use crate::load::Load;
use crate::pool::BlockPool;
use crate::scheduler::{HeldBack, Scheduler, SchedulerConfig, StepPlan};
use crate::shape::{StepShape, StepTimes};
pub use series::{Sample, Series};

/// Maximum number of tokens of all answers; the time of each is kept in 8 bytes.
const MOST_TOKENS: u64 = 1 << 28;

/// Parameters of a service.
#[derive(Clone, Copy, Debug)]
pub struct ServiceConfig {
    /// Parameters of the scheduler.
    pub scheduler: SchedulerConfig,
    /// Number of blocks of the KV cache.
    pub blocks: u64,
    /// Bytes of a block on all PEs together.
    pub block_bytes: Bytes,
    /// Time of the host before each step (default 0).
    pub step_overhead: Span,
    /// Maximum number of requests that are sent and not answered; further clients wait before they send (no limit if
    /// `None`).
    pub max_concurrency: Option<u64>,
}

impl ServiceConfig {
    /// Creates the configuration of a service with this number of blocks of 1 KiB.
    pub fn new(scheduler: SchedulerConfig, blocks: u64) -> Self {
        let block_bytes = Bytes::kib(1);
        Self { scheduler, blocks, block_bytes, step_overhead: Span::ZERO, max_concurrency: None }
    }
}

/// Answered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Index of the request in its load.
    pub request: usize,
    /// Instant at which the request was sent.
    pub sent: Time,
    /// Start of the first step that computed a token of the request.
    pub started: Time,
    /// Instant of the first token.
    pub first: Time,
    /// Instant of the last token.
    pub end: Time,
    /// Number of prompt tokens found in the cache when the request was last admitted.
    pub found: u64,
    /// Number of times the request lost its blocks.
    pub preemptions: u32,
}

/// Results of a service.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Answered requests, in the order of their last tokens.
    pub served: Vec<Served>,
    /// Requests that can never be served, since their blocks exceed the cache or their prompts exceed a batch.
    pub rejected: Vec<usize>,
    /// Prompt and output tokens of the answered requests.
    pub tokens: [u64; 2],
    /// Times between consecutive tokens of all requests.
    pub gaps: Vec<Span>,
    /// Number of steps.
    pub steps: u64,
    /// Number of tokens that all steps computed.
    pub computed: u64,
    /// Total time of the steps.
    pub busy: Span,
    /// End of the last step.
    pub end: Time,
    /// Number of times a request lost its blocks.
    pub preemptions: u64,
    /// Time that requests waited, in picoseconds, by the reasons of [`HeldBack::ALL`].
    pub waited: [u128; 5],
    /// Integral of the number of unanswered requests over time, in picoseconds.
    pub unanswered: u128,
    /// Integral of the number of used blocks over time, in picoseconds.
    pub used_blocks: u128,
    /// Maximum number of used blocks.
    pub peak_blocks: u64,
    /// Bytes that the allocator has handed out for blocks.
    pub allocated: Bytes,
    /// State of the service over time.
    pub series: Series,
}

/// Step of a service, for observers.
#[derive(Debug)]
pub struct StepRecord<'a> {
    /// Start of the step.
    pub start: Time,
    /// Time of the step, without the host's time before it.
    pub span: Span,
    /// Batch of the step.
    pub plan: &'a StepPlan,
    /// Shape of the batch.
    pub shape: &'a StepShape,
}

/// Runs a service until all requests are answered.
pub fn simulate(
    load: &Load,
    config: &ServiceConfig,
    times: &mut dyn StepTimes,
) -> Result<Outcome, ServeError> {
    simulate_watched(load, config, times, &mut |_| ())
}

/// Runs a service as [`simulate`] does. `watch` is called before each step, and changes nothing.
pub fn simulate_watched(
    load: &Load,
    config: &ServiceConfig,
    times: &mut dyn StepTimes,
    watch: &mut dyn FnMut(&StepRecord<'_>),
) -> Result<Outcome, ServeError> {
    let mut service = Service::new(load, config)?;
    loop {
        service.receive();
        if service.is_idle() {
            let Some(next) = service.next_arrival() else { break };
            service.now = next;
            continue;
        }
        service.step(times, watch)?;
    }
    Ok(service.finish())
}

/// State of a run.
struct Service<'a> {
    load: &'a Load,
    config: &'a ServiceConfig,
    scheduler: Scheduler<'a>,
    now: Time,
    /// Index of the next request that has not been sent.
    next: usize,
    /// Instant at which each request was sent, started, and received its first and latest tokens.
    sent: Vec<Time>,
    started: Vec<Time>,
    first: Vec<Time>,
    latest: Vec<Time>,
    unanswered: u64,
    outcome: Outcome,
}

impl<'a> Service<'a> {
    fn new(load: &'a Load, config: &'a ServiceConfig) -> Result<Self, ServeError> {
        let pool = BlockPool::new(config.blocks, config.block_bytes)?;
        let outputs = load.requests.iter().map(|it| it.output).fold(0, u64::saturating_add);
        if outputs > MOST_TOKENS {
            let expected = format!("at most {MOST_TOKENS} tokens of all answers together");
            return Err(ServeError::value("output", outputs, expected));
        }
        if config.max_concurrency == Some(0) {
            return Err(ServeError::value("max-concurrency", 0, "at least 1"));
        }
        let never = || vec![Time::NEVER; load.requests.len()];
        Ok(Self {
            load,
            config,
            scheduler: Scheduler::new(load, config.scheduler, pool)?,
            now: Time::ZERO,
            next: 0,
            sent: never(),
            started: never(),
            first: never(),
            latest: never(),
            unanswered: 0,
            outcome: Outcome::default(),
        })
    }

    /// Sends all requests whose time has come.
    fn receive(&mut self) {
        while self.has_room()
            && let Some(request) = self.load.requests.get(self.next)
            && request.arrival <= self.now
        {
            // A client that waited for another answer sends when that answer ended.
            let is_late = self.config.max_concurrency.is_some();
            self.sent[self.next] = if is_late { self.now } else { request.arrival };
            if self.scheduler.add(self.next) {
                self.unanswered += 1;
            } else {
                self.outcome.rejected.push(self.next);
            }
            self.next += 1;
        }
    }

    fn has_room(&self) -> bool {
        self.config.max_concurrency.is_none_or(|most| self.unanswered < most)
    }

    fn is_idle(&self) -> bool {
        self.scheduler.running() == 0 && self.scheduler.waiting() == 0
    }

    fn next_arrival(&self) -> Option<Time> {
        self.load.requests.get(self.next).map(|request| request.arrival)
    }

    /// Runs one step.
    fn step(
        &mut self,
        times: &mut dyn StepTimes,
        watch: &mut dyn FnMut(&StepRecord<'_>),
    ) -> Result<(), ServeError> {
        let plan = self.scheduler.schedule();
        self.outcome.preemptions += plan.preempted.len() as u64;
        if plan.scheduled.is_empty() {
            // A request has preempted itself. It or another one runs next.
            return Ok(());
        }
        let shape = self.shape(&plan);
        let span = times.span(&shape)?;
        let start = self.now + self.config.step_overhead;
        watch(&StepRecord { start, span, plan: &plan, shape: &shape });
        for it in &plan.scheduled {
            let started = &mut self.started[it.request];
            *started = (*started).min(start);
        }
        let end = start + span;
        if end > Time::HORIZON {
            return Err(ServeError::OutOfTime);
        }
        self.account(&plan, &shape, span, end);
        self.now = end;
        for emitted in self.scheduler.complete(&plan) {
            self.emit(emitted.request, emitted.is_last);
        }
        Ok(())
    }

    /// Returns the shape of a batch.
    fn shape(&self, plan: &StepPlan) -> StepShape {
        let mut shape = StepShape::default();
        for it in &plan.scheduled {
            shape.add(it.tokens, it.position);
            shape.sampled += u64::from(self.scheduler.is_complete(it));
        }
        shape
    }

    /// Adds a step to the sums over time. Requests that arrive during the step wait for its end.
    fn account(&mut self, plan: &StepPlan, shape: &StepShape, span: Span, end: Time) {
        let length = u128::from((end - self.now).ps());
        let arriving = self.load.requests[self.next..].iter();
        let arriving = arriving.take_while(|request| request.arrival <= end);
        let (mut count, mut late) = (0, 0);
        if self.config.max_concurrency.is_none() {
            for request in arriving {
                (count, late) = (count + 1, late + u128::from((end - request.arrival).ps()));
            }
        }
        let (waiting, blocks) = (self.scheduler.waiting() as u64, self.scheduler.pool().used());
        let outcome = &mut self.outcome;
        outcome.steps += 1;
        outcome.computed += shape.tokens();
        outcome.busy += span;
        outcome.peak_blocks = outcome.peak_blocks.max(blocks);
        outcome.used_blocks += u128::from(blocks) * length;
        outcome.unanswered += u128::from(self.unanswered) * length + late;
        outcome.waited[HeldBack::Step as usize] += late;
        if let Some(reason) = plan.held_back {
            outcome.waited[reason as usize] += u128::from(waiting) * length;
        }
        outcome.series.push(Sample {
            start: self.now,
            end,
            waiting: waiting + count,
            running: plan.scheduled.len() as u64,
            tokens: shape.tokens(),
            blocks,
        });
    }

    /// Gives a request a token at the end of a step.
    fn emit(&mut self, request: usize, is_last: bool) {
        let now = self.now;
        let latest = std::mem::replace(&mut self.latest[request], now);
        if latest == Time::NEVER {
            self.first[request] = now;
        } else {
            self.outcome.gaps.push(now - latest);
        }
        if is_last {
            self.unanswered -= 1;
            let (found, preemptions) = self.scheduler.history(request);
            let (sent, started, first) =
                (self.sent[request], self.started[request], self.first[request]);
            self.outcome.tokens[0] += self.load.requests[request].prompt;
            self.outcome.tokens[1] += self.load.requests[request].output;
            let served = Served { request, sent, started, first, end: now, found, preemptions };
            self.outcome.served.push(served);
        }
    }

    fn finish(mut self) -> Outcome {
        self.outcome.end = self.now;
        self.outcome.allocated = self.scheduler.pool().allocated();
        self.outcome
    }
}

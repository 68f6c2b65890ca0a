//! Batches of steps, by the rules of vLLM's scheduler.
//!
//! docs/serving.md has the rules in full; `testdata/reference/serving.py` implements them a second time.

mod waiting;

use serde::Serialize;

use crate::error::ServeError;
use crate::load::{Load, Request};
use crate::pool::{BlockId, BlockPool, Content};
use waiting::Waiting;

/// Order in which waiting requests are admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// First come, first served.
    #[default]
    Fcfs,
    /// By priority, then by arrival.
    Priority,
}

/// Parameters of a scheduler, with the names and meanings of vLLM's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SchedulerConfig {
    /// Maximum number of sequences of a batch (default 256).
    pub max_num_seqs: u64,
    /// Maximum number of tokens of a batch (default 2048).
    pub max_num_batched_tokens: u64,
    /// Number of tokens of a block of the KV cache (default 16).
    pub block_size: u64,
    /// Whether requests reuse the blocks of equal prefixes (default true).
    pub enable_prefix_caching: bool,
    /// Whether a prompt may be computed in several steps (default true).
    pub enable_chunked_prefill: bool,
    /// Order of admission.
    pub policy: Policy,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            max_num_seqs: 256,
            max_num_batched_tokens: 2048,
            block_size: 16,
            enable_prefix_caching: true,
            enable_chunked_prefill: true,
            policy: Policy::Fcfs,
        }
    }
}

impl SchedulerConfig {
    /// Checks that all numbers are positive.
    pub fn check(&self) -> Result<(), ServeError> {
        let numbers = [
            ("max-num-seqs", self.max_num_seqs),
            ("max-num-batched-tokens", self.max_num_batched_tokens),
            ("block-size", self.block_size),
        ];
        match numbers.into_iter().find(|(_, value)| *value == 0) {
            Some((key, value)) => Err(ServeError::value(key, value, "at least 1")),
            None => Ok(()),
        }
    }
}

/// Tokens of a request that a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Index of the request in its load.
    pub request: usize,
    /// Number of tokens of the request that were computed before.
    pub position: u64,
    /// Number of tokens that the step computes.
    pub tokens: u64,
}

/// Reason why a request at the head of the queue was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeldBack {
    /// It arrived while a step ran.
    Step,
    /// The batch has as many sequences as it may have.
    Sequences,
    /// The batch has as many tokens as it may have.
    Tokens,
    /// No blocks are left for the request's input.
    Memory,
    /// A request was preempted in this step, for lack of blocks.
    Preemption,
}

impl HeldBack {
    /// All reasons, in the order of reports.
    pub const ALL: [Self; 5] =
        [Self::Step, Self::Sequences, Self::Tokens, Self::Memory, Self::Preemption];
}

/// Batch of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepPlan {
    /// Tokens of each request of the batch, running requests first.
    pub scheduled: Vec<Scheduled>,
    /// Requests that lost their blocks.
    pub preempted: Vec<usize>,
    /// Reason why requests remain in the queue; `None` if the queue is empty.
    pub held_back: Option<HeldBack>,
}

/// Token that a request receives at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// Index of the request.
    pub request: usize,
    /// Whether it is the last token of the answer.
    pub is_last: bool,
}

/// Progress of a request.
#[derive(Clone, Debug, Default)]
struct Progress {
    computed: u64,
    generated: u64,
    blocks: Vec<BlockId>,
    /// Number of blocks that have their content.
    kept: usize,
    /// Number of tokens found in the cache at the last admission.
    found: u64,
    preemptions: u32,
}

/// Scheduler of a service.
#[derive(Debug)]
pub struct Scheduler<'a> {
    load: &'a Load,
    config: SchedulerConfig,
    pool: BlockPool,
    progress: Vec<Progress>,
    waiting: Waiting,
    running: Vec<usize>,
}

impl<'a> Scheduler<'a> {
    /// Creates a scheduler for the requests of a load.
    pub fn new(
        load: &'a Load,
        config: SchedulerConfig,
        pool: BlockPool,
    ) -> Result<Self, ServeError> {
        config.check()?;
        let progress = vec![Progress::default(); load.requests.len()];
        Ok(Self { load, config, pool, progress, waiting: Waiting::default(), running: Vec::new() })
    }

    /// Returns the blocks.
    pub fn pool(&self) -> &BlockPool {
        &self.pool
    }

    /// Returns the number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the number of running requests.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns the number of prompt tokens of a request that were found in the cache when it was last admitted, and how
    /// often it was preempted.
    pub fn history(&self, request: usize) -> (u64, u32) {
        (self.progress[request].found, self.progress[request].preemptions)
    }

    /// Adds a request to the queue; returns `false`, and does not add it, if it can never be served: its blocks exceed the
    /// pool, or its prompt exceeds a batch and may not be divided.
    pub fn add(&mut self, request: usize) -> bool {
        let Request { prompt, output, .. } = self.load.requests[request];
        // The last token is not stored.
        let blocks = (prompt + output - 1).div_ceil(self.config.block_size);
        let is_divided = self.config.enable_chunked_prefill
            // A preempted request computes its answer again, too.
            || prompt + output - 1 <= self.config.max_num_batched_tokens;
        if blocks > self.pool.count() || !is_divided {
            return false;
        }
        self.waiting.push(request, self.priority(request));
        true
    }

    /// Returns whether a request receives a token at the end of the step that computes these tokens.
    pub fn is_complete(&self, it: &Scheduled) -> bool {
        it.position + it.tokens == self.known(it.request)
    }

    /// Forms the batch of the next step.
    pub fn schedule(&mut self) -> StepPlan {
        let mut plan = StepPlan::default();
        let mut budget = self.config.max_num_batched_tokens;
        self.go_on(&mut plan, &mut budget);
        if plan.preempted.is_empty() {
            plan.held_back = self.admit(&mut plan, &mut budget);
        } else {
            plan.held_back = Some(HeldBack::Preemption);
        }
        plan
    }

    /// Ends a step: its tokens are computed, and requests without missing tokens receive one.
    pub fn complete(&mut self, plan: &StepPlan) -> Vec<Emitted> {
        let mut emitted = Vec::new();
        for &Scheduled { request, tokens, .. } in &plan.scheduled {
            let known = self.known(request);
            let progress = &mut self.progress[request];
            progress.computed += tokens;
            if progress.computed == known {
                progress.generated += 1;
                let is_last = progress.generated == self.load.requests[request].output;
                emitted.push(Emitted { request, is_last });
            }
        }
        for &Emitted { request, .. } in emitted.iter().filter(|it| it.is_last) {
            let blocks = std::mem::take(&mut self.progress[request].blocks);
            self.pool.release(&blocks);
        }
        if emitted.iter().any(|it| it.is_last) {
            let (progress, requests) = (&self.progress, &self.load.requests);
            self.running.retain(|&it| progress[it].generated < requests[it].output);
        }
        emitted
    }

    /// Schedules running requests in order. If no blocks are left, others are preempted.
    fn go_on(&mut self, plan: &mut StepPlan, budget: &mut u64) {
        let mut at = 0;
        while at < self.running.len() && *budget > 0 {
            let request = self.running[at];
            let tokens = (self.known(request) - self.progress[request].computed).min(*budget);
            while !self.extend(request, tokens) {
                let victim = self.victim();
                let preempted = self.running.remove(victim);
                if victim < at {
                    at -= 1;
                    let place = plan.scheduled.iter().position(|it| it.request == preempted);
                    *budget += place.map_or(0, |place| plan.scheduled.remove(place).tokens);
                }
                self.preempt(preempted);
                plan.preempted.push(preempted);
                if preempted == request {
                    return;
                }
            }
            let position = self.progress[request].computed;
            plan.scheduled.push(Scheduled { request, position, tokens });
            *budget -= tokens;
            at += 1;
        }
    }

    /// Returns the place of the running request that is preempted next: the last one, or the one served last by priority.
    fn victim(&self) -> usize {
        let last = self.running.len() - 1;
        match self.config.policy {
            Policy::Fcfs => last,
            Policy::Priority => (0..=last)
                .max_by_key(|&at| (self.priority(self.running[at]), self.running[at]))
                .unwrap_or(last),
        }
    }

    /// Takes all blocks from a request, and returns it to the queue. Its tokens are computed again.
    fn preempt(&mut self, request: usize) {
        let progress = &mut self.progress[request];
        // Contents that a step would have computed are lost.
        let computed = usize::try_from(progress.computed / self.config.block_size).unwrap_or(0);
        for &block in progress.blocks.iter().take(progress.kept).skip(computed) {
            self.pool.forget(block);
        }
        self.pool.release(&progress.blocks);
        progress.blocks.clear();
        (progress.computed, progress.kept) = (0, 0);
        progress.preemptions += 1;
        match self.config.policy {
            Policy::Fcfs => self.waiting.push_front(request),
            Policy::Priority => self.waiting.push(request, self.priority(request)),
        }
    }

    /// Admits waiting requests while the batch and the pool have room; returns why the others wait.
    fn admit(&mut self, plan: &mut StepPlan, budget: &mut u64) -> Option<HeldBack> {
        loop {
            let request = self.waiting.first()?;
            if *budget == 0 {
                return Some(HeldBack::Tokens);
            }
            if self.running.len() as u64 >= self.config.max_num_seqs {
                return Some(HeldBack::Sequences);
            }
            let found = self.cached(request);
            let position = found.len() as u64 * self.config.block_size;
            let missing = self.known(request) - position;
            if missing > *budget && !self.config.enable_chunked_prefill {
                return Some(HeldBack::Tokens);
            }
            // The whole input must fit, even if this step computes only a part of it.
            let all = self.known(request).div_ceil(self.config.block_size);
            if all - found.len() as u64 + self.pool.idle(&found) > self.pool.free() {
                return Some(HeldBack::Memory);
            }
            self.waiting.pop_first();
            self.pool.share(&found);
            let progress = &mut self.progress[request];
            (progress.kept, progress.computed, progress.found) = (found.len(), position, position);
            progress.blocks = found;
            let tokens = missing.min(*budget);
            let fits = self.extend(request, tokens);
            debug_assert!(fits, "blocks for the whole input are free");
            self.running.push(request);
            plan.scheduled.push(Scheduled { request, position, tokens });
            *budget -= tokens;
        }
    }

    /// Returns cached blocks with the beginning of a request's input. At least its last token is computed.
    fn cached(&self, request: usize) -> Vec<BlockId> {
        if !self.config.enable_prefix_caching {
            return Vec::new();
        }
        let blocks = (self.known(request) - 1) / self.config.block_size;
        self.pool.find((0..blocks).map(|block| self.content(request, block)))
    }

    /// Takes the blocks that a request needs for its next tokens; returns `false`, and takes none, if too few are free.
    fn extend(&mut self, request: usize, tokens: u64) -> bool {
        let (computed, held) =
            (self.progress[request].computed + tokens, self.progress[request].blocks.len() as u64);
        let missing = computed.div_ceil(self.config.block_size).saturating_sub(held);
        if missing > self.pool.free() {
            return false;
        }
        let taken = (0..missing).map_while(|_| self.pool.take());
        self.progress[request].blocks.extend(taken);
        self.keep(request, computed / self.config.block_size);
        true
    }

    /// Gives the first `full` blocks of a request their contents.
    fn keep(&mut self, request: usize, full: u64) {
        if !self.config.enable_prefix_caching {
            return;
        }
        for block in self.progress[request].kept as u64..full {
            let content = self.content(request, block);
            let progress = &mut self.progress[request];
            self.pool.keep(progress.blocks[progress.kept], content);
            progress.kept += 1;
        }
    }

    /// Returns the content of a block of a request.
    fn content(&self, request: usize, block: u64) -> Content {
        let Request { prompt, ref contents, .. } = self.load.requests[request];
        let end = (block + 1) * self.config.block_size;
        let place = (end - 1) / self.load.hash_tokens.max(1);
        let shared = usize::try_from(place).ok().and_then(|place| contents.get(place));
        match shared {
            Some(&content) if end <= prompt => Content::Shared(content, block),
            _ => Content::Own(request, block),
        }
    }

    /// Returns the number of tokens of a request that are known: the prompt and the answer so far.
    fn known(&self, request: usize) -> u64 {
        self.load.requests[request].prompt + self.progress[request].generated
    }

    fn priority(&self, request: usize) -> i32 {
        match self.config.policy {
            Policy::Fcfs => 0,
            Policy::Priority => self.load.requests[request].priority,
        }
    }
}

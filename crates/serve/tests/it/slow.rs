//! Slow scheduler, written from the section "Rules" of docs/serving.md alone, to which the scheduler is held.
//!
//! Nothing is indexed and nothing is remembered that can be searched for: queues are vectors, and a cached block is
//! found by looking at all blocks.

use std::mem;

use cubeyard_serve::service::simulate_watched;
use cubeyard_serve::{Load, Policy, SchedulerConfig, ServiceConfig};
use cubeyard_units::Time;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::properties::{configs, loads};
use crate::{linear, ms};

/// Time of a step without tokens, in milliseconds.
const FIXED_MS: u64 = 3;
/// Time of each token of a step, in milliseconds.
const PER_TOKEN_MS: u64 = 1;
/// Number of steps above which a run is taken to be endless.
const MOST_STEPS: usize = 100_000;

/// One step of a service.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    start: Time,
    /// Requests of the batch, each with the position of its first token and its number of tokens.
    batch: Vec<(usize, u64, u64)>,
    /// Requests preempted in the step, in this order.
    preempted: Vec<usize>,
}

/// Results of a run that both schedulers must agree on.
struct History {
    steps: Vec<Step>,
    /// Time of the last token of each request; `None` for rejected requests.
    ends: Vec<Option<Time>>,
    rejected: Vec<usize>,
}

/// Content of a full block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Identity of the block's last token in the trace, and index of the block.
    Shared(u64, u64),
    /// Request that alone has the content, and index of the block.
    Own(usize, u64),
}

/// Block of the KV cache.
#[derive(Default)]
struct Block {
    users: u64,
    /// Content, if it is cached, and the number of blocks cached before it.
    cached: Option<(u64, Content)>,
}

/// Progress of a request.
#[derive(Clone, Default)]
struct Progress {
    generated: u64,
    computed: u64,
    blocks: Vec<usize>,
}

/// Service whose scheduler follows the rules literally.
struct Slow<'a> {
    load: &'a Load,
    config: SchedulerConfig,
    requests: Vec<Progress>,
    waiting: Vec<usize>,
    running: Vec<usize>,
    blocks: Vec<Block>,
    /// Queue of free blocks, its head first.
    free: Vec<usize>,
    /// Number of blocks cached since the start.
    cachings: u64,
    /// Tokens that the current step may still compute.
    budget: u64,
    batch: Vec<(usize, u64, u64)>,
    preempted: Vec<usize>,
    /// Number of requests that were taken out of a batch.
    withdrawn: usize,
    history: History,
}

impl<'a> Slow<'a> {
    /// Creates a service without requests.
    fn new(load: &'a Load, config: &ServiceConfig) -> Self {
        let blocks: Vec<Block> = (0..config.blocks).map(|_| Block::default()).collect();
        let ends = vec![None; load.requests.len()];
        Self {
            load,
            config: config.scheduler,
            requests: vec![Progress::default(); load.requests.len()],
            waiting: Vec::new(),
            running: Vec::new(),
            free: (0..blocks.len()).collect(),
            blocks,
            cachings: 0,
            budget: 0,
            batch: Vec::new(),
            preempted: Vec::new(),
            withdrawn: 0,
            history: History { steps: Vec::new(), ends, rejected: Vec::new() },
        }
    }

    /// Runs the service until all requests are done or rejected.
    fn run(&mut self) {
        let load = self.load;
        let (mut now, mut next) = (Time::ZERO, 0_usize);
        loop {
            while load.requests.get(next).is_some_and(|request| request.arrival <= now) {
                self.add(next);
                next += 1;
            }
            if self.waiting.is_empty() && self.running.is_empty() {
                let Some(request) = load.requests.get(next) else { return };
                now = request.arrival;
            } else {
                now = self.step(now);
            }
            assert!(self.history.steps.len() < MOST_STEPS, "the rules make no progress");
        }
    }

    /// Adds a request that has arrived, or rejects it.
    fn add(&mut self, id: usize) {
        let stored = self.load.requests[id].prompt + self.load.requests[id].output - 1;
        let is_too_long = stored.div_ceil(self.config.block_size) > self.blocks.len() as u64;
        let is_whole = !self.config.enable_chunked_prefill;
        if is_too_long || (is_whole && stored > self.config.max_num_batched_tokens) {
            self.history.rejected.push(id);
        } else {
            self.enqueue(id);
        }
    }

    /// Puts a request at its place in the queue, which under `fcfs` is the end.
    fn enqueue(&mut self, id: usize) {
        let is_later = |other: &usize| match self.config.policy {
            Policy::Fcfs => false,
            Policy::Priority => self.rank(*other) > self.rank(id),
        };
        let place = self.waiting.iter().position(is_later).unwrap_or(self.waiting.len());
        self.waiting.insert(place, id);
    }

    /// Returns the key that orders requests by priority. Of requests that arrive together, the first of the load is
    /// the earlier one.
    fn rank(&self, id: usize) -> (i32, Time, usize) {
        (self.load.requests[id].priority, self.load.requests[id].arrival, id)
    }

    /// Runs a step, and returns its end.
    fn step(&mut self, start: Time) -> Time {
        self.budget = self.config.max_num_batched_tokens;
        self.continue_running();
        if self.preempted.is_empty() {
            self.admit_waiting();
        }
        let (batch, preempted) = (mem::take(&mut self.batch), mem::take(&mut self.preempted));
        if batch.is_empty() {
            return start;
        }
        let tokens: u64 = batch.iter().map(|(_, _, tokens)| *tokens).sum();
        let end = start + (ms(FIXED_MS) + ms(PER_TOKEN_MS) * tokens);
        for &(id, _, tokens) in &batch {
            self.requests[id].computed += tokens;
            if self.requests[id].computed == self.known(id) {
                self.requests[id].generated += 1;
                if self.requests[id].generated == self.load.requests[id].output {
                    self.running.retain(|it| *it != id);
                    self.release(id);
                    self.history.ends[id] = Some(end);
                }
            }
        }
        self.history.steps.push(Step { start, batch, preempted });
        end
    }

    /// Phase 1: computes running requests.
    fn continue_running(&mut self) {
        let mut at = 0;
        while self.budget > 0 && at < self.running.len() {
            let id = self.running[at];
            let (computed, held) = (self.requests[id].computed, self.requests[id].blocks.len());
            // Tokens that a preemption gives back do not change the number of tokens of this request.
            let tokens = (self.known(id) - computed).min(self.budget);
            let missing = (computed + tokens).div_ceil(self.config.block_size) - held as u64;
            while (self.free.len() as u64) < missing {
                self.preempt(self.victim());
                let Some(place) = self.running.iter().position(|it| *it == id) else { return };
                at = place;
            }
            self.compute(id, tokens);
            at += 1;
        }
    }

    /// Phase 2: admits waiting requests.
    fn admit_waiting(&mut self) {
        while self.budget > 0 && (self.running.len() as u64) < self.config.max_num_seqs {
            let Some(&id) = self.waiting.first() else { return };
            let prefix = self.cached_prefix(id);
            let found = prefix.len() as u64;
            let unused = prefix.iter().filter(|block| self.blocks[**block].users == 0).count();
            let input = self.known(id).div_ceil(self.config.block_size) - found + unused as u64;
            let rest = self.known(id) - found * self.config.block_size;
            let is_in_budget = self.config.enable_chunked_prefill || rest <= self.budget;
            if input > self.free.len() as u64 || !is_in_budget {
                return;
            }
            self.waiting.remove(0);
            self.running.push(id);
            for block in &prefix {
                self.blocks[*block].users += 1;
                self.free.retain(|it| it != block);
            }
            self.requests[id].computed = found * self.config.block_size;
            self.requests[id].blocks = prefix;
            self.compute(id, rest.min(self.budget));
        }
    }

    /// Adds tokens of a request to the batch, takes blocks for them, and caches the blocks that they fill.
    fn compute(&mut self, id: usize, tokens: u64) {
        let position = self.requests[id].computed;
        let (after, size) = (position + tokens, self.config.block_size);
        while (self.requests[id].blocks.len() as u64) < after.div_ceil(size) {
            let block = self.free.remove(0);
            self.blocks[block] = Block { users: 1, cached: None };
            self.requests[id].blocks.push(block);
        }
        for place in 0..after / size {
            let block = self.requests[id].blocks[index(place)];
            if self.blocks[block].cached.is_none() {
                self.blocks[block].cached = Some((self.cachings, self.content(id, place)));
                self.cachings += 1;
            }
        }
        self.batch.push((id, position, tokens));
        self.budget -= tokens;
    }

    /// Returns the running request that is preempted next.
    fn victim(&self) -> usize {
        let last = match self.config.policy {
            Policy::Fcfs => self.running.last(),
            Policy::Priority => self.running.iter().max_by_key(|id| self.rank(**id)),
        };
        *last.unwrap()
    }

    /// Returns a running request to the queue.
    fn preempt(&mut self, id: usize) {
        if let Some(at) = self.batch.iter().position(|it| it.0 == id) {
            let (_, position, tokens) = self.batch.remove(at);
            self.budget += tokens;
            self.withdrawn += 1;
            let size = self.config.block_size;
            for place in position / size..(position + tokens) / size {
                let block = self.requests[id].blocks[index(place)];
                self.blocks[block].cached = None;
            }
        }
        self.release(id);
        self.requests[id].computed = 0;
        self.running.retain(|it| *it != id);
        self.preempted.push(id);
        match self.config.policy {
            Policy::Fcfs => self.waiting.insert(0, id),
            Policy::Priority => self.enqueue(id),
        }
    }

    /// Releases all blocks of a request, the last one first.
    fn release(&mut self, id: usize) {
        while let Some(block) = self.requests[id].blocks.pop() {
            self.blocks[block].users -= 1;
            if self.blocks[block].users == 0 {
                self.free.push(block);
            }
        }
    }

    /// Returns the number of known tokens of a request.
    fn known(&self, id: usize) -> u64 {
        self.load.requests[id].prompt + self.requests[id].generated
    }

    /// Returns the cached blocks from the beginning of a request, without the block of its last known token.
    fn cached_prefix(&self, id: usize) -> Vec<usize> {
        if !self.config.enable_prefix_caching {
            return Vec::new();
        }
        let most = (self.known(id) - 1) / self.config.block_size;
        (0..most).map_while(|place| self.find(self.content(id, place))).collect()
    }

    /// Returns the block that was cached first with this content.
    fn find(&self, content: Content) -> Option<usize> {
        let has = |block: &usize| self.blocks[*block].cached.is_some_and(|(_, it)| it == content);
        let order = |block: &usize| self.blocks[*block].cached.map(|(order, _)| order);
        (0..self.blocks.len()).filter(has).min_by_key(order)
    }

    /// Returns the content of a block of a request.
    fn content(&self, id: usize, place: u64) -> Content {
        let request = &self.load.requests[id];
        let end = (place + 1) * self.config.block_size;
        match request.contents.get(index((end - 1) / self.load.hash_tokens)) {
            Some(identity) if end <= request.prompt => Content::Shared(*identity, place),
            _ => Content::Own(id, place),
        }
    }
}

/// Converts a number to an index.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// Returns the history of the scheduler under test.
fn fast(load: &Load, config: &ServiceConfig) -> History {
    let mut steps = Vec::new();
    let mut times = linear(FIXED_MS, PER_TOKEN_MS);
    let outcome = simulate_watched(load, config, &mut times, &mut |step| {
        let scheduled = step.plan.scheduled.iter();
        let batch = scheduled.map(|it| (it.request, it.position, it.tokens)).collect();
        steps.push(Step { start: step.start, batch, preempted: step.plan.preempted.clone() });
    });
    let outcome = outcome.unwrap();
    let mut ends = vec![None; load.requests.len()];
    for it in &outcome.served {
        ends[it.request] = Some(it.end);
    }
    History { steps, ends, rejected: outcome.rejected }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn batches_are_those_of_the_slow_scheduler(load in loads(), config in configs()) {
        let mut slow = Slow::new(&load, &config);
        slow.run();
        let (fast, slow) = (fast(&load, &config), slow.history);
        let steps = fast.steps.iter().enumerate().zip(slow.steps.iter().enumerate());
        for (fast, slow) in steps {
            prop_assert_eq!(fast, slow);
        }
        prop_assert_eq!(fast.steps.len(), slow.steps.len());
        prop_assert_eq!(fast.ends, slow.ends);
        prop_assert_eq!(fast.rejected, slow.rejected);
    }
}

/// The comparison would prove little if no load came to the rules in question.
#[test]
fn sampled_loads_preempt_share_reject_and_cut_prompts() {
    let mut runner = TestRunner::deterministic();
    let [mut preempted, mut withdrawn, mut found, mut rejected, mut cut] = [0_u32; 5];
    for _ in 0..200 {
        let (load, config) = (loads(), configs()).new_tree(&mut runner).unwrap().current();
        let mut slow = Slow::new(&load, &config);
        slow.run();
        let steps = &slow.history.steps;
        let mut is_first = vec![true; load.requests.len()];
        let (mut is_found, mut is_cut) = (false, false);
        for &(id, position, tokens) in steps.iter().flat_map(|step| &step.batch) {
            is_found |= mem::take(&mut is_first[id]) && position > 0;
            is_cut |= position + tokens < load.requests[id].prompt;
        }
        preempted += u32::from(steps.iter().any(|step| !step.preempted.is_empty()));
        withdrawn += u32::from(slow.withdrawn > 0);
        found += u32::from(is_found);
        rejected += u32::from(!slow.history.rejected.is_empty());
        cut += u32::from(is_cut);
    }
    let cases = [preempted, withdrawn, found, rejected, cut];
    assert!(cases.iter().all(|count| *count > 0), "{cases:?}");
}

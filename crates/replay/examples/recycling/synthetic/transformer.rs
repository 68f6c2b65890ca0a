//! Transformers: training in its variants, and generation.

use std::collections::VecDeque;

use super::{SplitMix64, Writer};
use crate::trace::TraceId;

/// The shape of one transformer, drawn so that its training state fits a device of 80 GB.
#[derive(Clone, Copy)]
struct Model {
    layers: u64,
    hidden: u64,
    feed_forward: u64,
    vocabulary: u64,
    /// Bytes of one parameter and of one activation.
    width: u64,
}

impl Model {
    fn draw(draws: &mut SplitMix64) -> Self {
        let hidden = draws.pick(&[768, 1024, 1280, 1536, 2048]);
        Self {
            layers: draws.between(8, 24),
            hidden,
            feed_forward: hidden * draws.pick(&[8, 11, 12, 16]) / 4,
            vocabulary: draws.pick(&[32_000, 50_257, 65_536]),
            width: draws.pick(&[2, 2, 4]),
        }
    }

    /// Returns the sizes of one layer's weights: attention in and out, feed-forward up and down, two norms.
    fn layer_weights(self) -> [u64; 6] {
        let Self { hidden, feed_forward, width, .. } = self;
        [
            3 * hidden * hidden,
            hidden * hidden,
            hidden * feed_forward,
            hidden * feed_forward,
            hidden,
            hidden,
        ]
        .map(|count| count * width)
    }

    fn embedding(self) -> u64 {
        self.vocabulary * self.hidden * self.width
    }

    fn weights(self) -> Vec<u64> {
        let mut sizes = vec![self.embedding()];
        for _ in 0..self.layers {
            sizes.extend(self.layer_weights());
        }
        sizes
    }

    /// Returns the bytes of one state: a vector of the hidden size for each token.
    fn state(self, tokens: u64) -> u64 {
        tokens * self.hidden * self.width
    }

    /// Returns the bytes of a state inside the feed-forward part.
    fn wide(self, tokens: u64) -> u64 {
        tokens * self.feed_forward * self.width
    }
}

/// Two moments for each weight, made at the first step.
#[derive(Default)]
struct Optimizer {
    moments: Vec<TraceId>,
}

impl Optimizer {
    fn step(&mut self, out: &mut Writer, weights: &[u64]) {
        if self.moments.is_empty() {
            for &size in weights {
                self.moments.push(out.allocate(size, 1));
                self.moments.push(out.allocate(size, 2));
            }
        }
        // Updates go in groups, as the "foreach" kernels do: a temporary for each weight of a group.
        for group in weights.chunks(40) {
            let updates: Vec<_> = group.iter().map(|&size| out.allocate(size, 3)).collect();
            out.free_all(updates);
        }
    }
}

/// The gradients of the weights: made by the first batch, added to by the others.
#[derive(Default)]
struct Gradients {
    kept: Vec<TraceId>,
    accumulate: bool,
}

impl Gradients {
    fn add(&mut self, out: &mut Writer, size: u64, caller: u32) {
        let id = out.allocate(size, caller);
        if self.accumulate { out.free(id) } else { self.kept.push(id) }
    }
}

/// Tensors that one layer saves in its forward pass for its backward pass, newest first.
struct Saved([TraceId; 8]);

impl Saved {
    fn output(&self) -> TraceId {
        self.0[0]
    }
}

fn forward(out: &mut Writer, model: Model, tokens: u64) -> Saved {
    let (state, wide) = (model.state(tokens), model.wide(tokens));
    let first = norm(out, tokens, state);
    let projected = out.allocate(3 * state, 12);
    out.touch(state, 13);
    let attended = out.allocate(state, 14);
    out.touch(tokens * 128, 15);
    let residual = out.allocate(state, 16);
    let second = norm(out, tokens, state);
    let up = out.allocate(wide, 17);
    let activated = out.allocate(wide, 18);
    let down = out.allocate(state, 19);
    let output = out.allocate(state, 20);
    out.free(down);
    Saved([output, activated, up, second, residual, attended, projected, first])
}

fn norm(out: &mut Writer, tokens: u64, state: u64) -> TraceId {
    let squares = out.allocate(2 * state, 10);
    let scale = out.allocate(4 * tokens, 11);
    let normed = out.allocate(state, 21);
    out.free(squares);
    out.free(scale);
    normed
}

/// Computes the gradient of a layer's input from the gradient of its output, `incoming`.
fn backward(
    out: &mut Writer,
    model: Model,
    tokens: u64,
    saved: &Saved,
    incoming: TraceId,
    gradients: &mut Gradients,
) -> TraceId {
    let (state, wide) = (model.state(tokens), model.wide(tokens));
    let sizes = model.layer_weights();
    let mut current = incoming;
    for (size, site, weight) in
        [(wide, 30, 3), (wide, 31, 2), (state, 32, 5), (state, 33, 1), (3 * state, 34, 0)]
    {
        let next = out.allocate(size, site);
        gradients.add(out, sizes[weight], 40);
        out.free(std::mem::replace(&mut current, next));
    }
    let outgoing = out.allocate(state, 35);
    gradients.add(out, sizes[4], 40);
    out.free(current);
    out.free_all(saved.0);
    outgoing
}

/// Writes the loss: logits, their copy in single precision, log-probabilities and the backward pass.
fn loss(out: &mut Writer, model: Model, tokens: u64) -> TraceId {
    let logits = tokens * model.vocabulary * model.width;
    let single = tokens * model.vocabulary * 4;
    let raw = out.allocate(logits, 50);
    let widened = out.allocate(single, 51);
    let log_probabilities = out.allocate(single, 52);
    out.free(widened);
    out.free(raw);
    out.touch(4, 53);
    let gradient = out.allocate(single, 54);
    let scaled = out.allocate(single, 55);
    out.free(gradient);
    out.free(log_probabilities);
    let narrowed = out.allocate(logits, 56);
    out.free(scaled);
    let incoming = out.allocate(model.state(tokens), 57);
    out.free(narrowed);
    incoming
}

/// Forward, loss and backward over all layers with everything saved.
fn batch_step(out: &mut Writer, model: Model, tokens: u64, gradients: &mut Gradients) {
    let embedded = out.allocate(model.state(tokens), 60);
    let saved: Vec<_> = (0..model.layers).map(|_| forward(out, model, tokens)).collect();
    let mut incoming = loss(out, model, tokens);
    for layer in saved.into_iter().rev() {
        incoming = backward(out, model, tokens, &layer, incoming, gradients);
    }
    gradients.add(out, model.embedding(), 41);
    out.free(incoming);
    out.free(embedded);
}

fn load(out: &mut Writer, weights: &[u64], caller: u32) {
    for &size in weights {
        out.allocate(size, caller);
    }
}

/// Training steps, each with gradients of its own that live until the weights are updated.
fn train_steps(
    out: &mut Writer,
    weights: &[u64],
    steps: u64,
    mut step: impl FnMut(&mut Writer, &mut Gradients),
) {
    let mut optimizer = Optimizer::default();
    for _ in 0..steps {
        let mut gradients = Gradients::default();
        step(out, &mut gradients);
        optimizer.step(out, weights);
        out.free_all(gradients.kept);
    }
}

/// Training with a new sequence length at every step.
pub(super) fn train(out: &mut Writer, draws: &mut SplitMix64) {
    let model = Model::draw(draws);
    let weights = model.weights();
    load(out, &weights, 0);
    train_steps(out, &weights, 12, |out, gradients| {
        let tokens = draws.between(1, 8) * draws.between(64, 1024);
        batch_step(out, model, tokens, gradients);
    });
}

/// Training that keeps one state for each layer and computes the rest again on the way back.
pub(super) fn checkpointed(out: &mut Writer, draws: &mut SplitMix64) {
    let model = Model::draw(draws);
    let weights = model.weights();
    load(out, &weights, 0);
    train_steps(out, &weights, 12, |out, gradients| {
        let tokens = draws.between(1, 8) * draws.between(128, 3000);
        let mut inputs = vec![out.allocate(model.state(tokens), 60)];
        for _ in 0..model.layers {
            let layer = forward(out, model, tokens);
            inputs.push(layer.output());
            out.free_all(layer.0.into_iter().skip(1));
        }
        let mut incoming = loss(out, model, tokens);
        out.free_all(inputs.pop());
        for input in inputs.into_iter().rev() {
            let again = forward(out, model, tokens);
            incoming = backward(out, model, tokens, &again, incoming, gradients);
            out.free(input);
        }
        gradients.add(out, model.embedding(), 41);
        out.free(incoming);
    });
}

/// Several small batches for each update; the gradients stay and are added to.
pub(super) fn gradient_accumulation(out: &mut Writer, draws: &mut SplitMix64) {
    let model = Model::draw(draws);
    let weights = model.weights();
    load(out, &weights, 0);
    let batches = draws.between(2, 6);
    train_steps(out, &weights, 5, |out, gradients| {
        for batch in 0..batches {
            gradients.accumulate = batch > 0;
            batch_step(out, model, draws.between(256, 4096), gradients);
        }
    });
}

/// One stage of a pipeline: some batches in flight, one forward and one backward in turn.
pub(super) fn pipeline(out: &mut Writer, draws: &mut SplitMix64) {
    let model = Model { layers: draws.between(4, 8), ..Model::draw(draws) };
    let weights = model.weights();
    load(out, &weights, 0);
    let (depth, batches) = (draws.between(2, 5), draws.between(8, 16));
    train_steps(out, &weights, 6, |out, gradients| {
        let mut in_flight = VecDeque::new();
        for turn in 0..batches + depth {
            if turn < batches {
                let tokens = draws.between(2, 8) * 256;
                let received = out.on_stream(1, |out| out.allocate(model.state(tokens), 70));
                let saved: Vec<_> =
                    (0..model.layers).map(|_| forward(out, model, tokens)).collect();
                in_flight.push_back((tokens, received, saved));
            }
            if turn >= depth {
                let (tokens, received, saved) =
                    in_flight.pop_front().expect("one entered for each that leaves");
                let mut incoming = out.on_stream(1, |out| out.allocate(model.state(tokens), 71));
                for layer in saved.into_iter().rev() {
                    incoming = backward(out, model, tokens, &layer, incoming, gradients);
                }
                gradients.accumulate = true;
                out.free(incoming);
                out.free(received);
            }
        }
    });
}

/// Training where every layer sends its tokens to experts, some of which get many.
pub(super) fn mixture_of_experts(out: &mut Writer, draws: &mut SplitMix64) {
    let model = Model {
        layers: draws.between(4, 10),
        hidden: 1024,
        feed_forward: 2816,
        ..Model::draw(draws)
    };
    let experts = draws.pick(&[4, 8, 16]);
    let expert = model.hidden * model.feed_forward * model.width;
    let mut weights = model.weights();
    weights.extend((0..model.layers * experts * 3).map(|_| expert));
    load(out, &weights, 0);
    train_steps(out, &weights, 6, |out, gradients| {
        let tokens = draws.between(8, 32) * 128;
        let mut layers = Vec::new();
        for _ in 0..model.layers {
            let dense = forward(out, model, tokens);
            layers.push((dense, route(out, draws, model, tokens, experts)));
        }
        let mut incoming = loss(out, model, tokens);
        for (dense, routed) in layers.into_iter().rev() {
            for (load, kept) in routed.into_iter().rev() {
                let wide = out.allocate(model.wide(load), 85);
                for _ in 0..3 {
                    gradients.add(out, expert, 86);
                }
                out.touch(model.state(load), 87);
                out.free(wide);
                out.free_all(kept);
            }
            incoming = backward(out, model, tokens, &dense, incoming, gradients);
        }
        gradients.add(out, model.embedding(), 41);
        out.free(incoming);
    });
}

/// Sends each token to two of the experts; returns the tokens of each expert and its saved tensors.
fn route(
    out: &mut Writer,
    draws: &mut SplitMix64,
    model: Model,
    tokens: u64,
    experts: u64,
) -> Vec<(u64, [TraceId; 3])> {
    let sent = out.allocate(2 * model.state(tokens), 80);
    let mut left = 2 * tokens;
    let mut routed = Vec::new();
    for expert in 0..experts {
        let load = if expert + 1 == experts { left } else { left * draws.between(1, 60) / 100 };
        left -= load;
        let load = load.max(1);
        let gathered = out.allocate(model.state(load), 81);
        let up = out.allocate(model.wide(load), 82);
        let gate = out.allocate(model.wide(load), 83);
        out.touch(model.state(load), 84);
        routed.push((load, [gathered, up, gate]));
    }
    out.free(sent);
    routed
}

/// Adapters trained on a frozen model, with evaluation on larger batches now and then.
pub(super) fn finetune_with_eval(out: &mut Writer, draws: &mut SplitMix64) {
    let model = Model::draw(draws);
    load(out, &model.weights(), 0);
    let adapters: Vec<_> = (0..4 * model.layers).map(|_| 16 * model.hidden * 4).collect();
    load(out, &adapters, 5);
    let mut step = 0;
    train_steps(out, &adapters, 15, |out, gradients| {
        let tokens = draws.between(2, 6) * draws.between(100, 700);
        batch_step(out, model, tokens, &mut Gradients { accumulate: true, ..Gradients::default() });
        for &size in &adapters {
            gradients.add(out, size, 42);
        }
        step += 1;
        if step % 5 == 0 {
            evaluate(out, draws, model);
        }
    });
}

fn evaluate(out: &mut Writer, draws: &mut SplitMix64, model: Model) {
    let mut scores = Vec::new();
    for _ in 0..4 {
        let tokens = draws.between(8, 16) * draws.between(100, 900);
        for _ in 0..model.layers {
            let layer = forward(out, model, tokens);
            out.free_all(layer.0);
        }
        let logits = out.allocate(tokens * model.vocabulary * model.width, 90);
        scores.push(out.allocate(tokens * 8, 91));
        out.free(logits);
    }
    out.free_all(scores);
}

/// Reinforcement learning: sequences grow token by token, then the same weights train on them.
pub(super) fn generate_then_train(out: &mut Writer, draws: &mut SplitMix64) {
    let model = Model { layers: draws.between(6, 12), ..Model::draw(draws) };
    let weights = model.weights();
    load(out, &weights, 0);
    load(out, &weights, 6);
    let (mut batch, mut length, mut rollouts) = (0, 0, Vec::new());
    let mut step = 0;
    train_steps(out, &weights, 12, |out, gradients| {
        if step % 3 == 0 {
            out.free_all(rollouts.drain(..));
            batch = draws.between(8, 32);
            length = draws.between(32, 512);
            length = generate(out, model, batch, length, draws.between(40, 160));
            rollouts.extend((0..4).map(|_| out.allocate(batch * length * 8, 100)));
        }
        step += 1;
        batch_step(out, model, batch * length / 4, gradients);
    });
}

/// Writes a generation with keys and values that grow by concatenation; returns the final length.
fn generate(out: &mut Writer, model: Model, batch: u64, prompt: u64, steps: u64) -> u64 {
    let mut cache: Vec<_> =
        (0..2 * model.layers).map(|_| out.allocate(model.state(batch * prompt), 101)).collect();
    for length in prompt + 1..=prompt + steps {
        for pair in cache.chunks_mut(2) {
            out.touch(model.state(batch), 102);
            for kept in pair {
                let longer = out.allocate(model.state(batch * length), 103);
                out.free(std::mem::replace(kept, longer));
            }
            out.touch(model.wide(batch), 104);
        }
        let logits = out.allocate(batch * model.vocabulary * 4, 105);
        out.touch(batch * model.vocabulary * 4, 106);
        out.free(logits);
    }
    out.free_all(cache);
    prompt + steps
}

//! Convolutional networks: image generation, and training fed by a loader.

use std::collections::VecDeque;

use super::{SplitMix64, Writer};
use crate::trace::TraceId;

/// A U-shaped denoiser that runs many times for each picture, then a decoder that needs far more memory.
pub(super) fn diffusion(out: &mut Writer, draws: &mut SplitMix64) {
    let base = draws.pick(&[192, 256, 320]);
    let levels = draws.between(3, 4);
    for level in 0..levels {
        let channels = base << level.min(2);
        for _ in 0..12 {
            out.allocate(channels * channels * 18, 0);
        }
    }
    for _ in 0..24 {
        out.allocate(768 * 768 * 8, 1);
    }
    for _ in 0..draws.between(5, 9) {
        let batch = draws.between(1, 4);
        let pixels = draws.between(48, 128) * draws.between(48, 128);
        let prompt = out.allocate(batch * 77 * 768 * 2, 2);
        for _ in 0..24 {
            out.touch(batch * 77 * 3072 * 2, 3);
        }
        let latent = out.allocate(batch * pixels * 8, 4);
        for _ in 0..draws.between(10, 25) {
            denoise(out, base, levels, 2 * batch * pixels);
        }
        decode(out, batch * pixels);
        out.free(latent);
        out.free(prompt);
    }
}

fn denoise(out: &mut Writer, base: u64, levels: u64, pixels: u64) {
    let map = |level: u64| (pixels >> (2 * level)).max(1) * (base << level.min(2)) * 2;
    let mut skipped = Vec::new();
    let mut current = out.allocate(map(0), 10);
    for level in 0..levels {
        for _ in 0..2 {
            current = block(out, map(level), current, 11);
            skipped.push(out.allocate(map(level), 12));
        }
    }
    for level in (0..levels).rev() {
        for _ in 0..2 {
            let joined = out.allocate(2 * map(level), 13);
            out.free_all(skipped.pop());
            out.free(current);
            current = block(out, map(level), joined, 14);
        }
    }
    out.free(current);
}

/// Writes norm, convolution and attention of a block; `input` is freed.
fn block(out: &mut Writer, size: u64, input: TraceId, caller: u32) -> TraceId {
    let normed = out.allocate(size, caller + 10);
    let workspace = out.allocate(size * 9 / 4, caller + 20);
    let output = out.allocate(size, caller + 30);
    out.free(workspace);
    out.free(normed);
    out.touch(3 * size, caller + 40);
    out.free(input);
    output
}

fn decode(out: &mut Writer, pixels: u64) {
    let mut current = out.allocate(pixels * 512 * 2, 60);
    for step in 1..=3 {
        let larger = (pixels << (2 * step)) * (512 >> step) * 2;
        let upsampled = out.allocate(larger, 61);
        out.free(current);
        current = block(out, larger, upsampled, 62);
    }
    out.touch((pixels << 6) * 3 * 4, 63);
    out.free(current);
}

/// Channels and number of blocks of each stage.
const STAGES: [(u64, u64); 4] = [(64, 3), (128, 4), (256, 6), (512, 3)];

/// Image training with batches uploaded ahead on a stream of their own, and a short last batch.
pub(super) fn train_with_prefetch(out: &mut Writer, draws: &mut SplitMix64) {
    let weights: Vec<u64> = STAGES
        .iter()
        .flat_map(|&(channels, blocks)| (0..3 * blocks).map(move |_| channels * channels * 36))
        .collect();
    for &size in &weights {
        out.allocate(size, 0);
        out.allocate(size / 576, 1);
    }
    let ahead = draws.pick(&[2, 3, 4]);
    let side = draws.between(5, 8) * 32;
    let mut uploads = VecDeque::new();
    for step in 0..16 {
        while uploads.len() < ahead {
            let batch =
                if step % 8 == 7 { draws.between(5, 30) } else { draws.pick(&[32, 48, 64]) };
            let id = out.on_stream(1, |out| out.allocate(batch * side * side * 3, 2));
            uploads.push_back((batch, id));
        }
        let (batch, upload) = uploads.pop_front().expect("filled above");
        let input = out.allocate(batch * side * side * 12, 3);
        out.free(upload);
        let saved = way_forth(out, draws, batch * side * side / 16, input);
        let gradients = way_back(out, saved, &weights);
        if step == 0 {
            for &size in &weights {
                out.allocate(size, 9);
            }
        }
        out.free_all(gradients);
    }
}

fn way_forth(
    out: &mut Writer,
    draws: &mut SplitMix64,
    mut area: u64,
    input: TraceId,
) -> Vec<(u64, TraceId)> {
    let mut saved = vec![(512, input)];
    for &(channels, blocks) in &STAGES {
        for _ in 0..blocks {
            let map = area * channels * 4;
            out.touch(draws.pick(&[8 << 20, 32 << 20, 64 << 20]), 4);
            saved.extend([5, 6, 7].map(|site| (map, out.allocate(map, site))));
            saved.push((4 * map, out.allocate(4 * map, 8)));
        }
        area /= 4;
    }
    saved
}

fn way_back(out: &mut Writer, saved: Vec<(u64, TraceId)>, weights: &[u64]) -> Vec<TraceId> {
    let mut gradients = Vec::new();
    let mut incoming = out.allocate(4096, 20);
    let mut left = weights.iter().rev();
    for (size, kept) in saved.into_iter().rev() {
        let outgoing = out.allocate(size, 21);
        out.touch(16 << 20, 22);
        gradients.extend(left.next().map(|&weight| out.allocate(weight, 23)));
        out.free(kept);
        out.free(std::mem::replace(&mut incoming, outgoing));
    }
    out.free(incoming);
    gradients
}

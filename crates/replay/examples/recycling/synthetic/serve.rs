//! Inference servers: many requests of different lengths, each with keys and values that grow.

use super::{SplitMix64, Writer};
use crate::trace::TraceId;

struct Request {
    length: u64,
    end: u64,
    cache: Vec<TraceId>,
}

/// Each request's keys and values are one tensor for each layer, copied to a longer one as it grows.
pub(super) fn growing_by_concatenation(out: &mut Writer, draws: &mut SplitMix64) {
    let layers = draws.between(4, 12);
    let entry = draws.pick(&[2048, 4096, 8192]);
    let chunk = draws.pick(&[1, 16, 64]);
    for _ in 0..draws.between(20, 80) {
        out.allocate(entry * draws.pick(&[2048, 5632]), 0);
    }
    let most = draws.between(16, 64);
    let mut requests: Vec<Request> = Vec::new();
    for _ in 0..draws.between(150, 250) {
        if (requests.len() as u64) < most && draws.chance(70) {
            let length = draws.doubling(16, 1500);
            out.touch(length * entry * 4, 1);
            let cache = (0..layers).map(|_| out.allocate(length * entry, 2)).collect();
            requests.push(Request { length, end: length + draws.doubling(8, 128) * chunk, cache });
        }
        for request in &mut requests {
            request.length += chunk;
            for kept in &mut request.cache {
                let longer = out.allocate(request.length * entry, 3);
                out.free(std::mem::replace(kept, longer));
            }
        }
        out.touch((requests.len() as u64 + 1) * 128_000, 4);
        retire(out, &mut requests);
    }
}

/// Each request takes blocks of sixteen tokens; prefills need scratch of odd sizes.
pub(super) fn growing_by_blocks(out: &mut Writer, draws: &mut SplitMix64) {
    let block = draws.pick(&[64, 128, 512]) << 10;
    for _ in 0..draws.between(40, 120) {
        out.allocate(draws.pick(&[8, 22, 44]) << 20, 0);
    }
    let most = draws.between(32, 128);
    let mut requests: Vec<Request> = Vec::new();
    for _ in 0..draws.between(300, 600) {
        if (requests.len() as u64) < most && draws.chance(70) {
            let length = draws.doubling(16, 1000);
            prefill(out, length);
            let cache = (0..length.div_ceil(16)).map(|_| out.allocate(block, 2)).collect();
            requests.push(Request { length, end: length + draws.doubling(16, 1024), cache });
        }
        let batch = requests.len() as u64 + 1;
        let hidden = out.allocate(batch * 8192, 5);
        out.touch(batch * 128_000, 4);
        for request in &mut requests {
            request.length += 4;
            if request.length / 16 >= request.cache.len() as u64 {
                request.cache.push(out.allocate(block, 3));
            }
        }
        out.free(hidden);
        retire(out, &mut requests);
    }
}

fn prefill(out: &mut Writer, length: u64) {
    let state = out.allocate(length * 8192, 10);
    for _ in 0..4 {
        let projected = out.allocate(length * 24_576, 11);
        out.touch(length * 22_528, 12);
        out.free(projected);
    }
    out.touch(length * 64_000, 13);
    out.free(state);
}

fn retire(out: &mut Writer, requests: &mut Vec<Request>) {
    let mut index = 0;
    while index < requests.len() {
        if requests[index].length >= requests[index].end {
            let done = requests.swap_remove(index);
            out.free_all(done.cache);
        } else {
            index += 1;
        }
    }
}

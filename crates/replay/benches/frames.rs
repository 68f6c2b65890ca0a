//! Benchmark on a snapshot of a million events with call stacks: reading it, finding the holders, and all policies.
//!
//! `cargo bench -p cubeyard-replay --bench frames` prints the processor time of each step and the highest memory of the
//! process. The snapshot is made up: a training loop whose blocks come from 2,000 call stacks of 12 frames.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::similar_names,
    reason = "a bench reads the clock and prints; numbers are cut to size on purpose; a size has a site"
)]

use std::collections::BTreeMap;
use std::fs;

use cubeyard_replay::trace;
use cubeyard_replay::{Grouping, POLICIES, Report};
use cubeyard_units::Bytes;

const EVENTS: u64 = 1_000_000;
const STACKS: u64 = 2000;
const DEPTH: u64 = 12;
/// Number of live blocks.
const SLOTS: usize = 3000;

fn main() {
    let bytes = snapshot();
    println!("snapshot of {EVENTS} events: {}", Bytes::new(bytes.len() as u64));
    let begin = seconds();
    let traces = trace::read("synthetic", &bytes, Bytes::gib(1)).expect("a snapshot");
    println!("read                  {:6.2} s", seconds() - begin);
    let trace = &traces[0];
    assert_eq!(trace.events.len() as u64, EVENTS);
    let mut report = timed("holders", || Report::new(trace));
    let peak = report.peak.as_ref().expect("something is live");
    let holders = timed("by stack", || peak.holders(Grouping::Stack, false));
    assert!(holders.len() as u64 > STACKS / 2, "{}", holders.len());
    for policy in POLICIES {
        let row = timed(policy.name, || policy.replay(trace, &mut nanoseconds, &mut |_| {}));
        report.rows.push(row);
    }
    timed("least memory", || report.find_least(trace));
    println!("in all                {:6.2} s, at most {}", seconds() - begin, highest_memory());
}

fn timed<T>(name: &str, act: impl FnOnce() -> T) -> T {
    let begin = seconds();
    let done = act();
    println!("{name:<20}  {:6.2} s", seconds() - begin);
    done
}

/// Returns the processor time of this thread in nanoseconds, as Linux counts it.
fn nanoseconds() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("this bench runs on Linux");
    text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number of nanoseconds")
}

fn seconds() -> f64 {
    nanoseconds() as f64 / 1e9
}

fn highest_memory() -> Bytes {
    let status = fs::read_to_string("/proc/self/status").expect("this bench runs on Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    let kib = line.trim().trim_end_matches(" kB").parse().expect("a number");
    Bytes::kib(kib)
}

/// A pickle under construction. Equal texts, frames and stacks are shared, as in PyTorch's snapshots.
#[derive(Default)]
struct Pickle {
    out: Vec<u8>,
    memo: BTreeMap<String, u32>,
}

impl Pickle {
    /// Writes the memo number of a value that was written before; writes other values by `write`.
    fn shared(&mut self, key: &str, write: impl FnOnce(&mut Self)) {
        if let Some(number) = self.memo.get(key) {
            self.out.push(b'j');
            self.out.extend(number.to_le_bytes());
            return;
        }
        write(self);
        let number = self.memo.len() as u32;
        self.memo.insert(key.to_owned(), number);
        self.out.push(b'r');
        self.out.extend(number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.shared(&format!("text {text}"), |this| {
            this.out.extend([0x8c, text.len() as u8]);
            this.out.extend(text.as_bytes());
        });
    }

    fn integer(&mut self, value: u64) {
        self.out.extend([0x8a, 8]);
        self.out.extend(value.to_le_bytes());
    }

    fn dict(&mut self, write: impl FnOnce(&mut Self)) {
        self.out.extend(b"}(");
        write(self);
        self.out.push(b'u');
    }

    fn list(&mut self, write: impl FnOnce(&mut Self)) {
        self.out.extend(b"](");
        write(self);
        self.out.push(b'e');
    }

    fn stack(&mut self, site: u64) {
        self.shared(&format!("stack {site}"), |this| {
            this.list(|this| (0..DEPTH).for_each(|depth| this.frame(site, depth)));
        });
    }

    /// Writes a frame. The outer half of the frames is common to many stacks.
    fn frame(&mut self, site: u64, depth: u64) {
        let line = if depth < DEPTH / 2 { site * DEPTH + depth } else { site % 50 * DEPTH + depth };
        self.shared(&format!("frame {line}"), |this| {
            let folder = if depth < 3 { "site-packages/torch/nn" } else { "model" };
            this.dict(|this| {
                this.text("name");
                this.text(&format!("function{depth}"));
                this.text("filename");
                this.text(&format!("{folder}/file{}.py", line % 40));
                this.text("line");
                this.integer(line);
            });
        });
    }

    fn entry(&mut self, action: &str, slot: usize, size: u64, event: u64, site: u64) {
        self.dict(|this| {
            this.text("action");
            this.text(action);
            this.text("frames");
            this.stack(site);
            for (key, value) in [
                ("addr", (slot as u64 + 1) << 32),
                ("size", size),
                ("stream", 0),
                ("time_us", event),
            ] {
                this.text(key);
                this.integer(value);
            }
        });
    }
}

/// Returns a snapshot in which blocks of many sizes replace each other at random.
fn snapshot() -> Vec<u8> {
    let mut pickle = Pickle { out: vec![0x80, 4], ..Pickle::default() };
    pickle.dict(|this| {
        this.text("segments");
        this.list(|_| {});
        this.text("device_traces");
        this.list(|this| this.list(history));
    });
    pickle.out.push(b'.');
    pickle.out
}

fn history(pickle: &mut Pickle) {
    let (mut random, mut live) = (1_u64, vec![None; SLOTS]);
    for event in 0..EVENTS {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (slot, site) = ((random >> 33) as usize % SLOTS, (random >> 17) % STACKS);
        if let Some((size, site)) = live[slot].take() {
            pickle.entry("free_completed", slot, size, event, site);
        } else {
            let size = 512 << ((random >> 50) % 15);
            pickle.entry("alloc", slot, size, event, site);
            live[slot] = Some((size, site));
        }
    }
}

//! A slow reference of a PE that follows the rules of `docs/machine-rules.md` literally, without code of the machine.
//!
//! The durations of accesses are given. All other times are derived repeatedly until nothing new is found.

use std::collections::BTreeMap;

use super::program::{Compute, Part, Spec, Step, Task};

/// Start and end of the parts of a command; for computations also the end of the fetch.
#[derive(Clone, Debug, Default)]
struct Parts {
    begun: BTreeMap<usize, u64>,
    ended: BTreeMap<usize, u64>,
    fetched: BTreeMap<usize, u64>,
}

/// A queue of parts that are served in order: loads, computations and stores, and computations of a second engine.
#[derive(Clone, Copy, Debug)]
enum Queue {
    Load,
    Compute,
    Store,
    /// Computations of MATH, if it has an engine of its own.
    Math,
}

#[derive(Clone, Debug, Default)]
struct Known {
    issued: Option<u64>,
    /// Parts of the command: loads, computations and stores.
    parts: [Parts; 3],
}

/// State of the reference PE.
pub(crate) struct Reference<'a> {
    spec: Spec,
    steps: &'a [Step],
    /// Returns the duration of a part of a command that is an access.
    takes: &'a dyn Fn(usize, Part) -> u64,
    known: Vec<Known>,
    /// Times at which the stages of the compute engines are free. The second engine is used if MATH is separate.
    stages: [[u64; 3]; 2],
    /// Number of steps that `PE_CPU` has taken, and the earliest time of the next step.
    cpu: (usize, u64),
}

/// Returns the end of a program that starts at 0.
pub(crate) fn time(spec: Spec, steps: &[Step], takes: &dyn Fn(usize, Part) -> u64) -> u64 {
    let known = tasks(steps).map(|_| Known::default()).collect();
    let mut pe = Reference { spec, steps, takes, known, stages: [[0; 3]; 2], cpu: (0, 0) };
    while pe.learn() {}
    assert_eq!(pe.cpu.0, steps.len(), "every program ends");
    let ends = (0..pe.known.len()).map(|id| pe.end(id).expect("every command ends"));
    ends.chain([pe.cpu.1]).max().unwrap_or_default()
}

fn tasks(steps: &[Step]) -> impl Iterator<Item = &Task> {
    steps.iter().filter_map(|step| match step {
        Step::Task(task) => Some(task),
        _ => None,
    })
}

impl Reference<'_> {
    /// Derives new times from known ones; returns whether there were any.
    fn learn(&mut self) -> bool {
        let stepped = self.step();
        let queues = [Queue::Load, Queue::Compute, Queue::Store, Queue::Math];
        let parts = queues.map(|queue| self.part(queue));
        stepped || parts.contains(&true)
    }

    fn task(&self, id: usize) -> &Task {
        tasks(self.steps).nth(id).expect("a command")
    }

    /// Returns the end of a command, if it is known.
    fn end(&self, id: usize) -> Option<u64> {
        let known = &self.known[id];
        let counts = self.task(id).counts();
        let all = known.parts.iter().zip(counts).all(|(parts, count)| parts.ended.len() == count);
        let ends = known.parts.iter().flat_map(|parts| parts.ended.values()).copied();
        known.issued.filter(|_| all).map(|issued| ends.chain([issued]).max().unwrap())
    }

    /// Performs the next step of `PE_CPU`, if possible.
    fn step(&mut self) -> bool {
        let (index, time) = self.cpu;
        let Some(step) = self.steps.get(index) else { return false };
        let later = match step {
            Step::Calls(count) => Some(time + self.spec.dispatch * u64::from(*count)),
            Step::Wait(id) => self.end(*id).map(|end| end.max(time + self.spec.dispatch)),
            Step::Fence => {
                let issued = tasks(&self.steps[..index]).count();
                let ends: Option<Vec<_>> = (0..issued).map(|id| self.end(id)).collect();
                ends.map(|ends| ends.into_iter().fold(time + self.spec.dispatch, u64::max))
            }
            Step::Task(_) => self.issue(tasks(&self.steps[..index]).count(), time),
        };
        let Some(later) = later else { return false };
        self.cpu = (index + 1, later);
        true
    }

    /// Dispatches a command once it has a place in the window.
    fn issue(&mut self, id: usize, time: u64) -> Option<u64> {
        let before = match id.checked_sub(self.spec.window) {
            Some(before) => self.end(before)?,
            None => 0,
        };
        let dispatched = before.max(time + self.spec.dispatch);
        self.known[id].issued = Some(dispatched + self.spec.overhead);
        Some(dispatched)
    }

    /// Starts the next part of a queue, if its start is known.
    fn part(&mut self, queue: Queue) -> bool {
        let next = (0..self.known.len()).find_map(|id| Some((id, self.next(id, queue)?)));
        let Some((id, index)) = next else { return false };
        let kind = kind(queue);
        let Some(ready) = self.ready(id, kind, index) else { return false };
        if kind == 1 {
            self.compute(id, index, ready);
        } else {
            self.access(id, kind, index, ready);
        }
        true
    }

    /// Returns the first part of a command in a queue that has not started.
    fn next(&self, id: usize, queue: Queue) -> Option<usize> {
        let (task, kind) = (self.task(id), kind(queue));
        let is_its = |index: usize| match queue {
            Queue::Load | Queue::Store => true,
            Queue::Compute => self.engine(task.compute(index)) == 0,
            Queue::Math => self.engine(task.compute(index)) == 1,
        };
        let begun = &self.known[id].parts[kind].begun;
        (0..task.counts()[kind]).find(|index| is_its(*index) && !begun.contains_key(index))
    }

    /// Returns the engine of a computation.
    fn engine(&self, compute: Compute) -> usize {
        usize::from(self.spec.separate && compute.math)
    }

    /// Returns whether a command has computations in both engines.
    fn is_mixed(&self, id: usize) -> bool {
        let task = self.task(id);
        let engines = || (0..task.counts()[1]).map(|index| self.engine(task.compute(index)));
        engines().any(|engine| engine == 0) && engines().any(|engine| engine == 1)
    }

    /// Returns the time at which the predecessors of a part are done.
    fn ready(&self, id: usize, kind: usize, index: usize) -> Option<u64> {
        let task = self.task(id);
        let parts = &self.known[id].parts;
        let first = |times: &BTreeMap<usize, u64>, count: usize| {
            (0..count).try_fold(0, |latest, index| Some(latest.max(*times.get(&index)?)))
        };
        let own = match kind {
            0 => first(&parts[1].fetched, task.load_after(index))?,
            1 => {
                let [loads, stores] = task.compute_after(index);
                let others = if self.is_mixed(id) { task.compute_after_other(index) } else { 0 };
                let [loads, stores] =
                    [first(&parts[0].ended, loads)?, first(&parts[2].ended, stores)?];
                loads.max(stores).max(first(&parts[1].ended, others)?)
            }
            _ => first(&parts[1].ended, task.store_after(index))?,
        };
        let more: &[usize] = if kind == 0 { &[] } else { &task.computes_after };
        let mut ready = self.known[id].issued?.max(own);
        for &before in task.after.iter().chain(more) {
            ready = ready.max(self.end(before)?);
        }
        Some(ready)
    }

    /// Adds an access, which occupies an engine from its start to its end. Accesses start in order.
    fn access(&mut self, id: usize, kind: usize, index: usize, ready: u64) {
        let earlier = || self.known.iter().map(|known| &known.parts[kind]);
        let last = earlier().flat_map(|parts| parts.begun.values()).copied().max().unwrap_or(0);
        let mut ends: Vec<_> = earlier().flat_map(|parts| parts.ended.values()).copied().collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        // Of the accesses so far, fewer than there are engines may be under way.
        let free = ends.get(self.spec.engines[kind / 2] - 1).copied().unwrap_or(0);
        let begin = ready.max(last).max(free);
        let part = if kind == 0 { Part::Load(index) } else { Part::Store(index) };
        let end = begin + (self.takes)(id, part);
        let parts = &mut self.known[id].parts[kind];
        parts.begun.insert(index, begin);
        parts.ended.insert(index, end);
    }

    /// Adds a computation. Each strip passes three stages, and a stage holds one strip at a time.
    fn compute(&mut self, id: usize, index: usize, ready: u64) {
        let compute @ Compute { count, each, .. } = self.task(id).compute(index);
        let engine = self.engine(compute);
        let mut fetched = ready;
        let mut end = ready;
        for _ in 0..count {
            let mut at = ready;
            for (stage, (free, takes)) in self.stages[engine].iter_mut().zip(each).enumerate() {
                at = at.max(*free) + takes;
                *free = at;
                if stage == 0 {
                    fetched = at;
                }
            }
            end = at;
        }
        let parts = &mut self.known[id].parts[1];
        parts.begun.insert(index, ready);
        parts.fetched.insert(index, fetched);
        parts.ended.insert(index, end);
    }
}

/// Returns the kind of the parts of a queue: 0 for loads, 1 for computations, 2 for stores.
fn kind(queue: Queue) -> usize {
    match queue {
        Queue::Load => 0,
        Queue::Compute | Queue::Math => 1,
        Queue::Store => 2,
    }
}

//! A PE by the rules of `docs/machine-rules.md`, word by word: slow, and without any of the machine's code.
//!
//! What an access takes is given. Everything else is worked out over and over until nothing new becomes
//! known.

use super::program::{Compute, Part, Spec, Step, Task};

/// When the parts of a command began and ended; those of computations when they had fetched, too.
#[derive(Clone, Debug, Default)]
struct Parts {
    begun: Vec<u64>,
    ended: Vec<u64>,
    fetched: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    issued: Option<u64>,
    /// Loads, computations, stores.
    parts: [Parts; 3],
}

/// A PE.
pub(crate) struct Reference<'a> {
    spec: Spec,
    steps: &'a [Step],
    /// What a part of a command takes, if it is an access.
    takes: &'a dyn Fn(usize, Part) -> u64,
    known: Vec<Known>,
    /// When the stages of the compute engine are free.
    stages: [u64; 3],
    /// How many steps `PE_CPU` has taken, and when it can take the next.
    cpu: (usize, u64),
}

/// When a program ends that starts at 0.
pub(crate) fn time(spec: Spec, steps: &[Step], takes: &dyn Fn(usize, Part) -> u64) -> u64 {
    let known = tasks(steps).map(|_| Known::default()).collect();
    let mut pe = Reference { spec, steps, takes, known, stages: [0; 3], cpu: (0, 0) };
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
    /// Works out what follows from what is known: whether that is anything new.
    fn learn(&mut self) -> bool {
        let stepped = self.step();
        let parts = [0, 1, 2].map(|kind| self.part(kind));
        stepped || parts.contains(&true)
    }

    fn task(&self, id: usize) -> &Task {
        tasks(self.steps).nth(id).expect("a command")
    }

    /// When a command is done.
    fn end(&self, id: usize) -> Option<u64> {
        let known = &self.known[id];
        let counts = self.task(id).counts();
        let all = known.parts.iter().zip(counts).all(|(parts, count)| parts.ended.len() == count);
        let ends = known.parts.iter().flat_map(|parts| &parts.ended).copied();
        known.issued.filter(|_| all).map(|issued| ends.chain([issued]).max().unwrap())
    }

    /// `PE_CPU` takes its next step, if it can.
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

    /// A command is dispatched when it has its place in the window.
    fn issue(&mut self, id: usize, time: u64) -> Option<u64> {
        let before = match id.checked_sub(self.spec.window) {
            Some(before) => self.end(before)?,
            None => 0,
        };
        let dispatched = before.max(time + self.spec.dispatch);
        self.known[id].issued = Some(dispatched + self.spec.overhead);
        Some(dispatched)
    }

    /// The next part of an engine begins, if it is known when.
    fn part(&mut self, kind: usize) -> bool {
        let next = (0..self.known.len())
            .find(|&id| self.known[id].parts[kind].begun.len() < self.task(id).counts()[kind]);
        let Some(id) = next else { return false };
        let index = self.known[id].parts[kind].begun.len();
        let Some(ready) = self.ready(id, kind, index) else { return false };
        if kind == 1 {
            self.compute(id, index, ready);
        } else {
            self.access(id, kind, index, ready);
        }
        true
    }

    /// When what a part waits for is done.
    fn ready(&self, id: usize, kind: usize, index: usize) -> Option<u64> {
        let task = self.task(id);
        let parts = &self.known[id].parts;
        let first = |times: &Vec<u64>, count: usize| {
            times.get(..count).map(|times| times.iter().copied().max().unwrap_or(0))
        };
        let [own, also] = match kind {
            0 => [first(&parts[1].fetched, task.load_after(index))?, 0],
            1 => {
                let [loads, stores] = task.compute_after(index);
                [first(&parts[0].ended, loads)?, first(&parts[2].ended, stores)?]
            }
            _ => [first(&parts[1].ended, task.store_after(index))?, 0],
        };
        let after = if kind == 0 { task.loads_after() } else { &task.after };
        let mut ready = self.known[id].issued?.max(own).max(also);
        for &before in after {
            ready = ready.max(self.end(before)?);
        }
        Some(ready)
    }

    /// An engine is held from the beginning of an access to its end; accesses begin in order.
    fn access(&mut self, id: usize, kind: usize, index: usize, ready: u64) {
        let earlier = || self.known.iter().map(|known| &known.parts[kind]);
        let last = earlier().flat_map(|parts| &parts.begun).copied().max().unwrap_or(0);
        let mut ends: Vec<_> = earlier().flat_map(|parts| &parts.ended).copied().collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        // Of the accesses so far, fewer than there are engines may be under way.
        let free = ends.get(self.spec.engines[kind / 2] - 1).copied().unwrap_or(0);
        let begin = ready.max(last).max(free);
        let part = if kind == 0 { Part::Load(index) } else { Part::Store(index) };
        let end = begin + (self.takes)(id, part);
        let parts = &mut self.known[id].parts[kind];
        parts.begun.push(begin);
        parts.ended.push(end);
    }

    /// Each strip goes through the three stages, each of which takes one at a time.
    fn compute(&mut self, id: usize, index: usize, ready: u64) {
        let Compute { count, each } = self.task(id).compute(index);
        let mut fetched = ready;
        let mut end = ready;
        for _ in 0..count {
            let mut at = ready;
            for (stage, (free, takes)) in self.stages.iter_mut().zip(each).enumerate() {
                at = at.max(*free) + takes;
                *free = at;
                if stage == 0 {
                    fetched = at;
                }
            }
            end = at;
        }
        let parts = &mut self.known[id].parts[1];
        parts.begun.push(ready);
        parts.fetched.push(fetched);
        parts.ended.push(end);
    }
}

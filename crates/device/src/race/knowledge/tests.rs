//! Knowledge of programs about each other's accesses, compared with all paths in the graph of their order.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;
use crate::pe::{Dma, FormatId, PortMessage, Work};

const PROGRAMS: usize = 3;
const WINDOW: u32 = 3;

/// The next step of a program. A distance counts commands backwards.
#[derive(Clone, Copy, Debug)]
enum Step {
    Access { after: u32, loads: bool },
    Send { after: u32, to: usize },
    Receive { from: usize },
    Wait { back: u32 },
    Fence,
}

fn step() -> impl Strategy<Value = Step> {
    let other = 1..PROGRAMS;
    prop_oneof![
        4 => (0..4_u32, any::<bool>()).prop_map(|(after, loads)| Step::Access { after, loads }),
        4 => (0..4_u32, other.clone()).prop_map(|(after, to)| Step::Send { after, to }),
        3 => other.prop_map(|from| Step::Receive { from }),
        1 => (1..4_u32).prop_map(|back| Step::Wait { back }),
        1 => Just(Step::Fence),
    ]
}

/// Issue and end of a command, as nodes of a graph.
#[derive(Clone, Copy, Debug)]
struct Places {
    issued: usize,
    ended: usize,
}

/// Graph of the order of events.
#[derive(Default)]
struct Graph {
    before: Vec<Vec<usize>>,
}

impl Graph {
    fn place(&mut self, before: &[usize]) -> usize {
        self.before.push(before.to_vec());
        self.before.len() - 1
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        from == to || self.before[to].iter().any(|&before| self.reaches(from, before))
    }
}

/// A program of the slow model.
#[derive(Default)]
struct Run {
    /// Nodes that precede the issue of the next command.
    ready: Vec<usize>,
    commands: Vec<(Step, Places, bool)>,
    next: usize,
}

struct World {
    steps: Vec<Vec<Step>>,
    runs: Vec<Run>,
    graph: Graph,
    /// Starts of sends that were not received, by sender and receiver.
    messages: BTreeMap<(usize, usize), VecDeque<usize>>,
    knowledge: Knowledge,
    /// Completed accesses: the program, the command, and the node of its end.
    done: Vec<(usize, CommandId, usize)>,
    /// Number of pairs with a path, and without one.
    paths: [usize; 2],
}

fn program(number: usize) -> ProgramId {
    (RequestId::new(0), NodeId::new(number))
}

/// Returns the port at which a program receives messages of another.
fn end(from: usize, to: usize) -> PortEnd {
    (NodeId::new(to), PortId(u32::try_from(from).unwrap()))
}

fn command(step: Step, number: CommandId) -> Command {
    let (Step::Access { after, .. } | Step::Send { after, .. }) = step else {
        let message = PortMessage { port: PortId(0), bytes: 1, format: FormatId::default() };
        return Command::new(Work::Receive(message), Dependencies::default());
    };
    let before: Vec<_> = number.checked_sub(after).filter(|_| after > 0).into_iter().collect();
    let dma = Dma { direction: Direction::Write, address: 0, bytes: 1, rows: None };
    let work = match step {
        Step::Send { .. } => {
            Work::Send(PortMessage { port: PortId(0), bytes: 1, format: FormatId::default() })
        }
        _ => Work::Dma(dma),
    };
    Command::new(work, before.as_slice().into())
}

impl World {
    fn new(steps: Vec<Vec<Step>>) -> Self {
        Self {
            runs: steps.iter().map(|_| Run::default()).collect(),
            steps,
            graph: Graph::default(),
            messages: BTreeMap::new(),
            knowledge: Knowledge::default(),
            done: Vec::new(),
            paths: [0; 2],
        }
    }

    fn is_done(&self, run: usize, number: usize) -> bool {
        self.runs[run].commands.get(number).is_some_and(|(_, _, done)| *done)
    }

    /// Performs the next step of a program, if it is possible now.
    fn issue(&mut self, of: usize) -> bool {
        let Some(&step) = self.steps[of].get(self.runs[of].next) else { return false };
        let count = self.runs[of].commands.len();
        match step {
            Step::Wait { back } => {
                let Some(waited) = count.checked_sub(back as usize) else {
                    self.runs[of].next += 1;
                    return true;
                };
                if !self.is_done(of, waited) {
                    return false;
                }
                let ended = self.runs[of].commands[waited].1.ended;
                self.runs[of].ready.push(ended);
                self.knowledge.waited(program(of), u32::try_from(waited).unwrap());
            }
            Step::Fence => {
                if (0..count).any(|number| !self.is_done(of, number)) {
                    return false;
                }
                let ends: Vec<_> =
                    self.runs[of].commands.iter().map(|(_, places, _)| places.ended).collect();
                self.runs[of].ready.extend(ends);
                self.knowledge.fenced(program(of));
            }
            _ => return self.issue_command(of, step),
        }
        self.runs[of].next += 1;
        true
    }

    fn issue_command(&mut self, of: usize, step: Step) -> bool {
        let count = self.runs[of].commands.len();
        if let Some(back) = count.checked_sub(WINDOW as usize) {
            if !self.is_done(of, back) {
                return false;
            }
            let ended = self.runs[of].commands[back].1.ended;
            self.runs[of].ready.push(ended);
        }
        let number = u32::try_from(count).unwrap();
        let command = command(step, number);
        self.knowledge.issued(program(of), number, &command, WINDOW);
        let issued = self.graph.place(&self.runs[of].ready);
        self.runs[of].ready = vec![issued];
        let places = Places { issued, ended: 0 };
        self.runs[of].commands.push((step, places, false));
        self.runs[of].next += 1;
        true
    }

    /// Performs a command, if all its predecessors are done.
    fn carry_out(&mut self, of: usize, number: usize) -> bool {
        let (step, places, done) = self.runs[of].commands[number];
        let id = u32::try_from(number).unwrap();
        let after: Vec<_> = command(step, id).after.iter().map(|&id| id as usize).collect();
        let missing = after.iter().any(|&before| !self.is_done(of, before));
        if done || missing {
            return false;
        }
        let ends = after.iter().map(|&before| self.runs[of].commands[before].1.ended);
        let before: Vec<_> = ends.chain([places.issued]).collect();
        let mut heard = None;
        if let Step::Receive { from } = step {
            let from = (of + from) % PROGRAMS;
            heard = self.messages.entry((from, of)).or_default().pop_front();
            if heard.is_none() {
                return false;
            }
            self.knowledge.received(program(of), id, end(from, of), false);
        }
        let begun = self.graph.place(&before);
        let ended =
            self.graph.place(&[Some(begun), heard].into_iter().flatten().collect::<Vec<_>>());
        self.runs[of].commands[number] = (step, Places { ended, ..places }, true);
        match step {
            Step::Send { to, .. } => {
                let to = (of + to) % PROGRAMS;
                self.messages.entry((of, to)).or_default().push_back(begun);
                self.knowledge.sent(program(of), id, end(of, to));
            }
            Step::Access { loads, .. } => self.compare(of, id, loads, begun, ended),
            _ => {}
        }
        true
    }

    /// Compares the knowledge of each access of other programs with the existence of a path from it.
    fn compare(&mut self, of: usize, command: CommandId, loads: bool, begun: usize, ended: usize) {
        let direction = if loads { Direction::Read } else { Direction::Write };
        let agent = |of: usize, command| {
            let (launch, pe) = program(of);
            Agent { launch, pe: Some(pe), command, direction, is_atomic: false, part: 0 }
        };
        for &(other, earlier, at) in self.done.iter().filter(|(other, ..)| *other != of) {
            let known = self.knowledge.orders(agent(other, earlier), agent(of, command));
            assert_eq!(known, self.graph.reaches(at, begun), "{other}.{earlier} to {of}.{command}");
            self.paths[usize::from(!known)] += 1;
        }
        self.done.push((of, command, ended));
    }
}

#[test]
fn a_program_knows_what_there_is_a_path_from() {
    let steps = proptest::collection::vec(proptest::collection::vec(step(), 1..14), PROGRAMS);
    let choices = proptest::collection::vec(any::<u16>(), 120);
    let paths = Cell::new([0; 2]);
    let config = Config { cases: 2000, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&(steps, choices), |(steps, choices)| {
        let mut world = World::new(steps);
        for choice in choices {
            let of = usize::from(choice) % PROGRAMS;
            let commands = world.runs[of].commands.iter().enumerate();
            let open: Vec<_> =
                commands.filter(|(_, (.., done))| !done).map(|open| open.0).collect();
            match open.get(usize::from(choice) / PROGRAMS % (open.len() + 1)) {
                Some(&number) => world.carry_out(of, number),
                None => world.issue(of),
            };
        }
        let [some, none] = paths.get();
        paths.set([some + world.paths[0], none + world.paths[1]]);
        Ok(())
    });
    result.unwrap();
    assert!(paths.get().iter().all(|&count| count > 500), "{:?}", paths.get());
}

/// Atomic accesses of two programs to one address, in this order: the first writes, the second reads.
fn ordered_by(release: MemoryOrder, acquire: MemoryOrder) -> bool {
    let (one, other) = (program(0), program(1));
    let atomic = |direction, order, after: &[CommandId]| {
        let dma = Dma { direction, address: 0, bytes: 4, rows: None };
        let mut command = Command::new(Work::Dma(dma), after.into());
        command.atomic = Some(order);
        command
    };
    let by = |(launch, pe), command, direction| Agent {
        launch,
        pe: Some(pe),
        command,
        direction,
        is_atomic: true,
        part: 0,
    };
    let mut knowledge = Knowledge::default();
    let (read, write) = (Direction::Read, Direction::Write);
    // A store, a fence, and the release of an address. Then the acquire of the address, and a load that waits for it.
    let store = Dma { direction: write, address: 64, bytes: 4, rows: None };
    knowledge.issued(one, 0, &Command::new(Work::Dma(store), Dependencies::default()), 16);
    knowledge.fenced(one);
    knowledge.issued(one, 1, &atomic(write, release, &[]), 16);
    knowledge.synchronized(release, by(one, 1, write), NodeId::new(9), 0..4);
    knowledge.issued(other, 0, &atomic(read, acquire, &[]), 16);
    knowledge.synchronized(acquire, by(other, 0, read), NodeId::new(9), 0..4);
    knowledge.waited(other, 0);
    knowledge.issued(other, 1, &atomic(read, MemoryOrder::Relaxed, &[]), 16);
    knowledge.orders(by(one, 0, write), by(other, 1, read))
}

#[test]
fn a_release_and_an_acquire_order_what_comes_before_and_after_them() {
    use MemoryOrder::{Acquire, Relaxed, Release};
    assert!(ordered_by(Release, Acquire));
    assert!(!ordered_by(Relaxed, Acquire));
    assert!(!ordered_by(Release, Relaxed));
}

//! The order in which ranks' calls arrive changes no number, record or time.
//!
//! A world is drawn as a list of exchanges, of which each rank makes its own calls in turn. The ranks run three times: the
//! first that can call does, or the last, or a random one.

use std::collections::BTreeMap;

use cubeyard_collectives::collective::{Operation, ReduceOp};
use cubeyard_collectives::service::{Action, Answer, Call, Record, Service};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::random_bits;
use cubeyard_sim::Time;
use proptest::prelude::*;

use crate::long_tests::cases;
use crate::service::fabric;
use crate::service_calls::{Seen, memory};

pub(crate) const RANKS: usize = 4;
/// Groups by their names: two have the same members, and two the same members in another order.
pub(crate) const GROUPS: [(&str, &[usize]); 5] =
    [("1", &[0, 2]), ("0", &[0, 1, 2, 3]), ("2", &[2, 0]), ("3", &[0, 2]), ("4", &[3, 1, 2])];

/// Number of exchanges by which the receiver of a message is late, by its tag: messages of a tag meet in their order.
const LATE: [usize; 3] = [0, 1, 3];

/// An exchange of a group: a collective or a message.
#[derive(Clone, Debug)]
struct Planned {
    group: usize,
    kind: PlannedKind,
    count: u64,
    /// Whether each rank waits for its answer before its next call.
    waits: [bool; RANKS],
    /// Simulated time in picoseconds that each rank works before its call.
    work: [u64; RANKS],
}

#[derive(Clone, Debug)]
enum PlannedKind {
    Collective(Operation),
    Barrier,
    /// Places of the sender and the receiver, and a tag.
    Message {
        from: usize,
        to: usize,
        tag: usize,
    },
}

/// A call that a rank makes, before it is posted.
#[derive(Clone, Debug)]
struct Step {
    rank: usize,
    /// Index of the exchange in the list.
    index: usize,
    action: Action,
    waits: bool,
}

/// The state of a rank that runs its steps.
#[derive(Default)]
struct Program {
    steps: Vec<Step>,
    next: usize,
    clock: Time,
    /// The call whose answer the rank waits for.
    blocked: Option<u64>,
}

/// What the world has done: answers and outputs by the numbers of calls, and records.
#[derive(Debug, PartialEq)]
struct Outcome {
    answers: BTreeMap<u64, Answer>,
    outputs: BTreeMap<u64, Vec<u8>>,
    records: Vec<Record>,
}

/// Draws the exchanges of a world that uses the first groups only, so that some have many messages of a pair.
fn world() -> impl Strategy<Value = Vec<Planned>> {
    let used = 1..=GROUPS.len();
    used.prop_flat_map(|groups| prop::collection::vec(planned(groups), 1..25))
}

fn planned(groups: usize) -> impl Strategy<Value = Planned> {
    let operators = prop::sample::select(vec![ReduceOp::Sum, ReduceOp::Max, ReduceOp::Avg]);
    let kind = (0_usize..16, operators, 0..RANKS, 0..RANKS, 0..LATE.len());
    let kind = (0..groups, kind).prop_map(|(group, (which, op, one, other, tag))| {
        let size = GROUPS[group].1.len();
        // A message goes to the next place, or to the sender itself.
        let (root, to) = (one % size, (one + other.min(1)) % size);
        let operations = [
            Operation::AllReduce(op),
            Operation::Reduce(op, root),
            Operation::ReduceScatter(op),
            Operation::Broadcast(root),
            Operation::AllGather,
            Operation::Gather(root),
            Operation::Scatter(root),
            Operation::AllToAll,
        ];
        let message = PlannedKind::Message { from: root, to, tag };
        let collective = operations.get(which).copied().map(PlannedKind::Collective);
        let kind = if which == 8 { PlannedKind::Barrier } else { collective.unwrap_or(message) };
        (group, kind)
    });
    let counts = prop::sample::select(vec![0_u64, 1, 5, 64, 300]);
    let work = prop::array::uniform4(prop::sample::select(vec![0, 1, 700, 1_000_000]));
    let waits = prop::array::uniform4(prop::bool::weighted(0.25));
    let fields = (kind, counts, waits, work);
    fields.prop_map(|((group, kind), count, waits, work)| Planned {
        group,
        kind,
        count,
        waits,
        work,
    })
}

/// Returns the steps of all ranks in the order of the list. A sender whose receiver is late does not wait, so that no rank
/// waits for good.
fn steps(list: &[Planned]) -> Vec<Step> {
    let mut steps = Vec::new();
    for (index, planned) in list.iter().enumerate() {
        let members = GROUPS[planned.group].1;
        let mut step = |at: usize, place: usize, action: Action, may_wait: bool| {
            let rank = members[place];
            let waits = may_wait && planned.waits[rank];
            steps.push((at, Step { rank, index, action, waits }));
        };
        match planned.kind {
            PlannedKind::Message { from, to, tag } => {
                let (late, number) = (LATE[tag], i64::try_from(tag).unwrap());
                step(index, from, Action::Send(to, number), late == 0 && from != to);
                step(index + late, to, Action::Receive(Some(from), number), true);
            }
            PlannedKind::Barrier => {
                (0..members.len()).for_each(|place| step(index, place, Action::Barrier, true));
            }
            PlannedKind::Collective(operation) => {
                let action = Action::Collective(operation);
                (0..members.len()).for_each(|place| step(index, place, action, true));
            }
        }
    }
    steps.sort_by_key(|(at, _)| *at);
    steps.into_iter().map(|(_, step)| step).collect()
}

/// Returns the sizes in bytes of a call's input and output, of elements of 4 bytes.
pub(crate) fn sizes(action: Action, place: usize, members: usize, count: u64) -> [usize; 2] {
    let part = usize::try_from(4 * count).unwrap();
    let of_root = |root, bytes| if root == place { bytes } else { 0 };
    match action {
        Action::Barrier => [0, 0],
        Action::Send(..) => [part, 0],
        Action::Receive(..) => [0, part],
        Action::Collective(operation) => match operation {
            Operation::AllReduce(_) => [part, part],
            Operation::Reduce(_, root) => [part, of_root(root, part)],
            Operation::ReduceScatter(_) => [part * members, part],
            Operation::Broadcast(root) if root == place => [part, 0],
            Operation::Broadcast(_) => [0, part],
            Operation::AllGather => [part, part * members],
            Operation::Gather(root) => [part, of_root(root, part * members)],
            Operation::Scatter(root) => [of_root(root, part * members), part],
            Operation::AllToAll => [part * members; 2],
        },
    }
}

/// Returns floats of both signs whose sums depend on their order.
pub(crate) fn floats(seed: u64, count: usize) -> Vec<f32> {
    let draw = |element| (random_bits(seed, element) >> 40) as f32 / 2_f32.powi(20) - 8.0;
    (0..count as u64).map(draw).collect()
}

/// Runs the ranks' programs. `choose` returns the rank that calls next, of those that do not wait.
fn run(list: &[Planned], mut choose: impl FnMut(&[usize]) -> usize) -> Outcome {
    let mut service = Service::new(fabric(RANKS, "auto"), RANKS);
    let mut programs: [Program; RANKS] = Default::default();
    for step in steps(list) {
        programs[step.rank].steps.push(step);
    }
    let (mut answers, mut seen) = (BTreeMap::new(), BTreeMap::new());
    loop {
        let is_ready = |&rank: &usize| {
            programs[rank].blocked.is_none() && programs[rank].next < programs[rank].steps.len()
        };
        let ready: Vec<_> = (0..RANKS).filter(is_ready).collect();
        if ready.is_empty() {
            break;
        }
        let (id, answered, output) = post(&mut service, list, &mut programs[choose(&ready)]);
        seen.insert(id, output);
        for (id, answer) in answered {
            let program = programs.iter_mut().find(|program| program.blocked == Some(id));
            if let Some(program) = program {
                program.blocked = None;
                program.clock = program.clock.max(answer.end);
            }
            assert_eq!(answer.error, None);
            assert_eq!(answers.insert(id, answer), None, "one answer to {id}");
        }
    }
    assert_eq!(answers.len(), steps(list).len(), "no rank waits for good");
    let outputs = seen.into_iter().map(|(id, seen)| (id, seen.lock().unwrap().clone())).collect();
    Outcome { answers, outputs, records: service.records().to_vec() }
}

/// Makes the next call of a rank. Returns its number, the answers of all calls that it completes, and its output.
fn post(
    service: &mut Service,
    list: &[Planned],
    program: &mut Program,
) -> (u64, Vec<(u64, Answer)>, Seen) {
    let Step { rank, index, action, waits } = program.steps[program.next].clone();
    let id = (1000 * rank + program.next) as u64;
    program.next += 1;
    let Planned { group, count, work, .. } = list[index];
    program.clock = Time::from_ps(program.clock.ps() + work[rank]);
    program.blocked = waits.then_some(id);
    let (name, members) = GROUPS[group];
    let place = members.iter().position(|&member| member == rank).unwrap();
    let [input, output] = sizes(action, place, members.len(), count);
    let values: Vec<_> = floats(id, input / 4).into_iter().flat_map(f32::to_le_bytes).collect();
    let (memory, seen) = memory(&values, output);
    let call = Call {
        id,
        group: name.into(),
        dtype: DType::F32,
        count,
        ready: program.clock,
        at: format!("{rank}.py:{index}"),
        ..Call::new(rank, members.to_vec(), action, memory)
    };
    let mut answered = Vec::new();
    service.post(call, 0.0, &|_| (), &mut answered).unwrap();
    (id, answered, seen)
}

pub(crate) fn walk(most: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(most)) }
}

proptest! {
    #![proptest_config(walk(200))]

    /// Messages of one pair with different tags were placed in time in the order in which they met: the start of each
    /// depended on whether the sender or the receiver had called first.
    #[test]
    fn any_order_of_arrival_gives_the_same_numbers_records_and_times(
        list in world(),
        seed: u64,
    ) {
        let first = run(&list, |ready| ready[0]);
        prop_assert_eq!(&first, &run(&list, |ready| ready[ready.len() - 1]));
        let mut draws = 0;
        let mixed = run(&list, |ready| {
            draws += 1;
            ready[(random_bits(seed, draws) >> 32) as usize % ready.len()]
        });
        prop_assert_eq!(&first, &mixed);
    }
}

/// A message with another tag was delayed by whichever message of its pair had met first.
#[test]
fn messages_with_different_tags_do_not_wait_for_each_other() {
    let message = |tag| Planned {
        group: 0,
        kind: PlannedKind::Message { from: 0, to: 1, tag },
        count: 64,
        waits: [false; RANKS],
        work: [0; RANKS],
    };
    let list = [message(2), message(0)];
    let first = run(&list, |ready| ready[0]);
    assert_eq!(first, run(&list, |ready| ready[ready.len() - 1]));
    assert_eq!(first.records.iter().map(|of| of.start).collect::<Vec<_>>(), [Time::default(); 2]);
}

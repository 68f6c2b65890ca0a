//! The service matches the calls of ranks, places them in time, and names every rank in a fault.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use cubeyard_collectives::collective::{Operation, ReduceOp};
use cubeyard_collectives::service::{Action, Answer, Call, Memory, Record, Service, ServiceError};
use cubeyard_runtime::dtype::DType;
use cubeyard_sim::Time;

use crate::service::fabric;

/// A world whose calls are made by the test. Calls are identified by their number.
struct Ranks {
    service: Service,
    size: usize,
    answered: Vec<(u64, Answer)>,
    notices: Rc<RefCell<Vec<bool>>>,
}

/// Input and output of a call, which the test can read afterwards.
struct Apart {
    input: Vec<u8>,
    output: Vec<u8>,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Memory for Apart {
    fn input(&self) -> &[u8] {
        &self.input
    }

    fn output(&mut self) -> &mut [u8] {
        &mut self.output
    }

    fn output_len(&self) -> usize {
        self.output.len()
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        *self.seen.lock().unwrap() = std::mem::take(&mut self.output);
    }
}

pub(crate) type Seen = Arc<Mutex<Vec<u8>>>;

pub(crate) fn memory(input: &[u8], output: usize) -> (Box<dyn Memory>, Seen) {
    let seen = Seen::default();
    let apart = Apart { input: input.into(), output: vec![0; output], seen: Arc::clone(&seen) };
    (Box::new(apart), seen)
}

impl Ranks {
    fn new(size: usize) -> Self {
        let service = Service::new(fabric(size, "auto"), size);
        Self { service, size, answered: Vec::new(), notices: Rc::default() }
    }

    fn all(&self) -> Vec<usize> {
        (0..self.size).collect()
    }

    fn post(&mut self, call: Call) -> Result<(), ServiceError> {
        let notices = Rc::clone(&self.notices);
        let notice = move |is_busy| notices.borrow_mut().push(is_busy);
        self.service.post(call, 10.0, &notice, &mut self.answered)
    }

    fn barrier(&mut self, id: u64, rank: usize, ready: u64) {
        let call = Call::new(rank, self.all(), Action::Barrier, memory(&[], 0).0);
        self.post(Call { id, ready: Time::from_ps(ready), ..call }).unwrap();
    }

    /// Makes a call on bytes; returns the cell of its output.
    fn call(
        &mut self,
        rank: usize,
        action: Action,
        count: u64,
        input: &[u8],
        output: usize,
    ) -> Seen {
        let (memory, seen) = memory(input, output);
        let call = Call::new(rank, self.all(), action, memory);
        let at = format!("{rank}.py:1");
        self.post(Call { id: rank as u64, count, elements: count, at, ..call }).unwrap();
        seen
    }

    fn answer(&self, id: u64) -> &Answer {
        let found: Vec<_> = self.answered.iter().filter(|(own, _)| *own == id).collect();
        assert_eq!(found.len(), 1, "one answer to {id}");
        &found[0].1
    }

    fn errors(&self) -> Vec<&str> {
        self.answered.iter().filter_map(|(_, answer)| answer.error.as_deref()).collect()
    }
}

#[test]
fn a_collective_begins_when_its_last_rank_is_ready_and_the_one_before_has_ended() {
    let mut ranks = Ranks::new(2);
    ranks.barrier(0, 0, 100);
    ranks.barrier(1, 0, 200);
    assert_eq!(ranks.answered, []);
    ranks.barrier(2, 1, 5000);
    assert_eq!(ranks.answer(0), ranks.answer(2));
    assert_eq!(ranks.answer(0).start, Time::from_ps(5000));
    assert_eq!(*ranks.notices.borrow(), [true, false]);
    ranks.barrier(3, 1, 300);
    assert_eq!(ranks.answer(1).start, ranks.answer(0).end);
    // The second one is not simulated.
    assert_eq!(*ranks.notices.borrow(), [true, false]);
}

#[test]
fn groups_do_not_wait_for_each_other() {
    let mut ranks = Ranks::new(3);
    ranks.barrier(0, 0, 0);
    for (id, rank) in [(10, 0), (12, 2)] {
        let call = Call::new(rank, vec![0, 2], Action::Barrier, memory(&[], 0).0);
        ranks.post(Call { id, group: "1".into(), ..call }).unwrap();
    }
    assert_eq!(ranks.answer(10).start, Time::default());
    ranks.barrier(1, 1, 0);
    ranks.barrier(2, 2, 0);
    assert_eq!(ranks.answer(0).start, Time::default());
    let groups: Vec<_> = ranks.service.records().iter().map(|of| of.group.clone()).collect();
    // Both start at once, and ranks [0, 1, 2] come before [0, 2].
    assert_eq!(groups, ["0", "1"]);
}

#[test]
fn messages_match_by_sender_receiver_and_tag() {
    let mut ranks = Ranks::new(2);
    let mut message = |id: u64, rank, action, ready, input: &[u8], output| {
        let (memory, seen) = memory(input, output);
        let call = Call::new(rank, vec![0, 1], action, memory);
        ranks.post(Call { id, count: 4, ready: Time::from_ps(ready), ..call }).unwrap();
        seen
    };
    message(1, 0, Action::Send(1, 1), 0, &[1; 4], 0);
    message(2, 0, Action::Send(1, 2), 0, &[2; 4], 0);
    let later = message(3, 1, Action::Receive(Some(0), 2), 50_000, &[], 4);
    let got = message(4, 1, Action::Receive(None, 1), 0, &[], 4);
    assert_eq!((&**later.lock().unwrap(), &**got.lock().unwrap()), (&[2; 4][..], &[1; 4][..]));
    assert_eq!(ranks.answer(3).start, Time::from_ps(50_000));
    assert_eq!(ranks.answer(1).start, Time::default());
    assert_eq!([1, 2, 3, 4].map(|id| ranks.answer(id).source), [Some(0); 4]);
    let records = ranks.service.records().iter().map(|of| (&*of.operation, &*of.ranks, of.bytes));
    assert_eq!(records.collect::<Vec<_>>(), [("send", &[0, 1][..], 4), ("send", &[0, 1], 4)]);
}

/// PyTorch's processes may send to themselves, which takes no time of the machine.
#[test]
fn a_message_of_a_rank_to_itself_takes_no_time() {
    let mut ranks = Ranks::new(2);
    ranks.call(0, Action::Send(0, 0), 3, &[7; 3], 0);
    let got = ranks.call(0, Action::Receive(Some(0), 0), 3, &[], 3);
    assert_eq!(*got.lock().unwrap(), [7; 3]);
    assert_eq!(ranks.answered[0].1.start, ranks.answered[0].1.end);
    assert!(ranks.service.records().is_empty());
}

#[test]
fn ends_of_a_message_that_differ_are_named() {
    let mut ranks = Ranks::new(2);
    ranks.call(0, Action::Send(1, 0), 3, &[7; 3], 0);
    ranks.call(1, Action::Receive(Some(0), 0), 4, &[], 4);
    let expected = "the ends of a message do not match. rank 0 waits in send to rank 1 u8[3] at 0.py:1; \
        rank 1 waits in recv from rank 0 u8[4] at 1.py:1";
    assert_eq!(ranks.errors(), [expected; 2]);
}

#[test]
fn bytes_go_where_each_operation_sends_them() {
    let mut ranks = Ranks::new(3);
    let mut all = |operation, count, input: fn(u8) -> Vec<u8>, output: fn(u8) -> usize| {
        let action = Action::Collective(operation);
        let seen = [0, 1, 2]
            .map(|rank: u8| ranks.call(rank.into(), action, count, &input(rank), output(rank)));
        seen.map(|output| output.lock().unwrap().clone())
    };
    let (own, parts) =
        (|rank| vec![rank; 2], |rank| vec![rank, rank, 10 + rank, 10 + rank, 20 + rank, 20 + rank]);
    let of_root = |rank| if rank == 1 { 6 } else { 0 };
    let gathered = vec![0, 0, 1, 1, 2, 2];
    assert_eq!(all(Operation::AllGather, 2, own, |_| 6), [&gathered; 3].map(Clone::clone));
    assert_eq!(all(Operation::Gather(1), 2, own, of_root), [vec![], gathered, vec![]]);
    let scattered = all(
        Operation::Scatter(1),
        2,
        |rank| if rank == 1 { vec![9, 9, 8, 8, 7, 7] } else { vec![] },
        |_| 2,
    );
    assert_eq!(scattered, [[9, 9], [8, 8], [7, 7]]);
    let broadcast = all(
        Operation::Broadcast(2),
        2,
        |rank| vec![5; if rank == 2 { 2 } else { 0 }],
        |rank| if rank == 2 { 0 } else { 2 },
    );
    assert_eq!(broadcast, [vec![5, 5], vec![5, 5], vec![]]);
    let exchanged = all(Operation::AllToAll, 2, parts, |_| 6);
    assert_eq!(exchanged[1], [10, 10, 11, 11, 12, 12]);
    let sum = Operation::ReduceScatter(ReduceOp::Sum);
    assert_eq!(all(sum, 2, parts, |_| 2), [[3, 3], [33, 33], [63, 63]]);
}

#[test]
fn an_uneven_all_to_all_moves_parts_of_any_size_and_names_a_difference() {
    let call = |rank: usize, sent: [u64; 2], received: [u64; 2]| {
        let [input, output] =
            [sent, received].map(|splits| usize::try_from(splits.iter().sum::<u64>()).unwrap());
        let (memory, seen) = memory(&vec![[1, 2][rank]; input], output);
        let action = Action::Collective(Operation::AllToAll);
        let splits = Some([sent.to_vec(), received.to_vec()]);
        (Call { splits, ..Call::new(rank, vec![0, 1], action, memory) }, seen)
    };
    let mut ranks = Ranks::new(2);
    let ((one, _), (two, seen)) = (call(0, [1, 3], [1, 2]), call(1, [2, 0], [3, 0]));
    ranks.post(one).unwrap();
    ranks.post(two).unwrap();
    assert_eq!(*seen.lock().unwrap(), [1, 1, 1]);
    assert_eq!(ranks.service.records()[0].bytes, 6);
    ranks.post(call(0, [1, 3], [1, 2]).0).unwrap();
    let error = ranks.post(call(1, [2, 0], [4, 0]).0).unwrap_err();
    let expected = "all_to_all: rank 0 sends 3 elements to rank 1, which expects 4";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn calls_that_differ_name_both_and_end_the_world() {
    let mut ranks = Ranks::new(3);
    let sum = Action::Collective(Operation::AllReduce(ReduceOp::Sum));
    ranks.call(0, sum, 10, &[0; 10], 10);
    ranks.call(1, sum, 11, &[0; 11], 11);
    let text = "calls of ranks do not match: rank 0 and rank 1. rank 0 waits in all_reduce sum u8[10] at 0.py:1; \
        rank 1 waits in all_reduce sum u8[11] at 1.py:1; rank 2 has not called anything";
    assert_eq!(ranks.errors(), [text; 2]);
    ranks.barrier(2, 2, 0);
    assert_eq!(ranks.errors(), [text; 3]);
}

#[test]
fn ranks_that_are_gone_and_calls_that_are_late_fail_those_that_wait() {
    let mut ranks = Ranks::new(2);
    assert_eq!(ranks.service.leave(1), []);
    ranks.barrier(0, 0, 0);
    let expected = "rank 1, for which rank 0 waits, has left its process group. rank 0 waits in barrier at ; \
        rank 1 has left its process group";
    assert_eq!(ranks.errors(), [expected]);

    let mut ranks = Ranks::new(2);
    let call = Call::new(0, vec![0, 1], Action::Barrier, memory(&[], 0).0);
    ranks.post(Call { timeout: 2.5, at: "a.py:3".into(), ..call }).unwrap();
    assert_eq!((ranks.service.next_deadline(), ranks.service.expire(12.4)), (Some(12.5), vec![]));
    let late = ranks.service.expire(12.5);
    let expected = "rank 0 has waited for 2.5 s. rank 0 waits in barrier at a.py:3; rank 1 has not called anything";
    assert_eq!(late[0].1.error.as_deref(), Some(expected));

    let mut ranks = Ranks::new(2);
    ranks.barrier(0, 0, 0);
    let lost = ranks.service.lose(1, "has ended (process 7)");
    let expected =
        "rank 1 has ended (process 7). rank 0 waits in barrier at ; rank 1 has ended (process 7)";
    assert_eq!(lost[0].1.error.as_deref(), Some(expected));
    assert_eq!(ranks.service.lose(1, "again"), []);
}

#[test]
fn a_malformed_call_is_refused_alone() {
    let mut ranks = Ranks::new(2);
    let mut refused = |call: Call| ranks.post(call).unwrap_err().to_string();
    let call = |rank, action| Call::new(rank, vec![0, 1], action, memory(&[], 0).0);
    let root = Action::Collective(Operation::Broadcast(2));
    assert_eq!(
        refused(call(0, root)),
        "a malformed call: rank 2 of the group: expected a rank below 2"
    );
    assert_eq!(
        refused(call(5, Action::Barrier)),
        "a malformed call: rank 5: expected a member of [0, 1]"
    );
    let splits = Some([vec![1], vec![1, 2]]);
    let uneven = Call { splits, ..call(0, Action::Collective(Operation::AllToAll)) };
    assert_eq!(refused(uneven), "a malformed call: splits: expected one part for each of 2 ranks");
    ranks.barrier(0, 0, 0);
    ranks.barrier(1, 1, 0);
    assert_eq!((ranks.answered.len(), ranks.errors().len()), (2, 0));

    ranks.call(0, Action::Collective(Operation::AllGather), 4, &[1; 4], 8);
    let (short, _) = memory(&[1; 4], 7);
    let gather = Action::Collective(Operation::AllGather);
    let call = Call { count: 4, ..Call::new(1, vec![0, 1], gather, short) };
    let error = ranks.post(call).unwrap_err().to_string();
    assert_eq!(error, "all_gather: rank 1 has 7 bytes of output: expected 8");
}

#[test]
fn records_are_the_same_whatever_the_order_of_arrival() {
    let run = |order: [usize; 3]| -> Vec<Record> {
        let mut ranks = Ranks::new(3);
        for _ in 0..3 {
            for rank in order {
                let max = Action::Collective(Operation::AllReduce(ReduceOp::Max));
                let call = Call::new(rank, vec![0, 1, 2], max, memory(&[1; 8], 8).0);
                let ready = Time::from_ps(100 * rank as u64);
                ranks.post(Call { count: 8, ready, dtype: DType::I8, ..call }).unwrap();
            }
        }
        ranks.service.records().to_vec()
    };
    let records = run([0, 1, 2]);
    assert_eq!(records, run([2, 0, 1]));
    assert_eq!((records.len(), &*records[0].operation, records[0].bytes), (3, "all_reduce max", 8));
}

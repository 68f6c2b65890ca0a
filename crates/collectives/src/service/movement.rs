//! Bytes of matched calls: their sizes, and their movement from inputs to outputs.

use std::ops::Range;

use super::{Call, Exchange, ExchangeKind, ServiceError};
use crate::collective::Operation;
use crate::matching::Waiting;

/// Moves a message; returns false if its ends differ in size or type.
pub(super) fn send(calls: &mut [Waiting<Call>]) -> bool {
    let [sender, receiver] = calls else { unreachable!("a message has two ends") };
    let (sender, receiver) = (&sender.call, &mut receiver.call);
    let (input, dtype) = (sender.memory.input(), receiver.dtype);
    let output = receiver.memory.output();
    if input.len() != output.len() || sender.dtype != dtype {
        return false;
    }
    output.copy_from_slice(input);
    true
}

/// Returns the exchange of matched calls, whose memory has the sizes that it needs.
pub(super) fn exchange(calls: &[Waiting<Call>]) -> Result<Exchange, ServiceError> {
    let first = &calls[0].call;
    let mut exchange = first.exchange();
    match exchange.kind {
        // A message of a rank to itself does not use the machine.
        ExchangeKind::Send if calls[1].call.rank == first.rank => exchange.count = 0,
        ExchangeKind::Send => {}
        _ => check_memory(&exchange, calls)?,
    }
    if exchange.kind == ExchangeKind::Send {
        exchange.ranks = calls.iter().map(|of| of.call.rank).collect();
    }
    if first.splits.is_some() {
        exchange.count = largest_part(calls)?;
    }
    Ok(exchange)
}

/// Checks the splits of an uneven `all_to_all`; returns the largest part in elements.
fn largest_part(calls: &[Waiting<Call>]) -> Result<u64, ServiceError> {
    let mut largest = 0;
    for (from, sender) in calls.iter().enumerate() {
        for (to, receiver) in calls.iter().enumerate() {
            let (sent, expected) = (splits(sender, 0)[to], splits(receiver, 1)[from]);
            if sent != expected {
                let (sender, receiver) = (sender.call.rank, receiver.call.rank);
                return Err(ServiceError::Uneven { sender, sent, receiver, expected });
            }
            largest = largest.max(sent);
        }
    }
    Ok(largest)
}

/// Returns the parts that a rank sends (side 0) or receives (side 1).
fn splits(of: &Waiting<Call>, side: usize) -> &[u64] {
    &of.call.splits.as_ref().expect("all calls have splits if one has")[side]
}

fn check_memory(exchange: &Exchange, calls: &[Waiting<Call>]) -> Result<(), ServiceError> {
    for of in calls {
        let needed = needed_bytes(exchange, of);
        let found = [of.call.memory.input().len(), of.call.memory.output_len()];
        for ((side, needed), found) in ["input", "output"].into_iter().zip(needed).zip(found) {
            if found as u64 != needed {
                let (call, rank, expected) = (exchange.to_string(), of.call.rank, needed);
                return Err(ServiceError::Memory { call, rank, side, found, expected });
            }
        }
    }
    Ok(())
}

/// Returns the bytes of a rank's input and output.
fn needed_bytes(exchange: &Exchange, of: &Waiting<Call>) -> [u64; 2] {
    let width = exchange.dtype.size();
    if of.call.splits.is_some() {
        return [0, 1].map(|side| splits(of, side).iter().sum::<u64>().saturating_mul(width));
    }
    let part = exchange.count.saturating_mul(width);
    let all = part.saturating_mul(exchange.ranks.len() as u64);
    let of_root = |root: usize, bytes: u64| if root == of.place { bytes } else { 0 };
    let ExchangeKind::Collective(operation) = exchange.kind else { return [0, 0] };
    match operation {
        Operation::AllReduce(_) => [part, part],
        Operation::Reduce(_, root) => [part, of_root(root, part)],
        Operation::Broadcast(root) => [of_root(root, part), part - of_root(root, part)],
        Operation::AllGather => [part, all],
        Operation::Gather(root) => [part, of_root(root, all)],
        Operation::ReduceScatter(_) => [all, part],
        Operation::Scatter(root) => [of_root(root, all), part],
        Operation::AllToAll => [all, all],
    }
}

/// Writes the outputs of a reduction: one for all ranks, or one for each.
pub(super) fn give(operation: Operation, calls: &mut [Waiting<Call>], outputs: &[Vec<u8>]) {
    for of in calls {
        if operation.root().is_some_and(|root| root != of.place) {
            continue;
        }
        let output = if outputs.len() == 1 { &outputs[0] } else { &outputs[of.place] };
        of.call.memory.output().copy_from_slice(output);
    }
}

/// Moves the bytes of a collective without a reduction.
pub(super) fn relocate(exchange: &Exchange, calls: &mut [Waiting<Call>]) {
    let ExchangeKind::Collective(operation) = exchange.kind else { return };
    let part = calls[0].call.count * exchange.dtype.size();
    let part = usize::try_from(part).expect("within the memory of a call");
    let (all, own) = (0..calls.len(), |place: usize| place * part..(place + 1) * part);
    match operation {
        Operation::Broadcast(root) => {
            for to in all.filter(|&to| to != root) {
                copy(calls, (root, 0..part), (to, 0));
            }
        }
        Operation::Gather(root) => all.for_each(|of| copy(calls, (of, 0..part), (root, of * part))),
        Operation::Scatter(root) => all.for_each(|to| copy(calls, (root, own(to)), (to, 0))),
        Operation::AllGather => {
            for (of, to) in pairs(calls.len()) {
                copy(calls, (of, 0..part), (to, of * part));
            }
        }
        Operation::AllToAll => exchange_parts(exchange, calls),
        Operation::AllReduce(_) | Operation::Reduce(..) | Operation::ReduceScatter(_) => {
            unreachable!("a reduction combines values")
        }
    }
}

fn exchange_parts(exchange: &Exchange, calls: &mut [Waiting<Call>]) {
    let ranges = |side: usize| -> Vec<Vec<Range<usize>>> {
        calls.iter().map(|of| parts(exchange, of, side)).collect()
    };
    let (sent, received) = (ranges(0), ranges(1));
    for (of, to) in pairs(calls.len()) {
        copy(calls, (of, sent[of][to].clone()), (to, received[to][of].start));
    }
}

/// Returns the bytes of the parts for, or from, each rank.
fn parts(exchange: &Exchange, of: &Waiting<Call>, side: usize) -> Vec<Range<usize>> {
    let even = || vec![exchange.count; exchange.ranks.len()];
    let lengths = of.call.splits.as_ref().map_or_else(even, |splits| splits[side].clone());
    let mut end = 0;
    let lengths = lengths.into_iter().map(|length| {
        let bytes = usize::try_from(length * exchange.dtype.size());
        let start = end;
        end += bytes.expect("within the memory of a call");
        start..end
    });
    lengths.collect()
}

fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |of| (0..count).map(move |to| (of, to)))
}

/// Copies a range of one rank's input into the output of another, or of the same rank.
fn copy(
    calls: &mut [Waiting<Call>],
    (source, range): (usize, Range<usize>),
    (target, at): (usize, usize),
) {
    let place = at..at + range.len();
    if source == target {
        let own = calls[source].call.memory.input()[range].to_vec();
        calls[source].call.memory.output()[place].copy_from_slice(&own);
        return;
    }
    let both = calls.get_disjoint_mut([source, target]);
    let [source, target] = both.expect("two ranks of the group");
    let input = &source.call.memory.input()[range];
    target.call.memory.output()[place].copy_from_slice(input);
}

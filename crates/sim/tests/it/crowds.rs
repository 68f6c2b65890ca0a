//! Crowds of short messages and some long ones, as trains and as single flits: the results are equal to the picosecond
//! and in order, whichever transfers meet.

use std::collections::VecDeque;

use cubeyard_sim::{
    Asks, Component, Context, Delivery, Engine, EngineConfig, Flit, Network, NodeId, Observer,
    Span, Stop, Time, TransferId, TransferSpec, Wait,
};
use proptest::prelude::*;

use crate::grid::Grid;
use crate::long_tests::cases;

/// Many short messages, few long ones, and the messages that they trigger.
#[derive(Clone, Debug)]
struct Crowd {
    grid: Grid,
    talks: Vec<Talk>,
}

#[derive(Clone, Debug)]
struct Talk {
    at: u64,
    from: usize,
    to: usize,
    bytes: u64,
    replies: Vec<Reply>,
    when: When,
}

/// A message to another node, which may send an answer.
#[derive(Clone, Copy, Debug)]
struct Reply {
    to: usize,
    bytes: u64,
    answered: bool,
}

/// Time at which a node sends a triggered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    After(u64),
    /// In the same instant, but in a separate event of a lower rank.
    Alarm,
}

#[derive(Debug)]
struct Word {
    sends: Vec<TransferSpec<Word>>,
    when: When,
}

#[derive(Debug, Default)]
struct Talker {
    wants_flits: bool,
    flits: Vec<Flit>,
    put_off: VecDeque<Vec<TransferSpec<Word>>>,
}

fn send_all(sends: Vec<TransferSpec<Word>>, after: u64, context: &mut Context<Word>) {
    for mut send in sends {
        send.asks = Asks::At(context.now() + Span::from_ps(after));
        context.send(send);
    }
}

impl Component for Talker {
    type Message = Word;

    fn wants_flits(&self) -> bool {
        self.wants_flits
    }

    fn flit(&mut self, flit: Flit, _: &Word) {
        self.flits.push(flit);
    }

    fn receive(&mut self, delivery: Delivery<Word>, context: &mut Context<Word>) {
        self.call(delivery.message, context);
    }

    fn call(&mut self, word: Word, context: &mut Context<Word>) {
        match word.when {
            When::After(span) => send_all(word.sends, span, context),
            When::Alarm => {
                self.put_off.push_back(word.sends);
                context.wake_after(Span::ZERO, 0);
            }
        }
    }

    fn wake(&mut self, _: u64, context: &mut Context<Word>) {
        let sends = self.put_off.pop_front().expect("an alarm for each");
        send_all(sends, 0, context);
    }
}

/// Records all waits, and all deliveries with their times.
#[derive(Default)]
struct Clerk {
    waits: Vec<(TransferId, Wait)>,
    delivered: Vec<(TransferId, Time)>,
}

impl Observer<Word> for Clerk {
    const FLITS: bool = false;

    fn waited(&mut self, transfer: TransferId, wait: Wait) {
        self.waits.push((transfer, wait));
    }

    fn delivered(&mut self, transfer: TransferId, now: Time) {
        self.delivered.push((transfer, now));
    }
}

/// Few distinct values, so that many events fall into one instant.
fn crowds() -> impl Strategy<Value = Crowd> {
    (2..6_usize, 1..5_usize).prop_flat_map(|(width, height)| {
        let plain = Grid::plain(width, height);
        let (nodes, links) = (plain.nodes.len(), plain.links.len());
        let overheads =
            prop_oneof![4 => Just(0_u64), 2 => Just(1_u64), 1 => 0..4_u64, 2 => Just(2000_u64)];
        let node = (overheads, prop::bool::weighted(0.3), prop::bool::weighted(0.1));
        let propagation = prop_oneof![4 => Just(0_u64), 2 => 0..4_u64, 1 => 0..900_u64];
        (
            proptest::collection::vec(node, nodes),
            proptest::collection::vec(propagation, links),
            proptest::collection::vec(talk(nodes), 1..14),
        )
            .prop_map(move |(nodes, links, talks)| {
                let mut grid = plain.clone();
                for (index, (overhead, flits, store)) in nodes.into_iter().enumerate() {
                    grid.nodes[index].overhead = Span::from_ps(overhead);
                    grid.flit_takers[index] = flits;
                    grid = if store { grid.store(index) } else { grid };
                }
                for (link, propagation) in grid.links.iter_mut().zip(links) {
                    link.propagation = Span::from_ps(propagation);
                }
                Crowd { grid, talks }
            })
    })
}

fn talk(nodes: usize) -> impl Strategy<Value = Talk> {
    let short =
        || prop_oneof![3 => Just(0_u64), 1 => Just(1_u64), 1 => 1..256_u64, 1 => Just(256_u64)];
    let whole = (2..9_u64).prop_map(|flits| flits * 256);
    let bytes = prop_oneof![6 => short(), 3 => whole, 1 => 257..3000_u64];
    let at = prop_oneof![2 => Just(0_u64), 2 => 0..12_u64, 1 => (0..4_u64).prop_map(|ns| ns * 1000), 1 => 0..9000_u64];
    let when = prop_oneof![3 => Just(When::After(0)), 1 => (0..4_u64).prop_map(When::After), 1 => Just(When::Alarm)];
    let bytes_back = prop_oneof![3 => short(), 1 => Just(1024_u64)];
    let reply = (0..nodes, bytes_back, any::<bool>());
    let reply = reply.prop_map(|(to, bytes, answered)| Reply { to, bytes, answered });
    let replies = proptest::collection::vec(reply, 0..9);
    (at, 0..nodes, 1..nodes, bytes, replies, when).prop_map(
        move |(at, from, away, bytes, replies, when)| {
            let to = (from + away) % nodes;
            Talk { at, from, to, bytes, replies, when }
        },
    )
}

type Outcome = (Vec<(TransferId, Wait)>, Vec<(TransferId, Time)>, Vec<Flit>, Vec<Span>, u64, u64);

impl Crowd {
    fn send(&self, from: usize, to: usize, bytes: u64, then: Word) -> TransferSpec<Word> {
        let network =
            Network::new(self.grid.flit_bytes, self.grid.nodes.clone(), self.grid.links.clone());
        let route = network.unwrap().route(&self.grid.route(from, to)).unwrap();
        TransferSpec { route, bytes, asks: Asks::At(Time::ZERO), message: then }
    }

    fn word(&self, talk: &Talk) -> Word {
        let replies = talk.replies.iter().filter(|reply| reply.to != talk.to);
        let sends = replies.map(|&Reply { to, bytes, answered }| {
            let nothing = Word { sends: Vec::new(), when: When::After(0) };
            let answer = answered.then(|| self.send(to, talk.to, 0, nothing));
            let then = Word { sends: answer.into_iter().collect(), when: When::After(0) };
            self.send(talk.to, to, bytes, then)
        });
        Word { sends: sends.collect(), when: talk.when }
    }

    fn run(&self, trains: bool, pause: Option<u64>) -> Outcome {
        let grid = &self.grid;
        let network =
            Network::new(grid.flit_bytes, grid.nodes.clone(), grid.links.clone()).unwrap();
        let talkers = grid.flit_takers.iter().enumerate().map(|(node, &wants_flits)| {
            (NodeId::new(node), Talker { wants_flits, ..Talker::default() })
        });
        let config = EngineConfig { trains, buffers: None };
        let mut engine = Engine::observed(network, talkers, config, Clerk::default());
        for talk in &self.talks {
            let send = self.send(talk.from, talk.to, talk.bytes, self.word(talk));
            let first = Word { sends: vec![send], when: When::After(0) };
            engine.call_at(Time::from_ps(talk.at), NodeId::new(talk.from), first);
        }
        while let Some(pause) = pause
            && engine.run_until(engine.now() + Span::from_ps(pause)) == Stop::Deadline
        {
            engine.busy();
        }
        assert_eq!(engine.run(), Stop::Idle);
        assert_eq!(engine.under_way(), 0);
        let nodes = (0..grid.nodes.len()).map(NodeId::new);
        let flits = nodes.flat_map(|node| engine.component(node).unwrap().flits.clone()).collect();
        let (hops, hash, busy) = (engine.flit_hops(), engine.order_hash(), engine.busy());
        let Clerk { mut waits, delivered } = std::mem::take(engine.observer_mut());
        // Trains report their waits link by link.
        waits.sort_by_key(|(transfer, wait)| (*transfer, wait.link, wait.behind, wait.span));
        (waits, delivered, flits, busy, hops, hash)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(2000)))]

    #[test]
    fn trains_in_crowds_change_no_result(crowd in crowds(), pause in 1..3000_u64) {
        let walked = crowd.run(false, None);
        prop_assert_eq!(&crowd.run(true, None), &walked);
        prop_assert_eq!(&crowd.run(true, Some(pause)), &walked);
    }
}

/// An alarm occurs in the instant of the delivery that set it, and has a lower rank. A train that the alarm's message
/// scattered once forgot that its flit, with a rank between the two, had already requested its link.
#[test]
fn what_an_alarm_sends_comes_after_those_who_have_asked_in_its_instant() {
    let long = Talk { at: 0, from: 0, to: 2, bytes: 4 * 256, replies: vec![], when: When::Alarm };
    let replies = vec![Reply { to: 2, bytes: 256, answered: false }];
    let short = Talk { at: 1000, from: 4, to: 1, bytes: 256, replies, when: When::Alarm };
    let crowd = Crowd { grid: Grid::plain(3, 2), talks: vec![long, short] };
    let walked = crowd.run(false, None);
    // The second of four flits has the link from 2000 on, followed by the flit that the alarm sent.
    let delivered: Vec<_> = walked.1.iter().map(|(_, time)| time.ps()).collect();
    assert_eq!(delivered, [2000, 4000, 6000]);
    assert_eq!(crowd.run(true, None), walked);
}

//! A literal implementation of the rules of finite buffers: every queue and link is examined at every instant.

use std::collections::{BTreeMap, VecDeque};

use cubeyard_sim::{Arbiter, LinkId};

use crate::traffic::Traffic;

#[derive(Clone, Copy)]
enum Action {
    Stand {
        flit: usize,
    },
    Credit {
        link: usize,
    },
    /// A flit reaches the serial node after a link.
    Reach {
        flit: usize,
        link: usize,
    },
    /// A link becomes free, so it is examined.
    Free,
}

struct Flit {
    transfer: usize,
    bytes: u64,
    hop: usize,
}

#[derive(Clone, Default)]
struct Link {
    free: u64,
    places: u32,
    served_last: Option<usize>,
    /// Flits after the link, and flits that begin before it, each with its request time.
    behind: VecDeque<(usize, u64)>,
    source: VecDeque<(usize, u64)>,
}

struct Naive<'a> {
    traffic: &'a Traffic,
    arbiter: Arbiter,
    routes: Vec<Vec<LinkId>>,
    headers: BTreeMap<(usize, usize), u64>,
    /// Time at which each node has processed all overheads so far.
    processed: BTreeMap<usize, u64>,
    flits: Vec<Flit>,
    links: Vec<Link>,
    /// Future actions by time, then by the order of ties within a queue.
    pending: BTreeMap<(u64, usize, usize), Action>,
    arrivals: Vec<u64>,
    count: usize,
}

/// Returns the delivery time of each transfer. The traffic must have no answers and no store-and-forward nodes.
pub(crate) fn delivered(traffic: &Traffic, places: u32, arbiter: Arbiter) -> Vec<u64> {
    let mut naive = Naive::new(traffic, places, arbiter);
    while let Some((&(now, ..), _)) = naive.pending.first_key_value() {
        while let Some(entry) = naive.pending.first_entry().filter(|entry| entry.key().0 == now) {
            let action = entry.remove();
            naive.happen(action, now);
        }
        while (0..naive.links.len()).any(|link| naive.serve(link, now)) {}
    }
    naive.arrivals
}

impl<'a> Naive<'a> {
    fn new(traffic: &'a Traffic, places: u32, arbiter: Arbiter) -> Self {
        let planned = &traffic.transfers;
        let mut order: Vec<usize> = (0..planned.len()).collect();
        order.sort_by_key(|&label| (planned[label].at, planned[label].from, label));
        let mut naive = Self {
            traffic,
            arbiter,
            routes: planned.iter().map(|plan| traffic.grid.route(plan.from, plan.to)).collect(),
            headers: BTreeMap::new(),
            processed: BTreeMap::new(),
            flits: Vec::new(),
            links: vec![Link { places, ..Link::default() }; traffic.grid.links.len()],
            pending: BTreeMap::new(),
            arrivals: vec![0; planned.len()],
            count: 0,
        };
        for label in order {
            naive.begin(label);
        }
        naive
    }

    fn begin(&mut self, transfer: usize) {
        let (plan, full) = (&self.traffic.transfers[transfer], self.traffic.grid.flit_bytes);
        for index in 0..plan.bytes.div_ceil(full).max(1) {
            let after = plan.asks.iter().cycle().nth(usize::try_from(index).unwrap());
            let bytes = full.min(plan.bytes - index * full);
            self.flits.push(Flit { transfer, bytes, hop: 0 });
            self.later(
                plan.at + after.unwrap_or(&0),
                0,
                Action::Stand { flit: self.flits.len() - 1 },
            );
        }
    }

    /// Flits that begin come first, and all others in the order in which they were scheduled.
    fn later(&mut self, time: u64, phase: usize, action: Action) {
        self.count += 1;
        self.pending.insert((time, phase, self.count), action);
    }

    fn happen(&mut self, action: Action, now: u64) {
        match action {
            Action::Free => {}
            Action::Credit { link } => self.links[link].places += 1,
            Action::Reach { flit, link } => self.reach(flit, link, now),
            Action::Stand { flit } => {
                let Flit { transfer, hop, .. } = self.flits[flit];
                let route = &self.routes[transfer];
                match hop {
                    0 => self.links[route[0].index()].source.push_back((flit, now)),
                    hop => self.links[route[hop - 1].index()].behind.push_back((flit, now)),
                }
            }
        }
    }

    /// Returns the requests for a link: the input (0 for flits that begin), the flit, and its request time.
    fn heads(&self, link: usize) -> Vec<(usize, usize, u64)> {
        let wants = |&(flit, _): &(usize, u64)| {
            let Flit { transfer, hop, .. } = self.flits[flit];
            self.routes[transfer][hop].index() == link
        };
        let behind =
            self.links.iter().enumerate().map(|(input, at)| (input + 1, at.behind.front()));
        let all = std::iter::once((0, self.links[link].source.front())).chain(behind);
        let heads =
            all.filter_map(|(input, head)| Some((input, *head.filter(|head| wants(head))?)));
        heads.map(|(input, (flit, asked))| (input, flit, asked)).collect()
    }

    fn serve(&mut self, link: usize, now: u64) -> bool {
        let heads = self.heads(link);
        if self.links[link].free > now || self.links[link].places == 0 || heads.is_empty() {
            return false;
        }
        let after_last = |input| self.links[link].served_last.is_none_or(|last| input > last);
        let chosen = match self.arbiter {
            Arbiter::Fifo => heads.iter().min_by_key(|&&(input, _, asked)| (asked, input)),
            Arbiter::RoundRobin => heads.iter().find(|head| after_last(head.0)).or(heads.first()),
            Arbiter::OldestFirst => {
                let begun = |flit: usize| self.traffic.transfers[self.flits[flit].transfer].at;
                heads.iter().min_by_key(|head| (begun(head.1), head.0))
            }
        };
        let &(input, flit, _) = chosen.unwrap();
        self.links[link].served_last = Some(input);
        self.links[link].places -= 1;
        if input == 0 {
            self.links[link].source.pop_front();
        } else {
            self.links[input - 1].behind.pop_front();
            self.give_back(input - 1, now);
        }
        self.cross(link, flit, now);
        true
    }

    fn give_back(&mut self, link: usize, left: u64) {
        let credit_latency = self.traffic.grid.links[link].propagation.ps().max(1);
        self.later(left + credit_latency, 1, Action::Credit { link });
    }

    fn cross(&mut self, link: usize, flit: usize, now: u64) {
        let spec = self.traffic.grid.links[link];
        let Flit { transfer, bytes, hop } = self.flits[flit];
        let end = now + spec.bandwidth.span(bytes + self.traffic.grid.header_bytes).ps();
        let arrived = (end + spec.propagation.ps()).max(now + 1);
        self.links[link].free = end;
        self.later(end, 1, Action::Free);
        if hop + 1 == self.routes[transfer].len() {
            self.give_back(link, arrived);
        }
        let node = self.traffic.grid.nodes[spec.to.index()];
        if node.is_serial {
            // Simultaneous arrivals are ordered by the number of their link.
            return self.later(arrived, 2 + link, Action::Reach { flit, link });
        }
        let header = *self.headers.entry((transfer, hop)).or_insert(arrived + node.overhead.ps());
        self.leave(flit, arrived.max(header));
    }

    /// A serial node processes one overhead after another.
    fn reach(&mut self, flit: usize, link: usize, now: u64) {
        let Flit { transfer, hop, .. } = self.flits[flit];
        let node = self.traffic.grid.links[link].to.index();
        let overhead = self.traffic.grid.nodes[node].overhead.ps();
        let header = *self.headers.entry((transfer, hop)).or_insert_with(|| {
            let processed = self.processed.entry(node).or_default();
            *processed = now.max(*processed) + overhead;
            *processed
        });
        self.leave(flit, now.max(header));
    }

    fn leave(&mut self, flit: usize, leaves: u64) {
        let Flit { transfer, hop, .. } = self.flits[flit];
        if hop + 1 == self.routes[transfer].len() {
            self.arrivals[transfer] = self.arrivals[transfer].max(leaves);
        } else {
            self.flits[flit].hop += 1;
            self.later(leaves, 1, Action::Stand { flit });
        }
    }
}

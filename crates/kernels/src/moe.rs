//! A mixture of experts: tokens travel to the PEs of their experts, and the results travel back.

mod routing;

pub use routing::{Choice, Routing};

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use cubeyard_runtime::dtype::DType;

use super::linear::Activation;
use cubeyard_collectives::collective::{Algorithm as _, Direct, Wire, World, by_turns, port_to};
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Ref, Tile, Tl};

/// Sends each token to its experts, computes `silu(x U) D` there, and sums the results weighted by the gates.
/// Arguments: x and the output, with a row per PE that holds all its tokens; U and D, with a row per PE that holds the
/// matrices of all its experts; a buffer for the tokens of each PE's experts; the features of a token; the hidden
/// features between U and D; and the rank of the launch's first PE.
///
/// Each token is a message. The kernel knows the routing in advance, so no time is spent in a router. A token that all
/// its experts dropped becomes 0. Ranks are the PEs of all launches, connected by [`moe_wires`].
pub fn moe(routing: &Rc<Routing>) -> Kernel {
    let mut hasher = DefaultHasher::new();
    format!("{routing:?}").hash(&mut hasher);
    let (name, routing) = (format!("moe {:016x}", hasher.finish()), Rc::clone(routing));
    Kernel::new(&name, move |tl, args| {
        let routing = Rc::clone(&routing);
        Box::pin(async move { Member::new(tl, &args, routing).run() })
    })
}

/// Returns channels between all pairs of ranks.
pub fn moe_wires(ranks: usize) -> Vec<Wire> {
    Direct.wires(&World::ring(ranks))
}

/// One PE of the group.
struct Member {
    tl: Tl,
    routing: Rc<Routing>,
    rank: usize,
    features: u64,
    hidden: u64,
    x: Ref,
    out: Ref,
    up: Ref,
    down: Ref,
    /// Buffer for the tokens of this PE's experts; the results replace the tokens.
    room: Ref,
}

impl Member {
    fn new(tl: Tl, args: &Args, routing: Rc<Routing>) -> Self {
        let [x, out, up, down, room] =
            [0, 1, 2, 3, 4].map(|position| args.tensor(position).local());
        let [features, hidden, first] = [5, 6, 7].map(|position| args.whole(position));
        let place = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0);
        let rank = usize::try_from(first + place).expect("fewer ranks than addresses");
        Self { tl, routing, rank, features, hidden, x, out, up, down, room }
    }

    fn run(&self) {
        self.dispatch();
        (0..self.routing.experts).for_each(|expert| self.compute(expert));
        self.combine();
    }

    /// Returns the ranks at each distance ahead and behind; so in each round all PEs send to different ranks.
    fn partners(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (rank, ranks) = (self.rank, self.routing.ranks);
        (1..ranks).map(move |step| ((rank + step) % ranks, (rank + ranks - step) % ranks))
    }

    /// Sends tokens to their experts.
    fn dispatch(&self) {
        let tl = &self.tl;
        for choice in self.routing.between(self.rank, self.rank) {
            tl.store(&self.slot(choice), &tl.load(&self.token(&self.x, choice)));
        }
        for (to, from) in self.partners() {
            by_turns(
                self.routing.between(self.rank, to),
                self.routing.between(from, self.rank),
                |choice| tl.send(port_to(to), &tl.load(&self.token(&self.x, choice))),
                |choice| tl.store(&self.slot(choice), &self.receive(from)),
            );
        }
    }

    /// Replaces the tokens of an expert by its results.
    fn compute(&self, expert: usize) {
        let (tl, this) = (&self.tl, self.rank * self.routing.experts + expert);
        let (index, tokens) = (expert as u64, self.routing.load(this) as u64);
        if tokens == 0 {
            return;
        }
        let matrix = |of: &Ref, rows: u64, columns: u64| {
            tl.load(&of.at(index * rows * columns, &[rows, columns]))
        };
        let first = index * self.routing.capacity as u64 * self.features;
        let room = self.room.at(first, &[tokens, self.features]);
        let up = matrix(&self.up, self.features, self.hidden);
        let down = matrix(&self.down, self.hidden, self.features);
        let hidden = Activation::Silu.tile(tl, &tl.dot(&tl.load(&room), &up), DType::F16);
        let answers = tl.dot(&hidden, &down);
        tl.store(&room, &tl.cast(&answers, DType::F16));
    }

    /// Sends the results back to the tokens' ranks, and sums them there.
    fn combine(&self) {
        let tl = &self.tl;
        let empty = || tl.zeros(&[1, self.features], DType::F32);
        let mut sums: Vec<Tile> = (0..self.routing.tokens).map(|_| empty()).collect();
        let mut add = |choice: &Choice, answer: &Tile| {
            let sum = &mut sums[choice.token % self.routing.tokens];
            *sum = tl.eval(&answer.lazy().cast(DType::F32).fma(choice.gate, &*sum));
        };
        for choice in self.routing.between(self.rank, self.rank) {
            add(choice, &tl.load(&self.slot(choice)));
        }
        for (to, from) in self.partners() {
            by_turns(
                self.routing.between(to, self.rank),
                self.routing.between(self.rank, from),
                |choice| tl.send(port_to(to), &tl.load(&self.slot(choice))),
                |choice| add(choice, &self.receive(from)),
            );
        }
        for (token, sum) in sums.iter().enumerate() {
            let to = self.out.at(token as u64 * self.features, &[1, self.features]);
            tl.store(&to, &tl.cast(sum, DType::F16));
        }
    }

    fn receive(&self, from: usize) -> Tile {
        self.tl.recv_async(port_to(from), &[1, self.features], DType::F16)
    }

    /// Returns the row of a choice's token on this rank.
    fn token(&self, of: &Ref, choice: &Choice) -> Ref {
        let token = choice.token % self.routing.tokens;
        of.at(token as u64 * self.features, &[1, self.features])
    }

    /// Returns the buffer slot of a choice's token on this rank.
    fn slot(&self, choice: &Choice) -> Ref {
        let expert = choice.expert % self.routing.experts;
        let slot = expert * self.routing.capacity + choice.slot;
        self.room.at(slot as u64 * self.features, &[1, self.features])
    }
}

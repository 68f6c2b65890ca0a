//! Closed form of the latency of a request on an otherwise idle machine, split into its parts.
//!
//! Flit `j` of a transfer leaves link `h` at the latest of three times: when it arrived and crossed by itself; when the
//! first flit arrived and `j + 1` flits crossed without a gap; or, if data comes out of memory in rounds, when the
//! first flit of the last round arrived and the others followed. Between these flits, times grow linearly, so no other
//! flit can be the latest. The computation takes one step per link, regardless of the size. It shares only the rules
//! with the engine (`docs/machine-rules.md`). It covers neither finite buffers nor banks with rows.

use cubeyard_sim::{Forwarding, LinkId, Network, Route, Span};

use crate::message::{Access, Direction};
use crate::model::ChannelsSpec;

/// Latency of a request by cause, along its critical path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyParts {
    /// Sum of the overheads of nodes on the route.
    pub overhead: Span,
    /// Sum of the propagation delays of links.
    pub wire: Span,
    /// Time to put the flits of the data onto links.
    pub serialisation: Span,
    /// Service time of bursts in the memory.
    pub service: Span,
}

impl LatencyParts {
    /// Returns the sum of all parts.
    pub fn total(&self) -> Span {
        self.overhead + self.wire + self.serialisation + self.service
    }
}

/// Returns the latency of an access to a memory with these channels on an otherwise idle machine, from the time at
/// which a component with this `overhead` makes it.
pub fn unloaded_latency(
    network: &Network,
    memory: &ChannelsSpec,
    access: &Access,
    overhead: Span,
) -> LatencyParts {
    let form = Form { network, memory, bytes: access.bytes };
    let start = Point::default().overhead(overhead.ps());
    let done = match (access.direction, &access.back) {
        (Direction::Read, back) => {
            let asked = form.command(&access.there, start);
            back.as_ref().map_or(asked, |back| form.read(back, asked))
        }
        (Direction::Write, None) => form.write(&access.there, start),
        (Direction::Write, Some(back)) => form.command(back, form.write(&access.there, start)),
    };
    done.0
}

/// Point in time, as the sum of the latency parts that led to it.
#[derive(Clone, Copy, Debug, Default)]
struct Point(LatencyParts);

impl Point {
    fn at(&self) -> u64 {
        self.0.total().ps()
    }

    fn overhead(mut self, ps: u64) -> Self {
        self.0.overhead += Span::from_ps(ps);
        self
    }

    fn wire(mut self, ps: u64) -> Self {
        self.0.wire += Span::from_ps(ps);
        self
    }

    fn serial(mut self, ps: u64) -> Self {
        self.0.serialisation += Span::from_ps(ps);
        self
    }

    fn service(mut self, ps: u64) -> Self {
        self.0.service += Span::from_ps(ps);
        self
    }

    /// Returns the later of two times, and `self` if they are equal.
    fn max(self, other: Self) -> Self {
        if other.at() > self.at() { other } else { self }
    }
}

/// Times at which flits request the first link of a route.
#[derive(Clone, Copy)]
enum Asks {
    /// All flits at one time.
    At(Point),
    /// Each flit when its bursts end. All bursts are requested at once, and each channel serves one burst per round.
    Rounds { from: Point, burst: u64, channels: u64, per_flit: u64, bursts: u64 },
}

impl Asks {
    fn of(self, flit: u64) -> Point {
        match self {
            Self::At(point) => point,
            Self::Rounds { from, burst, channels, per_flit, bursts } => {
                let last = bursts.min((flit + 1) * per_flit) - 1;
                from.service(burst.saturating_mul(last / channels + 1))
            }
        }
    }

    /// Returns the first flit in the same round as a flit.
    fn first_of_round(self, flit: u64) -> u64 {
        match self {
            Self::At(_) => 0,
            Self::Rounds { channels, per_flit, .. } => flit - flit % (channels / per_flit).max(1),
        }
    }
}

struct Form<'a> {
    network: &'a Network,
    memory: &'a ChannelsSpec,
    bytes: u64,
}

impl Form<'_> {
    /// Returns the arrival of a transfer without payload.
    fn command(&self, route: &Route, start: Point) -> Point {
        let empty = Form { bytes: 0, ..*self };
        empty.carry(route, Asks::At(start), 0)
    }

    /// Returns the arrival of the data of a read that reached its memory at `asked`.
    fn read(&self, back: &Route, asked: Point) -> Point {
        let asks = Asks::Rounds {
            from: asked,
            burst: self.memory.burst.ps(),
            channels: self.memory.channels,
            per_flit: self.flit_bursts(),
            bursts: self.bytes.div_ceil(self.memory.burst_bytes),
        };
        self.carry(back, asks, self.flits() - 1)
    }

    /// Returns the end of the last burst of a write.
    fn write(&self, there: &Route, start: Point) -> Point {
        let (flits, per_round) = (self.flits(), self.per_round());
        let full = self.flit_service(self.flit_bursts());
        let last_bytes = self.flit_bytes(flits - 1);
        let last = self.flit_service(last_bytes.div_ceil(self.memory.burst_bytes));
        let delivered = |flit| self.carry(there, Asks::At(start), flit);
        // Flits that share channels follow each other. The end is the latest of three cases: the first of these flits
        // came so early that all bursts follow without a gap; the last flit finds its channels free; or the last flit,
        // being short, arrives directly behind the previous one.
        let channels = (0..flits.min(per_round)).map(|first| {
            let count = (flits - first).div_ceil(per_round);
            let final_flit = first + (count - 1) * per_round;
            let final_service = if final_flit == flits - 1 { last } else { full };
            let from = |place: u64| {
                let before = count - 1 - place;
                delivered(first + place * per_round)
                    .service(full.saturating_mul(before).saturating_add(final_service))
            };
            [0, count.saturating_sub(2), count - 1].map(from).into_iter().fold(from(0), Point::max)
        });
        channels.reduce(Point::max).expect("a write has a flit")
    }

    fn flits(&self) -> u64 {
        self.network.flits(self.bytes)
    }

    fn flit_bytes(&self, flit: u64) -> u64 {
        let full = self.network.flit_bytes();
        full.min(self.bytes - flit * full)
    }

    fn flit_bursts(&self) -> u64 {
        self.network.flit_bytes() / self.memory.burst_bytes
    }

    /// Returns the number of flits that the channels serve in one round.
    fn per_round(&self) -> u64 {
        (self.memory.channels / self.flit_bursts()).max(1)
    }

    /// Returns the time for which a flit with this many bursts occupies its channels, in picoseconds.
    fn flit_service(&self, bursts: u64) -> u64 {
        self.memory.burst.ps().saturating_mul(bursts.div_ceil(self.memory.channels))
    }

    /// Returns the arrival of a flit at the end of the route.
    fn carry(&self, route: &Route, mut asks: Asks, flit: u64) -> Point {
        let mut rest: &[LinkId] = route;
        while let Some(leg) = self.leg(rest) {
            let stored = leg < rest.len();
            if !stored {
                return self.cross(rest, asks, flit, false);
            }
            let (there, beyond) = rest.split_at(leg);
            let gathered = self.cross(there, asks, self.flits() - 1, true);
            let overhead = self.overhead(there[leg - 1]).max(1);
            asks = Asks::At(gathered.overhead(overhead));
            rest = beyond;
        }
        asks.of(flit)
    }

    /// Returns the number of links up to the next store-and-forward node, or to the end.
    fn leg(&self, route: &[LinkId]) -> Option<usize> {
        let stores = |link: &LinkId| {
            let node = self.network.link(*link).to;
            self.network.nodes()[node.index()].forwarding == Forwarding::StoreAndForward
        };
        (!route.is_empty()).then(|| route.iter().position(stores).map_or(route.len(), |at| at + 1))
    }

    fn overhead(&self, link: LinkId) -> u64 {
        self.network.nodes()[self.network.link(link).to.index()].overhead.ps()
    }

    /// Returns the arrival of a flit at the end of a leg.
    fn cross(&self, leg: &[LinkId], asks: Asks, flit: u64, stored: bool) -> Point {
        let before = flit.saturating_sub(1);
        let round = asks.first_of_round(before);
        // Request times of the first flit, the first flit of the round, the previous flit, and this flit.
        let mut first = asks.of(0);
        let mut others = [round, before, flit].map(|number| asks.of(number));
        for (hop, &link) in leg.iter().enumerate() {
            let spec = self.network.link(link);
            let span = |number| self.network.flit_span(link, self.flit_bytes(number)).ps();
            let (full, propagation) = (span(0), spec.propagation.ps());
            let in_a_row = |count: u64| first.serial(full.saturating_mul(count));
            let a = others[0].serial(full).max(in_a_row(round + 1));
            let b = others[1]
                .serial(full)
                .max(in_a_row(before + 1))
                .max(a.serial(full.saturating_mul(before - round)));
            let this =
                if flit == 0 { first.serial(full) } else { others[2].max(b).serial(span(flit)) };
            // A flit without payload is on the wire for at least one picosecond.
            let wire = if full == 0 { propagation.max(1) } else { propagation };
            let charged = if stored && hop + 1 == leg.len() { 0 } else { self.overhead(link) };
            first = in_a_row(1).wire(wire).overhead(charged);
            others = [a, b, this].map(|point| first.max(point.wire(wire)));
        }
        others[2]
    }
}

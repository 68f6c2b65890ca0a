//! Experts of a step: the experts that its tokens use, and their places.

use crate::spec::Experts;

/// Placement of experts on the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpertPlacement {
    /// Every expert is divided over all PEs.
    #[default]
    Split,
    /// Each SIP has its own experts, each divided over the PEs of the SIP.
    Sip,
    /// Each cube, or group of neighbouring cubes, has its own experts.
    Cube,
}

impl ExpertPlacement {
    /// All placements with their names.
    pub const NAMES: [(&'static str, Self); 3] =
        [("split", Self::Split), ("sip", Self::Sip), ("cube", Self::Cube)];
}

/// Experts that the tokens of a step use.
///
/// The experts chosen by each token are unknown. The number of distinct experts is the [expected](Experts::expected)
/// number, rounded; they are spread evenly over all experts. Each choice of the tokens has separate experts, which
/// divide all tokens evenly, in order; one choice may have one expert more than another.
///
/// Experts that all tokens share are at every place, and each place processes its part of the tokens.
///
/// ```
/// use cubeyard_model::cut::{ExpertPlacement, Routing};
/// use cubeyard_model::spec::Experts;
///
/// // Of one token 2 of 8 experts; of 32 tokens all, with 8 tokens each.
/// let experts = Experts { count: 8, active: 2 };
/// let routing = |tokens| Routing::new(experts, ExpertPlacement::Split, tokens, [2, 16]);
/// assert_eq!(routing(1).used, 2);
/// let hits = routing(32).hits(0);
/// assert_eq!((hits.len(), hits[1].first, hits[1].count), (8, 8, 8));
/// // Of 8 tokens 7: the first choice has 4 of them, the second 3.
/// let tokens: Vec<_> = routing(8).hits(0).iter().map(|hit| (hit.first, hit.count)).collect();
/// assert_eq!(tokens, [(0, 2), (2, 2), (4, 2), (6, 2), (0, 2), (2, 3), (5, 3)]);
/// // Four neighbouring cubes for each expert: of one token, 8 of 32 cubes compute.
/// let routing = Routing::new(experts, ExpertPlacement::Cube, 1, [2, 16]);
/// assert_eq!((routing.places, routing.local), (8, 1));
/// let busy = (0..8).filter(|place| !routing.hits(*place).is_empty());
/// assert_eq!(busy.collect::<Vec<_>>(), [0, 4]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Experts of the model.
    pub experts: Experts,
    /// Number of places over which experts are divided; each place consists of neighbouring cubes.
    pub places: u64,
    /// Number of experts per place.
    pub local: u64,
    /// Number of distinct experts that the tokens of a step use.
    pub used: u64,
    /// Number of tokens per step.
    pub tokens: u64,
    /// Number of experts that all tokens share.
    pub shared: u64,
}

/// Expert used by a range of consecutive tokens of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Index of the expert in the model; shared experts follow all others.
    pub expert: u64,
    /// Index of the expert at its place.
    pub matrix: u64,
    /// Index of the first token that uses the expert.
    pub first: u64,
    /// Number of tokens that use the expert.
    pub count: u64,
    /// Row of the first token in the inner features of the place.
    pub row: u64,
}

impl Routing {
    /// Distributes experts over SIPs and their cubes, and the tokens of a step over experts.
    pub fn new(
        experts: Experts,
        placement: ExpertPlacement,
        tokens: u64,
        [sips, cubes]: [u64; 2],
    ) -> Self {
        let most = match placement {
            ExpertPlacement::Split => 1,
            ExpertPlacement::Sip => sips,
            ExpertPlacement::Cube => sips * cubes,
        };
        // The maximum number of places for which all have the same number of experts and cubes.
        let fits =
            |places: &u64| most.is_multiple_of(*places) && experts.count.is_multiple_of(*places);
        let places = (1..=most).rev().find(fits).unwrap_or(1);
        let used = experts.used(tokens);
        Self { experts, places, local: experts.count / places, used, tokens, shared: 0 }
    }

    /// Adds experts that all tokens share.
    ///
    /// ```
    /// use cubeyard_model::cut::{ExpertPlacement, Routing};
    /// use cubeyard_model::spec::Experts;
    ///
    /// // One token, 2 of 8 experts and a shared one, which follows them.
    /// let experts = Experts { count: 8, active: 2 };
    /// let routing = |place, tokens| Routing::new(experts, place, tokens, [2, 16]).with_shared(1);
    /// let used: Vec<_> = routing(ExpertPlacement::Split, 1).hits(0).iter().map(|hit| hit.expert).collect();
    /// assert_eq!(used, [0, 4, 8]);
    /// // Each of two places has 4 experts and a copy of the shared one, which processes half of the tokens.
    /// let hits = routing(ExpertPlacement::Sip, 6).hits(1);
    /// let last = hits.last().unwrap();
    /// assert_eq!((last.expert, last.matrix, last.first, last.count), (8, 4, 3, 3));
    /// ```
    #[must_use]
    pub const fn with_shared(self, shared: u64) -> Self {
        Self { shared, ..self }
    }

    /// Returns the experts of a place that are used by tokens.
    pub fn hits(&self, place: u64) -> Vec<Hit> {
        let mut hits: Vec<Hit> = Vec::new();
        for index in 0..self.used {
            let expert = index * self.experts.count / self.used;
            let (first, count) = self.tokens_of(index);
            if expert / self.local == place && count > 0 {
                let row = hits.last().map_or(0, |last| last.row + last.count);
                hits.push(Hit { expert, matrix: expert % self.local, first, count, row });
            }
        }
        let own = |place: u64| place * self.tokens / self.places;
        let (first, count) = (own(place), own(place + 1) - own(place));
        for index in (0..self.shared).filter(|_| count > 0) {
            let row = hits.last().map_or(0, |last| last.row + last.count);
            let (expert, matrix) = (self.experts.count + index, self.local + index);
            hits.push(Hit { expert, matrix, first, count, row });
        }
        hits
    }

    /// Returns the first token of one of the used experts, and its number of tokens.
    fn tokens_of(&self, index: u64) -> (u64, u64) {
        let first_of = |choice: u64| (choice * self.used).div_ceil(self.experts.active);
        let choice = index * self.experts.active / self.used;
        let (begin, end) = (first_of(choice), first_of(choice + 1));
        let start = |index: u64| (index - begin) * self.tokens / (end - begin);
        (start(index), start(index + 1) - start(index))
    }

    /// Returns the maximum number of rows of inner features of a place.
    pub fn rows(&self) -> u64 {
        let rows = |place| self.hits(place).iter().map(|hit| hit.count).sum();
        (0..self.places).map(rows).max().unwrap_or(0)
    }
}

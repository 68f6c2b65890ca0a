//! Routing of tokens to experts under a capacity limit.

/// The assignment of a token to an expert.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Index of the token, over all ranks.
    pub token: usize,
    /// Index of the expert, over all ranks.
    pub expert: usize,
    /// Slot of the token in the expert's buffer.
    pub slot: usize,
    /// Weight of the expert's result in the token's sum.
    pub gate: f64,
}

/// The routing of all tokens. Tokens and experts are numbered by rank, and all ranks have the same number of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Routing {
    /// Number of ranks.
    pub ranks: usize,
    /// Number of tokens per rank.
    pub tokens: usize,
    /// Number of experts per rank.
    pub experts: usize,
    /// Maximum number of tokens per expert.
    pub capacity: usize,
    /// Assignments within the experts' capacity.
    pub taken: Vec<Choice>,
    /// Number of assignments that were dropped.
    pub dropped: usize,
}

impl Routing {
    /// Routes tokens by their wanted experts with gates, best first. All first choices precede all second choices, each
    /// in the order of tokens. A full expert drops later tokens: they receive nothing from it, and their other gates
    /// are unchanged.
    pub fn new(
        wanted: &[Vec<(usize, f64)>],
        [ranks, tokens, experts]: [usize; 3],
        capacity: usize,
    ) -> Self {
        let mut this = Self { ranks, tokens, experts, capacity, taken: Vec::new(), dropped: 0 };
        let mut filled = vec![0; ranks * experts];
        let most = wanted.iter().map(Vec::len).max().unwrap_or_default();
        for place in 0..most {
            let choices = wanted.iter().enumerate();
            for (token, (expert, gate)) in
                choices.filter_map(|(token, all)| Some((token, *all.get(place)?)))
            {
                let slot = filled[expert];
                if slot == capacity {
                    this.dropped += 1;
                    continue;
                }
                filled[expert] += 1;
                this.taken.push(Choice { token, expert, slot, gate });
            }
        }
        this
    }

    /// Returns the rank of a choice's token.
    pub fn home(&self, choice: &Choice) -> usize {
        choice.token / self.tokens
    }

    /// Returns the rank of a choice's expert.
    pub fn host(&self, choice: &Choice) -> usize {
        choice.expert / self.experts
    }

    /// Returns the choices from tokens of one rank to experts of another, in an order that both ranks know.
    pub fn between(&self, home: usize, host: usize) -> impl Iterator<Item = &Choice> {
        let is = move |choice: &&Choice| self.home(choice) == home && self.host(choice) == host;
        self.taken.iter().filter(is)
    }

    /// Returns the number of tokens of an expert.
    pub fn load(&self, expert: usize) -> usize {
        self.taken.iter().filter(|choice| choice.expert == expert).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_choices_come_first_and_what_is_over_is_dropped() {
        let wanted = [vec![(0, 0.9), (1, 0.1)], vec![(0, 0.8), (2, 0.2)], vec![(0, 1.0), (1, 0.0)]];
        let routing = Routing::new(&wanted, [3, 1, 1], 2);
        let taken: Vec<_> = routing.taken.iter().map(|it| (it.token, it.expert, it.slot)).collect();
        // Expert 0 is full when token 2 arrives; all second choices go to other experts.
        assert_eq!(taken, [(0, 0, 0), (1, 0, 1), (0, 1, 0), (1, 2, 0), (2, 1, 1)]);
        assert_eq!(routing.dropped, 1);
        assert_eq!([0, 1, 2].map(|expert| routing.load(expert)), [2, 2, 1]);
        let from_0: Vec<_> = routing.between(0, 1).map(|it| it.slot).collect();
        assert_eq!(from_0, [0]);
        assert_eq!(routing.between(2, 0).count(), 0);
    }
}

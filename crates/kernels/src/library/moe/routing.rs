//! Which token goes to which expert, and which are dropped.

/// A token that an expert takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The token.
    pub token: usize,
    /// The expert.
    pub expert: usize,
    /// Which of the expert's tokens it is.
    pub slot: usize,
    /// How much of the expert's answer the token gets.
    pub gate: f64,
}

/// Where tokens go. Ranks have tokens and experts in their order, each as many.
#[derive(Clone, Debug, PartialEq)]
pub struct Routing {
    /// How many ranks there are.
    pub ranks: usize,
    /// How many tokens a rank has.
    pub tokens: usize,
    /// How many experts a rank has.
    pub experts: usize,
    /// How many tokens an expert takes at most.
    pub capacity: usize,
    /// What experts take.
    pub taken: Vec<Choice>,
    /// How many choices were dropped.
    pub dropped: usize,
}

impl Routing {
    /// Of the experts that each token would go to, the best first, with their gates. All first choices come before
    /// all second ones, each in the order of tokens. An expert that has all that it takes drops what comes later:
    /// the token gets nothing from it, and its other gate stays as it is.
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

    /// The rank that has the token of a choice.
    pub fn home(&self, choice: &Choice) -> usize {
        choice.token / self.tokens
    }

    /// The rank that has the expert of a choice.
    pub fn host(&self, choice: &Choice) -> usize {
        choice.expert / self.experts
    }

    /// What goes from the tokens of one rank to the experts of another, in an order that both know.
    pub fn between(&self, home: usize, host: usize) -> impl Iterator<Item = &Choice> {
        let is = move |choice: &&Choice| self.home(choice) == home && self.host(choice) == host;
        self.taken.iter().filter(is)
    }

    /// How many tokens an expert has.
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
        // Token 2 finds expert 0 full; the second choices of all go elsewhere.
        assert_eq!(taken, [(0, 0, 0), (1, 0, 1), (0, 1, 0), (1, 2, 0), (2, 1, 1)]);
        assert_eq!(routing.dropped, 1);
        assert_eq!([0, 1, 2].map(|expert| routing.load(expert)), [2, 2, 1]);
        let from_0: Vec<_> = routing.between(0, 1).map(|it| it.slot).collect();
        assert_eq!(from_0, [0]);
        assert_eq!(routing.between(2, 0).count(), 0);
    }
}

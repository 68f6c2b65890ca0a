//! Synthetic router: the experts that tokens prefer.

use cubeyard_runtime::uniform;

use crate::reference::size;

/// Returns the preferred experts of each token, best first, with gates that sum to 1. Scores are drawn
/// uniformly; the score of expert e of n is reduced by `skew` % · e / n, which favours the first experts.
pub(super) fn wanted(tokens: u64, experts: u64, top: u64, skew: u64) -> Vec<Vec<(usize, f64)>> {
    let score = |token: u64, expert: u64| {
        let drawn = uniform(4, token * experts + expert);
        drawn - skew as f64 / 100.0 * expert as f64 / experts as f64
    };
    let of_token = |token| {
        let mut scores: Vec<_> =
            (0..experts).map(|expert| (size(expert), score(token, expert))).collect();
        scores.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        scores.truncate(size(top));
        let all: f64 = scores.iter().map(|(_, score)| score.exp()).sum();
        scores.into_iter().map(|(expert, score)| (expert, score.exp() / all)).collect()
    };
    (0..tokens).map(of_token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of tokens whose first choice is in the first half of the experts.
    fn first_half(skew: u64) -> usize {
        let wanted = wanted(1000, 8, 2, skew);
        wanted.iter().filter(|experts| experts[0].0 < 4).count()
    }

    #[test]
    fn the_first_experts_are_preferred_by_as_much_as_is_asked() {
        assert!((450..550).contains(&first_half(0)), "{}", first_half(0));
        assert!(first_half(50) > 700 && first_half(100) > first_half(50));
    }

    #[test]
    fn a_token_has_different_experts_and_gates_that_fall() {
        for experts in wanted(100, 5, 2, 30) {
            let [(one, much), (other, less)] = experts.as_slice() else { panic!("{experts:?}") };
            assert!(one != other && much >= less && *less > 0.0);
            assert!((much + less - 1.0).abs() < 1e-12);
        }
    }
}

//! Text of the PEs that hold a part.

use cubeyard_device::request::PeRef;

use super::Shard;

/// Formats the PEs of a part's copies, e.g. `sip0.cube0-15.pe3`.
///
/// The copies are one of [`Layout::parts`](super::Layout::parts): the same PEs in each of some cubes of some SIPs.
pub fn holders(copies: &[Shard]) -> String {
    let numbers = |of: fn(PeRef) -> u32| {
        let mut numbers: Vec<u32> = copies.iter().map(|shard| of(shard.at)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        ranges(&numbers)
    };
    let sips = numbers(|at| at.sip.number());
    let cubes = numbers(|at| at.cube.number());
    format!("sip{sips}.cube{cubes}.pe{}", numbers(|at| at.pe.number()))
}

/// Formats ascending numbers, e.g. `0-3,5`.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let text = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(u32::to_string).collect(),
    };
    runs.map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn numbers_that_follow_each_other_are_joined() {
        assert_eq!(ranges(&[0]), "0");
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[]), "");
    }
}

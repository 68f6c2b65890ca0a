//! Grids of values: every combination of the values of some keys.

use thiserror::Error;

/// Keys with their values; the last key varies fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid<V> {
    axes: Vec<(String, Vec<V>)>,
}

/// Error of lists that form no grid. The caller can name other keys or values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GridError {
    /// There is no key.
    #[error("expected at least one key")]
    Empty,
    /// A key has no values.
    #[error("{0}: expected at least one value")]
    NoValues(String),
    /// A key is named twice.
    #[error("{0}: expected each key once")]
    Repeated(String),
    /// The number of points exceeds the range of a `usize`.
    #[error("expected at most {} points, found more", usize::MAX)]
    TooLarge,
}

impl<V> Grid<V> {
    /// Creates a grid from the values of each key.
    pub fn new(axes: Vec<(String, Vec<V>)>) -> Result<Self, GridError> {
        for (place, (key, values)) in axes.iter().enumerate() {
            if values.is_empty() {
                return Err(GridError::NoValues(key.clone()));
            }
            if axes[..place].iter().any(|(known, _)| known == key) {
                return Err(GridError::Repeated(key.clone()));
            }
        }
        let mut lengths = axes.iter().map(|(_, values)| values.len());
        match lengths.try_fold(1_usize, usize::checked_mul) {
            _ if axes.is_empty() => Err(GridError::Empty),
            Some(_) => Ok(Self { axes }),
            None => Err(GridError::TooLarge),
        }
    }

    /// Returns the keys with their values.
    pub fn axes(&self) -> &[(String, Vec<V>)] {
        &self.axes
    }

    /// Returns the keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|(key, _)| key.as_str())
    }

    /// Returns the number of points, which is at least one.
    #[expect(clippy::len_without_is_empty, reason = "a grid is never empty")]
    pub fn len(&self) -> usize {
        self.axes.iter().map(|(_, values)| values.len()).product()
    }

    /// Returns the keys with the values of each point, in order.
    pub fn points(&self) -> impl Iterator<Item = Vec<(&str, &V)>> {
        (0..self.len()).map(|place| self.point(place))
    }

    /// Returns the keys with the values of the point at index `place`, which must be below [`len`](Self::len).
    pub fn point(&self, mut place: usize) -> Vec<(&str, &V)> {
        let mut point = Vec::new();
        for (key, values) in self.axes.iter().rev() {
            point.push((key.as_str(), &values[place % values.len()]));
            place /= values.len();
        }
        point.reverse();
        point
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(axes: &[(&str, &[u32])]) -> Result<Grid<u32>, GridError> {
        Grid::new(axes.iter().map(|(key, values)| ((*key).to_owned(), values.to_vec())).collect())
    }

    #[test]
    fn the_last_key_varies_fastest() {
        let grid = grid(&[("m", &[1, 2]), ("n", &[7, 8, 9])]).unwrap();
        let values = |point: Vec<(&str, &u32)>| (*point[0].1, *point[1].1);
        let points: Vec<_> = grid.points().map(values).collect();
        assert_eq!(points, [(1, 7), (1, 8), (1, 9), (2, 7), (2, 8), (2, 9)]);
        assert_eq!((grid.len(), grid.point(4)), (6, vec![("m", &2), ("n", &8)]));
        assert_eq!(grid.keys().collect::<Vec<_>>(), ["m", "n"]);
    }

    #[test]
    fn equal_values_are_points_of_their_own() {
        assert_eq!(grid(&[("m", &[1, 1])]).unwrap().points().count(), 2);
    }

    #[test]
    fn lists_that_make_no_grid_are_refused_with_their_key() {
        assert_eq!(grid(&[]), Err(GridError::Empty));
        assert_eq!(grid(&[("m", &[1]), ("n", &[])]), Err(GridError::NoValues("n".to_owned())));
        let twice = grid(&[("m", &[1]), ("n", &[1]), ("m", &[2])]);
        assert_eq!(twice, Err(GridError::Repeated("m".to_owned())));
        let axes = (0..70).map(|key| (key.to_string(), vec![0, 1])).collect();
        assert_eq!(Grid::new(axes), Err(GridError::TooLarge));
    }
}

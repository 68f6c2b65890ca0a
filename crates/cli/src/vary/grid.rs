//! Grids of values: every combination of the values of some keys.

use anyhow::{Result, bail};

use super::malformed;

/// Largest number of points of a grid.
const MOST: usize = 10_000;

/// Keys with their values; the last key varies fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) axes: Vec<(String, Vec<String>)>,
}

impl Grid {
    /// Reads keys with their values, as `KEY=A,B`.
    pub(super) fn new(texts: &[String]) -> Result<Self> {
        let mut axes: Vec<(String, Vec<String>)> = Vec::new();
        for text in texts {
            let (key, values) = text.split_once('=').ok_or_else(|| malformed(text))?;
            let (key, values) = (key.trim(), split(values).ok_or_else(|| malformed(text))?);
            let is_key =
                !key.is_empty() && !key.starts_with('-') && !key.contains(char::is_whitespace);
            if !is_key || values.iter().any(String::is_empty) {
                return Err(malformed(text));
            }
            if axes.iter().any(|(known, _)| known == key) {
                bail!(
                    "--vary {key}: expected each key once\n  help: name all its values at once, as in {key}=A,B"
                );
            }
            axes.push((key.to_owned(), values));
        }
        let points =
            axes.iter().try_fold(1_usize, |all, (_, values)| all.checked_mul(values.len()));
        match points {
            Some(points) if points <= MOST => Ok(Self { axes }),
            _ => bail!(
                "--vary: expected at most {MOST} points, found more\n  help: name fewer values"
            ),
        }
    }

    /// Returns the number of points.
    pub(super) fn len(&self) -> usize {
        self.axes.iter().map(|(_, values)| values.len()).product()
    }

    /// Returns the values of each point, in order.
    pub(super) fn points(&self) -> impl Iterator<Item = Vec<&str>> {
        (0..self.len()).map(|place| self.point(place))
    }

    /// Returns the values of one point.
    pub(super) fn point(&self, mut place: usize) -> Vec<&str> {
        let mut point = Vec::new();
        for (_, values) in self.axes.iter().rev() {
            point.push(values[place % values.len()].as_str());
            place /= values.len();
        }
        point.reverse();
        point
    }

    /// Returns the keys with the values of a point.
    pub(super) fn named(&self, point: &[&str]) -> Vec<(String, String)> {
        let keys = self.axes.iter().map(|(key, _)| key.clone());
        keys.zip(point.iter().map(|value| (*value).to_owned())).collect()
    }
}

/// Splits values at commas that are not in brackets; `None` if brackets do not match.
fn split(text: &str) -> Option<Vec<String>> {
    let (mut values, mut value, mut open) = (Vec::new(), String::new(), Vec::new());
    for character in text.chars() {
        match character {
            '[' => open.push(']'),
            '{' => open.push('}'),
            ']' | '}' if open.pop() != Some(character) => return None,
            ',' if open.is_empty() => {
                values.push(std::mem::take(&mut value).trim().to_owned());
                continue;
            }
            _ => {}
        }
        value.push(character);
    }
    values.push(value.trim().to_owned());
    open.is_empty().then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(texts: &[&str]) -> Result<Grid> {
        Grid::new(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_last_key_varies_fastest() {
        let grid = grid(&["m=1,2", "hbm.channels=4, 8"]).unwrap();
        let points: Vec<_> = grid.points().map(|point| point.join(" ")).collect();
        assert_eq!(points, ["1 4", "1 8", "2 4", "2 8"]);
    }

    #[test]
    fn values_with_commas_are_in_brackets() {
        let grid = grid(&["io.chiplets=[N],[N, S]", "x.y={a: 1, b: [2, 3]}"]).unwrap();
        let points: Vec<_> = grid.points().map(|point| point.join(" ")).collect();
        assert_eq!(points, ["[N] {a: 1, b: [2, 3]}", "[N, S] {a: 1, b: [2, 3]}"]);
    }

    #[test]
    fn other_forms_are_refused() {
        for text in ["", "m", "m=", "m=1,,2", "=1", "m=[1", "m=1]", "m=[1}", "--m=1", "a b=1"] {
            assert!(grid(&[text]).is_err(), "{text}");
        }
        assert!(grid(&["m=1", "m=2"]).unwrap_err().to_string().contains("each key once"));
        let many = format!("m={}", vec!["1"; 101].join(","));
        let error = grid(&[&many, &many.replace('m', "n")]).unwrap_err().to_string();
        assert!(error.contains("at most 10000 points"), "{error}");
    }
}

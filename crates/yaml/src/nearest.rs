//! Errors for unknown names, with the most similar known name.

use thiserror::Error;

/// Number of characters of the given name that are compared; no known name is longer.
const LONGEST: usize = 80;

/// Returns the name with the smallest edit distance from `found`, ignoring ASCII case; the first one if several are
/// equal.
pub fn nearest<'a>(found: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let found: String = found.chars().take(LONGEST).collect::<String>().to_ascii_lowercase();
    names.min_by_key(|name| strsim::levenshtein(&found, &name.to_ascii_lowercase()))
}

/// Error for a name that is not allowed. Use the nearest or another allowed name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected one of {known}; found `{found}`; the nearest is `{nearest}`")]
pub struct NoSuchName {
    /// Allowed names, separated by commas.
    pub known: String,
    /// Name that was given, escaped and cut to 80 characters.
    pub found: String,
    /// Most similar allowed name.
    pub nearest: &'static str,
}

impl NoSuchName {
    /// Returns the value of `all` with this name.
    ///
    /// # Panics
    /// If `all` is empty.
    pub fn find<T: Copy>(
        name: &str,
        all: &[T],
        name_of: impl Fn(T) -> &'static str,
    ) -> Result<T, Self> {
        let names: Vec<_> = all.iter().map(|&value| name_of(value)).collect();
        if let Some(place) = names.iter().position(|known| *known == name) {
            return Ok(all[place]);
        }
        Err(Self {
            known: names.join(", "),
            found: name.chars().take(LONGEST).flat_map(char::escape_debug).collect(),
            nearest: nearest(name, names.into_iter()).expect("there are names"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equals_is_taken() {
        assert_eq!(nearest("b", ["a", "c"].into_iter()), Some("a"));
        assert_eq!(nearest("b", [].into_iter()), None);
        assert_eq!(nearest("SITTING", ["flaw", "kitten"].into_iter()), Some("kitten"));
    }
}

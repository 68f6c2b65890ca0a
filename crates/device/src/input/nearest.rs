//! Finds the most similar name, for error messages.

/// Number of characters of the name found that are compared; no known name is longer.
const LONGEST: usize = 80;

/// Returns the name with the smallest edit distance from `found`, ignoring ASCII case; the first of equals.
pub fn nearest<'a>(found: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let found: String = found.chars().take(LONGEST).collect::<String>().to_ascii_lowercase();
    names.min_by_key(|name| strsim::levenshtein(&found, &name.to_ascii_lowercase()))
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

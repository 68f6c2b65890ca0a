//! Finds the most similar name, for error messages.

/// Number of characters of the name found that are compared; no known name is longer.
const LONGEST: usize = 80;

/// Returns the name with the smallest edit distance from `found`, ignoring ASCII case; the first of equals.
pub fn nearest<'a>(found: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let found: Vec<char> =
        found.chars().take(LONGEST).map(|character| character.to_ascii_lowercase()).collect();
    names.min_by_key(|name| distance(&found, name))
}

/// The edit distance, a row of the usual table at a time.
fn distance(found: &[char], name: &str) -> usize {
    let mut row: Vec<usize> = (0..=found.len()).collect();
    for (place, character) in name.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = place + 1;
        for (column, &other) in found.iter().enumerate() {
            let replaced = diagonal + usize::from(other != character.to_ascii_lowercase());
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[found.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(a: &str, b: &str) -> usize {
        distance(&a.chars().collect::<Vec<_>>(), b)
    }

    #[test]
    fn distances_are_the_textbooks() {
        assert_eq!(between("kitten", "sitting"), 3);
        assert_eq!(between("", "abc"), 3);
        assert_eq!(between("abc", ""), 3);
        assert_eq!(between("flaw", "lawn"), 2);
    }

    #[test]
    fn the_first_of_equals_is_taken() {
        assert_eq!(nearest("b", ["a", "c"].into_iter()), Some("a"));
        assert_eq!(nearest("b", [].into_iter()), None);
    }
}

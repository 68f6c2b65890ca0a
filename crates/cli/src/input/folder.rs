//! Trace files in a folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use super::{ENDINGS, printable};

/// Returns the trace files of a folder, recognised by their extensions, in natural order of their names:
/// `rank2` comes before `rank10`.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let shown = printable(&folder.to_string_lossy());
    let unreadable = |error| anyhow!("{shown}: {error}\n  help: check the path");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() && is_trace(&path) {
            found.push(path);
        }
    }
    if found.is_empty() {
        let endings = ENDINGS.join(", ");
        return Err(anyhow!(
            "{shown}: no file in this folder is named like a trace\n  help: expected names that end in \
             {endings}, or in one of them and .gz"
        ));
    }
    found.sort_by_cached_key(|path| natural(&path.to_string_lossy()));
    Ok(found)
}

fn is_trace(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    !name.starts_with('.') && ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Returns a key for natural ordering: runs of digits compare by value, other text as it is.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0_u64)];
    let mut in_number = false;
    for character in name.chars() {
        if let Some(digit) = character.to_digit(10) {
            let number = &mut parts.last_mut().expect("there is a part").1;
            *number = number.saturating_mul(10).saturating_add(digit.into());
            in_number = true;
            continue;
        }
        if std::mem::take(&mut in_number) {
            parts.push((String::new(), 0));
        }
        parts.last_mut().expect("there is a part").0.push(character);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_ordered_by_their_numbers() {
        let mut names = ["rank10.pickle", "rank2.pickle", "rank0.pickle", "a/rank1.pickle"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["a/rank1.pickle", "rank0.pickle", "rank2.pickle", "rank10.pickle"]);
    }

    #[test]
    fn names_of_traces_are_told_by_their_endings() {
        for name in ["a.pickle", "a.csv.gz", "a.trace", "a.log", "a.pkl.gz"] {
            assert!(is_trace(Path::new(name)), "{name}");
        }
        for name in ["README.md", ".hidden.csv", "native.json", "csv", "a.gz"] {
            assert!(!is_trace(Path::new(name)), "{name}");
        }
    }
}

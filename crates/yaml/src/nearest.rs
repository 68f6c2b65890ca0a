//! Errors for unknown names, with the most similar known name.

use std::cmp::Reverse;

use thiserror::Error;

/// Number of characters of the given name that are compared; no known name is longer.
const LONGEST: usize = 80;

/// Words of equal meaning, for guesses that share no letters with the known name.
const SYNONYMS: [&[&str]; 20] = [
    &["bandwidth", "throughput", "speed", "rate", "gbs", "bw"],
    &["latency", "delay", "overhead", "lat"],
    &["count", "number", "num"],
    &["chips", "devices", "gpus", "accelerators", "sips"],
    &["dies", "chiplets", "clusters", "cubes"],
    &["cores", "sms", "pes"],
    &["matmul", "matrix", "tensorcore", "mma", "gemm"],
    &["simd", "alu", "elementwise", "vector", "math"],
    &["scratchpad", "smem", "shared", "tcm"],
    &["dram", "memory", "vram", "hbm"],
    &["noc", "network", "mesh", "routers"],
    &["sequence", "seq", "seqlen", "length", "tokens", "prompt", "context", "ctx"],
    &["precision", "type", "dtype"],
    &["size", "bytes", "sizes", "capacity"],
    &["batch", "bs", "batchsize", "sequences", "users"],
    &["output", "out", "html", "page", "report"],
    &["clock", "frequency", "freq", "ghz", "mhz"],
    &["flops", "tflops", "gflops", "compute"],
    &["d2d", "interposer", "ucie"],
    &["world", "ranks", "nprocs", "nranks"],
];

/// Returns the name that `found` most likely means, ignoring ASCII case; the first one if several are equal. A name
/// that differs by a slip comes first, then the name that shares most words or meanings, then the name with the
/// smallest edit distance.
pub fn nearest<'a>(found: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let found: String = found.chars().take(LONGEST).collect::<String>().to_ascii_lowercase();
    names.min_by_key(|name| {
        let name = name.to_ascii_lowercase();
        let distance = strsim::levenshtein(&found, &name);
        let is_slip = 3 * distance <= found.chars().count();
        (!is_slip, Reverse(shared(&found, &name)), distance)
    })
}

/// Returns the name that `found` most likely means, as [`nearest`] does. `None` if no name shares a word or a meaning
/// with it.
pub fn meant<'a>(found: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = |text: &str| text.to_ascii_lowercase();
    nearest(found, names.filter(|name| shared(&lower(found), &lower(name)) > 0))
}

/// Returns the number of words of `found` that are part of `name`, contain a word of it, or mean the same as one.
fn shared(found: &str, name: &str) -> usize {
    let is_same = |one: &str, other: &str| {
        SYNONYMS.iter().any(|set| set.contains(&one) && set.contains(&other))
    };
    let is_shared = |word: &&str| {
        name.contains(word) || words(name).any(|own| word.contains(own) || is_same(word, own))
    };
    words(found).filter(is_shared).count()
}

/// Returns the words of a name that are long enough to have a meaning.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let is_known = |word: &str| word.len() >= 3 || SYNONYMS.iter().any(|set| set.contains(&word));
    name.split(|character: char| !character.is_alphanumeric()).filter(move |word| is_known(word))
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

    #[test]
    fn a_slip_counts_before_a_word_and_a_word_before_the_distance() {
        let near = |found, names: &[&'static str]| nearest(found, names.iter().copied()).unwrap();
        assert_eq!(near("burst", &["rows", "burst_bytes"]), "burst_bytes");
        assert_eq!(near("conext", &["batch", "context"]), "context");
        assert_eq!(near("sequence", &["spec", "experts", "context"]), "context");
        assert_eq!(near("hbm.speed", &["hbm.rows", "hbm.bandwidth"]), "hbm.bandwidth");
        assert_eq!(near("hbm_bw", &["hbm.rows", "hbm.bandwidth"]), "hbm.bandwidth");
        assert_eq!(near("bs", &["spec", "batch"]), "batch");
        assert_eq!(meant("out", ["reduce", "report"].into_iter()), Some("report"));
        assert_eq!(near("batc", &["batch", "batc_of_all"]), "batch");
        assert_eq!(near("", &["rows", "pe"]), "pe");
        assert_eq!(meant("sequence", ["batch", "context"].into_iter()), Some("context"));
        assert_eq!(meant("sequence", ["batch", "chunk"].into_iter()), None);
    }
}

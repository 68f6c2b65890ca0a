//! Parser of statements.

use std::iter::Peekable;
use std::str::SplitWhitespace;

use super::{Expectation, Request, ScriptError, Statement, Step};
use cubeyard_memory::policy::Kind;
use cubeyard_pickle::excerpt;
use cubeyard_units::Bytes;

const STATEMENTS: &str =
    "`space`, `granule`, `policy`, `alloc`, `free`, `largest`, `free-bytes` or a comment";
const OPTIONS: &str = "`align`, `at`, `high`, `stream`, `kind` or `->`";

const WORDS: [&str; 7] = ["space", "granule", "policy", "alloc", "free", "largest", "free-bytes"];

/// Returns whether a line can start with this word.
pub(in crate::trace) fn is_statement(word: &[u8]) -> bool {
    WORDS.iter().any(|known| known.as_bytes() == word)
}

/// Returns whether a line can start with a word that has this prefix.
pub(in crate::trace) fn begins_statement(word: &[u8]) -> bool {
    WORDS.iter().any(|known| known.as_bytes().starts_with(word))
}

/// Parses the statement on a line, if there is one.
pub(super) fn statement(line: usize, text: &str) -> Result<Option<Statement>, ScriptError> {
    let code = text.split_once('#').map_or(text, |(code, _)| code);
    let mut words = Words { line, words: code.split_whitespace().peekable() };
    let Some(first) = words.words.next() else { return Ok(None) };
    let step = step(first, &mut words)?;
    words.end()?;
    Ok(Some(Statement { line, step }))
}

fn step(first: &str, words: &mut Words<'_>) -> Result<Step, ScriptError> {
    Ok(match first {
        "space" => Step::Space(words.size("the size of the space")?),
        "granule" => Step::Granule(words.power_of_two("granule")?),
        "policy" => Step::Policy(words.name("the name of a policy")?),
        "alloc" => Step::Allocate(request(words)?),
        "free" => {
            let name = words.name("the name of an allocation")?;
            Step::Free { name, refused: words.refusal()? }
        }
        "largest" => Step::Largest(words.size("the size of the largest free range")?),
        "free-bytes" => Step::FreeBytes(words.size("the number of free bytes")?),
        other => return Err(words.wrong(STATEMENTS, other)),
    })
}

fn request(words: &mut Words<'_>) -> Result<Request, ScriptError> {
    let name = words.name("a name for the allocation")?;
    let mut request = Request::new(name, words.size("the size of the allocation")?);
    while let Some(word) = words.words.next() {
        let line = words.line;
        match word {
            "align" => set("align", line, &mut request.align, words.power_of_two("align")?)?,
            "at" => set("at", line, &mut request.at, words.size("an offset")?)?,
            "high" if request.high => return Err(ScriptError::Twice { line, option: "high" }),
            "high" => request.high = true,
            "stream" => set("stream", line, &mut request.stream, words.stream()?)?,
            "kind" => set("kind", line, &mut request.kind, words.kind()?)?,
            "->" => {
                request.outcome = Some(words.outcome()?);
                break;
            }
            other => return Err(words.wrong(OPTIONS, other)),
        }
    }
    Ok(request)
}

fn set<T>(
    option: &'static str,
    line: usize,
    slot: &mut Option<T>,
    value: T,
) -> Result<(), ScriptError> {
    match slot.replace(value) {
        Some(_) => Err(ScriptError::Twice { line, option }),
        None => Ok(()),
    }
}

struct Words<'a> {
    line: usize,
    words: Peekable<SplitWhitespace<'a>>,
}

impl<'a> Words<'a> {
    fn next(&mut self, expected: &'static str) -> Result<&'a str, ScriptError> {
        self.words.next().ok_or(ScriptError::Short { line: self.line, expected })
    }

    fn wrong(&self, expected: &'static str, found: &str) -> ScriptError {
        ScriptError::Word { line: self.line, expected, found: excerpt(found.as_bytes()) }
    }

    /// Reads a name, which cannot be the arrow before an expectation.
    fn name(&mut self, expected: &'static str) -> Result<String, ScriptError> {
        match self.next(expected)? {
            "->" => Err(self.wrong(expected, "->")),
            name => Ok(name.to_owned()),
        }
    }

    fn size(&mut self, expected: &'static str) -> Result<Bytes, ScriptError> {
        let word = self.next(expected)?;
        let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let unit = match &word[digits.len()..] {
            "" => self.words.next_if(|next| shift(next).is_some()).unwrap_or(""),
            unit => unit,
        };
        whole(digits)
            .zip(shift(unit))
            .and_then(|(count, shift)| count.checked_mul(1 << shift))
            .map(Bytes::new)
            .ok_or_else(|| self.wrong(expected, word))
    }

    fn power_of_two(&mut self, word: &'static str) -> Result<Bytes, ScriptError> {
        let size = self.size("a power of two")?;
        if size.get().is_power_of_two() {
            return Ok(size);
        }
        Err(ScriptError::PowerOfTwo { line: self.line, word, size })
    }

    fn stream(&mut self) -> Result<u32, ScriptError> {
        let expected = "the number of a stream";
        let word = self.next(expected)?;
        let number = whole(word).and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| self.wrong(expected, word))
    }

    fn kind(&mut self) -> Result<Kind, ScriptError> {
        let expected = "`tensor`, `program` or `staging`";
        let word = self.next(expected)?;
        let named = Kind::ALL.into_iter().find(|kind| kind.name() == word);
        named.ok_or_else(|| self.wrong(expected, word))
    }

    fn outcome(&mut self) -> Result<Expectation, ScriptError> {
        let expected = "an offset or `out of memory`";
        if self.words.next_if_eq(&"out").is_none() {
            return self.size(expected).map(Expectation::Offset);
        }
        match (self.next(expected)?, self.next(expected)?) {
            ("of", "memory") => Ok(Expectation::OutOfMemory),
            (of, memory) => Err(self.wrong(expected, &format!("out {of} {memory}"))),
        }
    }

    /// Returns whether `-> error` follows.
    fn refusal(&mut self) -> Result<bool, ScriptError> {
        if self.words.next_if_eq(&"->").is_none() {
            return Ok(false);
        }
        match self.next("`error`")? {
            "error" => Ok(true),
            other => Err(self.wrong("`error`", other)),
        }
    }

    fn end(&mut self) -> Result<(), ScriptError> {
        match self.words.next() {
            Some(word) => Err(self.wrong("the end of the line", word)),
            None => Ok(()),
        }
    }
}

/// Parses a number of digits only: the standard parser would also accept a sign.
fn whole(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Returns the binary logarithm of a unit in bytes.
fn shift(unit: &str) -> Option<u32> {
    match unit {
        "" => Some(0),
        "KiB" => Some(10),
        "MiB" => Some(20),
        "GiB" => Some(30),
        _ => None,
    }
}

//! Typed access to a tree, with errors that state the place and the expected value.

use cubeyard_units::{Bandwidth, Bytes, Span};

use super::nearest;
use super::numbers::{bytes, decimal, digits};
use super::tree::{MapEntry, TextMark, Tree, Value, join};
use super::{InputError, InputProblem};

/// Value with its key.
#[derive(Debug)]
pub struct Field<'a> {
    key: String,
    pub(super) tree: &'a Tree<'a>,
}

/// Mapping that tracks the keys read so far.
#[derive(Debug)]
pub struct Map<'a> {
    key: String,
    mark: TextMark<'a>,
    entries: &'a [MapEntry<'a>],
    known: Vec<&'static str>,
    /// Whether the keys are chosen by the user, so that none is unknown.
    is_open: bool,
}

impl<'a> Map<'a> {
    /// Returns the value of a key that the default file has, and therefore every file.
    ///
    /// # Panics
    ///
    /// If the default file does not have the key.
    pub fn field(&mut self, name: &'static str) -> Field<'a> {
        self.optional(name).unwrap_or_else(|| panic!("the default file has {}.{name}", self.key))
    }

    /// Returns the value of an optional key.
    pub fn optional(&mut self, name: &'static str) -> Option<Field<'a>> {
        self.known.push(name);
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        Some(Field { key: join(&self.key, name), tree: &entry.tree })
    }

    /// Returns the value of a required key.
    pub fn required(&mut self, name: &'static str) -> Result<Field<'a>, InputError> {
        let missing = InputProblem::MissingKey { name };
        let error = self.mark.error(&self.key, missing);
        self.optional(name).ok_or(error)
    }

    /// Rejects all keys except these. Call it before required keys are read, so that a misspelt key is reported rather
    /// than a missing one.
    pub fn only(&mut self, names: &[&'static str]) -> Result<(), InputError> {
        self.known.extend(names);
        self.finish()
    }

    /// Returns all keys with their values, for a mapping whose keys are chosen by the user.
    pub fn each(&mut self) -> Vec<(&'a str, Field<'a>)> {
        self.is_open = true;
        let field = |entry: &'a MapEntry<'a>| {
            let key = join(&self.key, &entry.key);
            (entry.key.as_str(), Field { key, tree: &entry.tree })
        };
        self.entries.iter().map(field).collect()
    }

    /// Returns the keys not read so far, for files that may have other keys.
    pub fn unasked(&self) -> impl Iterator<Item = String> + '_ {
        let is_known = |entry: &&MapEntry<'_>| self.known.contains(&&*entry.key);
        self.entries.iter().filter(move |entry| !is_known(entry)).map(|entry| excerpt(&entry.key))
    }

    /// Rejects keys that were not read. Call it last, when all valid names are known.
    pub fn finish(&self) -> Result<(), InputError> {
        let is_known = |entry: &&MapEntry<'_>| self.is_open || self.known.contains(&&*entry.key);
        let Some(entry) = self.entries.iter().find(|entry| !is_known(entry)) else {
            return Ok(());
        };
        let nearest =
            nearest(&entry.key, self.known.iter().copied()).unwrap_or_default().to_owned();
        let found = excerpt(&entry.key);
        let problem = InputProblem::UnknownKey { found, nearest };
        Err(entry.mark.error(&self.key, problem))
    }
}

impl<'a> Field<'a> {
    /// Returns the top-level value of a tree.
    pub(crate) fn root(tree: &'a Tree<'a>) -> Self {
        Self { key: String::new(), tree }
    }

    /// Returns an error at the place of this value.
    pub fn error(&self, problem: InputProblem) -> InputError {
        self.tree.mark.error(&self.key, problem)
    }

    /// Returns whether the value is `null`, `~` or empty.
    pub fn is_null(&self) -> bool {
        self.plain().is_some_and(|text| matches!(text, "" | "null" | "~"))
    }

    /// Returns the error that this value was found instead of the expected one.
    pub fn unexpected(&self, expected: impl Into<String>) -> InputError {
        let found = match &self.tree.value {
            Value::Map(_) => "a mapping".to_owned(),
            Value::List(list) => format!("a list of {}", list.len()),
            Value::Scalar { text, is_quoted: true } => format!("\"{}\"", excerpt(text)),
            Value::Scalar { .. } if self.tree.is_nothing() => "nothing".to_owned(),
            Value::Scalar { text, .. } => excerpt(text),
        };
        self.error(InputProblem::Value { expected: expected.into(), found })
    }

    /// Reads the value as a mapping.
    pub fn map(&self) -> Result<Map<'a>, InputError> {
        match &self.tree.value {
            Value::Map(entries) => {
                let (key, mark) = (self.key.clone(), self.tree.mark);
                Ok(Map { key, mark, entries, known: Vec::new(), is_open: false })
            }
            _ => Err(self.unexpected("a mapping")),
        }
    }

    /// Rejects a value that is not a mapping where `default` has one. As an overlay, it would replace the mapping, and
    /// keys of the default would be missing.
    pub fn keeps_mappings(&self, default: &Field<'_>) -> Result<(), InputError> {
        let Value::Map(known) = &default.tree.value else { return Ok(()) };
        let Value::Map(given) = &self.tree.value else { return Err(self.unexpected("a mapping")) };
        for entry in given {
            let Some(default) = known.iter().find(|known| known.key == entry.key) else { continue };
            let [given, default] = [entry, default]
                .map(|entry| Field { key: join(&self.key, &entry.key), tree: &entry.tree });
            given.keeps_mappings(&default)?;
        }
        Ok(())
    }

    /// Reads the value as a mapping that may only have the keys that `read` reads.
    pub fn record<T>(
        &self,
        read: impl FnOnce(&mut Map<'a>) -> Result<T, InputError>,
    ) -> Result<T, InputError> {
        let mut map = self.map()?;
        let value = read(&mut map)?;
        map.finish()?;
        Ok(value)
    }

    /// Reads the value as a list. Errors refer to its elements as `of`.
    pub fn list(&self, of: &str) -> Result<Vec<Field<'a>>, InputError> {
        let Value::List(list) = &self.tree.value else {
            return Err(self.unexpected(format!("a list of {of}")));
        };
        let field = |(place, tree)| Field { key: format!("{}[{place}]", self.key), tree };
        Ok(list.iter().enumerate().map(field).collect())
    }

    /// Returns the text of an unquoted scalar.
    fn plain(&self) -> Option<&'a str> {
        match &self.tree.value {
            Value::Scalar { text, is_quoted: false } => Some(text),
            _ => None,
        }
    }

    /// Reads the value as one of several names.
    pub fn choice<T: Copy>(&self, names: &[(&str, T)]) -> Result<T, InputError> {
        let Value::Scalar { text, .. } = &self.tree.value else {
            return Err(self.unexpected(listed(names)));
        };
        if let Some((_, value)) = names.iter().find(|(name, _)| name == text) {
            return Ok(*value);
        }
        let nearest = nearest(text, names.iter().map(|(name, _)| *name)).unwrap_or_default();
        let (expected, found) = (listed(names).into(), excerpt(text).into());
        Err(self.error(InputProblem::UnknownName { expected, found, nearest: nearest.into() }))
    }

    /// Reads the value as nonempty text. Errors refer to it as `of`.
    pub fn text(&self, of: &str) -> Result<&'a str, InputError> {
        match &self.tree.value {
            Value::Scalar { text, .. } if !text.is_empty() => Ok(text),
            _ => Err(self.unexpected(of)),
        }
    }

    /// Reads the value as a whole number from 0 to 2⁶⁴ − 1, with an optional unit such as `KiB`. Errors refer to it as
    /// `of`.
    pub fn count(&self, of: &str) -> Result<u64, InputError> {
        let number = self.plain().and_then(bytes).map(Bytes::get);
        number.ok_or_else(|| self.unexpected(format!("{of} from 0 up")))
    }

    /// Reads the value as `true` or `false`.
    pub fn flag(&self) -> Result<bool, InputError> {
        match self.plain() {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            _ => Err(self.unexpected("true or false")),
        }
    }

    /// Reads the value as a whole number from `low` to `high`.
    pub fn whole(&self, low: u32, high: u32) -> Result<u32, InputError> {
        let number = self.plain().and_then(digits).and_then(|number| u32::try_from(number).ok());
        number
            .filter(|number| (low..=high).contains(number))
            .ok_or_else(|| self.unexpected(format!("a whole number from {low} to {high}")))
    }

    /// Reads the value as a number from 0 to `most`. Errors refer to its unit as `of`.
    pub fn number(&self, of: &str, most: f64) -> Result<f64, InputError> {
        let number = self.plain().and_then(decimal).filter(|number| (0.0..=most).contains(number));
        number.ok_or_else(|| self.unexpected(format!("a number of {of} from 0 to {most}")))
    }

    /// Reads the value as a duration in nanoseconds, up to one second.
    pub fn ns(&self) -> Result<Span, InputError> {
        let ns = self.number("nanoseconds", 1e9)?;
        Ok(Span::from_ns(ns).expect("a second has few picoseconds"))
    }

    /// Reads the value as a bandwidth from 0.001 to 10⁶ GB/s.
    pub fn gbs(&self) -> Result<Bandwidth, InputError> {
        let number = self.plain().and_then(decimal).filter(|gbs| (1e-3..=1e6).contains(gbs));
        let bandwidth = number.and_then(Bandwidth::from_gb_per_second);
        bandwidth.ok_or_else(|| self.unexpected("a number of GB/s from 0.001 to 1000000"))
    }

    /// Reads the value as a number of bytes greater than 0.
    pub fn bytes(&self) -> Result<Bytes, InputError> {
        let bytes = self.plain().and_then(bytes).filter(|bytes| !bytes.is_zero());
        bytes.ok_or_else(|| {
            self.unexpected("a number of bytes above 0, such as 256, 64 KiB or 48 GiB")
        })
    }

    /// Reads the value as a number of bytes that is a power of two.
    pub fn power_of_two_bytes(&self) -> Result<Bytes, InputError> {
        let bytes = self.bytes()?;
        let is_power = bytes.get().is_power_of_two();
        is_power.then_some(bytes).ok_or_else(|| self.unexpected("a power of two of bytes"))
    }
}

fn listed<T>(names: &[(&str, T)]) -> String {
    names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Returns the first 40 characters, with control characters escaped.
fn excerpt(text: &str) -> String {
    const LONGEST: usize = 40;
    let shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() { shown + "…" } else { shown }
}

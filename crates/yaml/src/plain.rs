//! Values without their positions in a file.

use std::fmt::{self, Write as _};

use super::InputError;
use super::numbers::{bytes, decimal};
use super::reader::Field;
use super::tree::{self, Tree, Value};

/// Bound up to which every whole number is exactly representable as `f64`.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Value of an input file as plain data, given by a program or read from a file.
///
/// Prints as YAML in one line, which reads back as the same value. Numbers are normalized: `48 GiB` is a whole number,
/// and so is `32.0`.
///
/// ```
/// use cubeyard_yaml::PlainValue;
///
/// let value = PlainValue::read("mine.yaml", "hbm:\n  bytes_per_cube: 2 KiB\n  rows: none\n")?;
/// assert_eq!(value.to_string(), "{hbm: {bytes_per_cube: 2048, rows: none}}");
/// assert_eq!(PlainValue::read("again", &value.to_string())?, value);
/// # Ok::<(), cubeyard_yaml::InputError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum PlainValue {
    /// `true` or `false`.
    Flag(bool),
    /// Whole number, or number of bytes.
    Whole(u64),
    /// Any other number.
    Number(f64),
    /// Name or other text.
    Text(String),
    /// A list.
    List(Vec<Self>),
    /// Mapping, in the order of its keys in the file.
    Map(Vec<(String, Self)>),
}

impl PlainValue {
    /// Reads YAML. Errors refer to it as `name`.
    pub fn read(name: &str, text: &str) -> Result<Self, InputError> {
        tree::check_length(name, text.len(), super::document::LONGEST)?;
        tree::parse(name, text).map(|tree| Self::of(&tree))
    }

    /// Returns the value that an unquoted text denotes: `true`, a number, a number of bytes such as `48 GiB`, or a
    /// name.
    pub fn of_text(text: &str) -> Self {
        let flag = ["false", "true"].iter().position(|name| *name == text);
        let whole =
            || bytes(text).filter(|_| !text.is_empty()).map(|bytes| Self::Whole(bytes.get()));
        let number = || decimal(text).map(Self::of_number);
        let flag = flag.map(|at| Self::Flag(at == 1));
        flag.or_else(whole).or_else(number).unwrap_or_else(|| Self::Text(text.to_owned()))
    }

    /// Returns a number, as a whole number if it is one.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, and in the range of u64"
    )]
    pub fn of_number(number: f64) -> Self {
        let is_whole = (0.0..EXACT).contains(&number) && number.fract() == 0.0;
        if is_whole { Self::Whole(number as u64) } else { Self::Number(number) }
    }

    pub(crate) fn of(tree: &Tree<'_>) -> Self {
        match &tree.value {
            Value::Scalar { text, is_quoted: true } => Self::Text(text.clone()),
            Value::Scalar { text, .. } => Self::of_text(text),
            Value::List(list) => Self::List(list.iter().map(Self::of).collect()),
            Value::Map(entries) => {
                let entry = |entry: &tree::MapEntry<'_>| (entry.key.clone(), Self::of(&entry.tree));
                Self::Map(entries.iter().map(entry).collect())
            }
        }
    }

    /// Returns the value of a key; `None` if this is not a mapping or lacks the key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Sets the value of a key of a mapping; appends the key if it is missing.
    pub fn set(&mut self, key: &str, value: Self) {
        let Self::Map(entries) = self else { return };
        match entries.iter_mut().find(|(name, _)| name == key) {
            Some((_, known)) => *known = value,
            None => entries.push((key.to_owned(), value)),
        }
    }

    /// Lays another value over this one: mappings are merged key by key, other values are replaced.
    pub fn overlay(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Map(entries), Self::Map(others)) => {
                for (key, value) in others {
                    match entries.iter_mut().find(|(name, _)| name == key) {
                        Some((_, known)) => known.overlay(value),
                        None => entries.push((key.clone(), value.clone())),
                    }
                }
            }
            _ => *self = other.clone(),
        }
    }

    /// Returns the value in normal form: with keys in alphabetical order and without keys that are `none`. Files with
    /// the same content have the same normal form.
    #[must_use]
    pub fn normal(&self) -> Self {
        let is_none = |value: &Self| matches!(value, Self::Text(text) if text == "none");
        match self {
            Self::Map(entries) => {
                let entries = entries.iter().filter(|(_, value)| !is_none(value));
                let mut entries: Vec<_> =
                    entries.map(|(key, value)| (key.clone(), value.normal())).collect();
                entries.sort_by(|(one, _), (other, _)| one.cmp(other));
                Self::Map(entries)
            }
            Self::List(list) => Self::List(list.iter().map(Self::normal).collect()),
            other => other.clone(),
        }
    }
}

impl fmt::Display for PlainValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write_text(f, text),
            Self::List(list) => {
                f.write_char('[')?;
                separated(f, list, |f, value| write!(f, "{value}"))?;
                f.write_char(']')
            }
            Self::Map(entries) => {
                f.write_char('{')?;
                separated(f, entries, |f, (key, value)| {
                    write_text(f, key)?;
                    write!(f, ": {value}")
                })?;
                f.write_char('}')
            }
        }
    }
}

fn separated<T>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        f.write_str(if at == 0 { "" } else { ", " })?;
        write(f, item)?;
    }
    Ok(())
}

/// Writes a text, in quotes unless it is a name that cannot be read as anything else.
fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name && !text.is_empty() && PlainValue::of_text(text) == PlainValue::Text(text.to_owned())
    {
        return f.write_str(text);
    }
    f.write_char('"')?;
    for letter in text.chars() {
        match letter {
            '"' | '\\' => write!(f, "\\{letter}")?,
            letter if is_plain(letter) => f.write_char(letter)?,
            letter => write!(f, "\\U{:08x}", u32::from(letter))?,
        }
    }
    f.write_char('"')
}

/// Returns whether the character needs no escape in a quoted YAML string.
fn is_plain(letter: char) -> bool {
    matches!(letter, ' '..='~' | '\u{a1}'..='\u{2027}' | '\u{2030}'..='\u{d7ff}')
}

impl Field<'_> {
    /// Returns the value as plain data.
    pub fn value(&self) -> PlainValue {
        PlainValue::of(self.tree)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = PlainValue> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(PlainValue::Flag),
            any::<u64>().prop_map(PlainValue::Whole),
            (-1e9..1e9).prop_map(PlainValue::of_number),
            any::<String>().prop_map(PlainValue::Text),
            "[a-z0-9_. :#{}\\[\\],&*!|>'\"%@`-]{0,6}".prop_map(PlainValue::Text),
        ];
        leaf.prop_recursive(3, 32, 5, |inner| {
            let entry = (any::<String>(), inner.clone());
            let map = prop::collection::btree_map(entry.0, entry.1, 0..5);
            prop_oneof![
                prop::collection::vec(inner, 0..5).prop_map(PlainValue::List),
                map.prop_map(|map| PlainValue::Map(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_printed_value_reads_as_itself(value in value()) {
            let map = PlainValue::Map(vec![("value".to_owned(), value)]);
            prop_assert_eq!(PlainValue::read("printed", &map.to_string()), Ok(map));
        }
    }

    #[test]
    fn a_number_has_one_form() {
        for text in ["48 GiB", "51539607552", "51539607552.0", "49152 MiB", "5.1539607552e10"] {
            assert_eq!(PlainValue::of_text(text), PlainValue::Whole(48 << 30), "{text}");
        }
        assert_eq!(PlainValue::of_text("0.5"), PlainValue::of_text("5e-1"));
        for text in ["", "-", "1.2.3", "r0c0", "inf", "nan", "1 KB"] {
            assert_eq!(PlainValue::of_text(text), PlainValue::Text(text.to_owned()), "{text}");
        }
    }
}

//! Value of a snapshot together with its path, for errors.

use std::fmt;

use super::SnapshotError;
use cubeyard_pickle::excerpt;
use cubeyard_pickle::{Document, Sequence, Text, Value};

#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'d, 'p> {
    document: &'d Document<'d>,
    value: Value,
    place: Place<'p>,
}

/// Path to a value, formatted only for an error.
#[derive(Clone, Copy, Debug)]
enum Place<'p> {
    Root,
    Key(&'p Place<'p>, &'static str),
    Item(&'p Place<'p>, usize),
}

/// Formats the path in Python's notation: `device_traces[0][17].addr`.
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("snapshot"),
            Self::Key(Self::Root, key) => f.write_str(key),
            Self::Key(parent, key) => write!(f, "{parent}.{key}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl<'d> Cursor<'d, '_> {
    pub(super) fn root(document: &'d Document<'d>) -> Self {
        Self { document, value: document.root(), place: Place::Root }
    }

    /// Returns the path, for errors.
    pub(super) fn part(&self) -> String {
        self.place.to_string()
    }

    /// Returns the value of a required key.
    pub(super) fn field<'s>(&'s self, key: &'static str) -> Result<Cursor<'d, 's>, SnapshotError> {
        let expected = "a value";
        let (part, found) = (Place::Key(&self.place, key), "nothing".to_owned());
        let missing = || SnapshotError::Part { part: part.to_string(), expected, found };
        self.optional(key)?.ok_or_else(missing)
    }

    /// Returns the value of a key, if the key exists.
    pub(super) fn optional<'s>(
        &'s self,
        key: &'static str,
    ) -> Result<Option<Cursor<'d, 's>>, SnapshotError> {
        let Value::Dict(dict) = self.value else { return Err(self.wrong("a dictionary")) };
        let place = Place::Key(&self.place, key);
        Ok(self.document.get(dict, key).map(|value| Cursor {
            document: self.document,
            value,
            place,
        }))
    }

    pub(super) fn items<'s>(
        &'s self,
    ) -> Result<impl Iterator<Item = Cursor<'d, 's>>, SnapshotError> {
        let items = self.document.items(self.sequence()?).iter().enumerate();
        let (document, place) = (self.document, &self.place);
        Ok(items.map(move |(index, &value)| Cursor {
            document,
            value,
            place: Place::Item(place, index),
        }))
    }

    pub(super) fn sequence(&self) -> Result<Sequence, SnapshotError> {
        match self.value {
            Value::List(sequence) | Value::Tuple(sequence) => Ok(sequence),
            _ => Err(self.wrong("a list")),
        }
    }

    /// Returns the index of a dictionary among the containers of the document.
    pub(super) fn dictionary(&self) -> Result<usize, SnapshotError> {
        match self.value {
            Value::Dict(dict) => Ok(dict.index()),
            _ => Err(self.wrong("a dictionary")),
        }
    }

    /// Returns this dictionary after marking it in `seen`; fails if it is already marked.
    pub(super) fn unseen(self, seen: &mut [bool]) -> Result<Self, SnapshotError> {
        if std::mem::replace(&mut seen[self.dictionary()?], true) {
            return Err(SnapshotError::Repeated { part: self.part() });
        }
        Ok(self)
    }

    pub(super) fn text(&self) -> Result<&'d str, SnapshotError> {
        self.string().map(|text| self.document.text(text))
    }

    /// Returns the handle of the string, which may be shared, rather than its content.
    pub(super) fn string(&self) -> Result<Text, SnapshotError> {
        match self.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong("a string")),
        }
    }

    pub(super) fn integer(&self) -> Result<i128, SnapshotError> {
        match self.value {
            Value::Integer(number) => Ok(number.into()),
            Value::Large(number) => Ok(number.into()),
            _ => Err(self.wrong("an integer")),
        }
    }

    pub(super) fn unsigned(&self) -> Result<u64, SnapshotError> {
        let number = self.integer()?;
        u64::try_from(number).map_err(|_| self.wrong("an integer that is not negative"))
    }

    pub(super) fn boolean(&self) -> Result<bool, SnapshotError> {
        match self.value {
            Value::Boolean(answer) => Ok(answer),
            _ => Err(self.wrong("a boolean")),
        }
    }

    pub(super) fn value(&self) -> Value {
        self.value
    }

    /// Returns whether a dictionary holds anything other than `value`.
    pub(super) fn has_value_other_than(&self, value: Value) -> Result<bool, SnapshotError> {
        let Value::Dict(dict) = self.value else { return Err(self.wrong("a dictionary")) };
        Ok(self.document.entries(dict).any(|(_, found)| found != value))
    }

    /// Creates the error for an invalid value.
    pub(super) fn wrong(&self, expected: &'static str) -> SnapshotError {
        let found = match self.value {
            Value::Text(text) => {
                format!("the string `{}`", excerpt(self.document.text(text).as_bytes()))
            }
            Value::Integer(number) => format!("the integer {number}"),
            Value::Large(number) => format!("the integer {number}"),
            other => other.kind().to_owned(),
        };
        SnapshotError::Part { part: self.part(), expected, found }
    }
}

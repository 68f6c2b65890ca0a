//! What a bench can be asked.

use std::collections::BTreeMap;
use std::fmt;

use cubeyard_device::input::nearest;
use cubeyard_runtime::dtype::DType;
use thiserror::Error;

/// Something a bench can be asked.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// What it is called.
    pub name: &'static str,
    /// What it is, in a line.
    pub help: &'static str,
    /// What it can be.
    pub kind: Kind,
    /// What it is if nothing is said.
    pub default: Value,
}

/// What a parameter can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number from one to another.
    Whole(u64, u64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The type of elements, one of these.
    Type(&'static [DType]),
}

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// A word.
    Choice(&'static str),
    /// A type of elements.
    Type(DType),
}

/// A parameter cannot be that. Choose another value, or another parameter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// The bench has no such parameter.
    #[error("{bench} has no parameter `{name}`; it has {known}{}", hint(.nearest.as_deref()))]
    NoSuchParameter {
        /// The bench.
        bench: &'static str,
        /// The name given.
        name: String,
        /// Its parameters.
        known: String,
        /// The most similar one.
        nearest: Option<String>,
    },
    /// The value is not one that the parameter can have.
    #[error("{bench}: {name}={found}: expected {expected}")]
    Value {
        /// The bench.
        bench: &'static str,
        /// The parameter.
        name: &'static str,
        /// What it can be.
        expected: String,
        /// What was given.
        found: String,
    },
    /// No `=` in it.
    #[error("`{0}`: expected name=value")]
    Form(String),
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; the nearest is `{nearest}`"))
}

/// The values of a bench's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values(BTreeMap<&'static str, Value>);

impl Parameter {
    /// A whole number.
    pub fn whole(
        name: &'static str,
        default: u64,
        (least, most): (u64, u64),
        help: &'static str,
    ) -> Self {
        Self { name, help, kind: Kind::Whole(least, most), default: Value::Whole(default) }
    }

    /// One of some words, the first if nothing is said.
    pub fn choice(name: &'static str, words: &'static [&'static str], help: &'static str) -> Self {
        Self { name, help, kind: Kind::Choice(words), default: Value::Choice(words[0]) }
    }

    /// A type of elements, the first if nothing is said.
    pub fn dtype(name: &'static str, types: &'static [DType], help: &'static str) -> Self {
        Self { name, help, kind: Kind::Type(types), default: Value::Type(types[0]) }
    }
}

impl Kind {
    fn parse(self, text: &str) -> Option<Value> {
        match self {
            Self::Whole(least, most) => {
                let number = text.replace('_', "").parse().ok()?;
                (least..=most).contains(&number).then_some(Value::Whole(number))
            }
            Self::Choice(words) => {
                words.iter().find(|word| **word == text).map(|word| Value::Choice(word))
            }
            Self::Type(types) => {
                let dtype = text.parse().ok()?;
                types.contains(&dtype).then_some(Value::Type(dtype))
            }
        }
    }
}

/// What it can be, in words.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Self::Type(types) => {
                let names: Vec<_> = types.iter().map(|dtype| dtype.name()).collect();
                write!(f, "one of {}", names.join(", "))
            }
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Choice(word) => f.write_str(word),
            Self::Type(dtype) => f.write_str(dtype.name()),
        }
    }
}

impl Values {
    /// The values of a bench: what was said as `name=value`, else the defaults.
    pub fn new(
        bench: &'static str,
        parameters: &[Parameter],
        said: &[String],
    ) -> Result<Self, ParameterError> {
        let defaults = parameters.iter().map(|parameter| (parameter.name, parameter.default));
        let mut values: BTreeMap<_, _> = defaults.collect();
        for text in said {
            let (name, value) =
                text.split_once('=').ok_or_else(|| ParameterError::Form(text.clone()))?;
            let parameter = parameters.iter().find(|parameter| parameter.name == name);
            let parameter = parameter.ok_or_else(|| unknown(bench, parameters, name))?;
            let wrong = || ParameterError::Value {
                bench,
                name: parameter.name,
                expected: parameter.kind.to_string(),
                found: value.to_owned(),
            };
            values.insert(parameter.name, parameter.kind.parse(value).ok_or_else(wrong)?);
        }
        Ok(Self(values))
    }

    /// A whole number.
    ///
    /// # Panics
    /// If the bench has no such parameter, as the other functions.
    pub fn whole(&self, name: &str) -> u64 {
        match self.0[name] {
            Value::Whole(number) => number,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// A word.
    pub fn choice(&self, name: &str) -> &'static str {
        match self.0[name] {
            Value::Choice(word) => word,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// A type of elements.
    pub fn dtype(&self, name: &str) -> DType {
        match self.0[name] {
            Value::Type(dtype) => dtype,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// All of them as text, in the order of the parameters.
    pub fn shown(&self, parameters: &[Parameter]) -> Vec<(String, String)> {
        let shown =
            |parameter: &Parameter| (parameter.name.to_owned(), self.0[parameter.name].to_string());
        parameters.iter().map(shown).collect()
    }
}

fn unknown(bench: &'static str, parameters: &[Parameter], name: &str) -> ParameterError {
    let names: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let nearest = nearest(name, names.into_iter()).map(str::to_owned);
    ParameterError::NoSuchParameter { bench, name: name.to_owned(), known, nearest }
}

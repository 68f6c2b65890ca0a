//! Parameters of benches.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use cubeyard_device::serial::text;
use cubeyard_runtime::dtype::DType;
use cubeyard_yaml::nearest;
use serde::Serialize;
use thiserror::Error;

/// Parameter of a bench.
#[derive(Clone, Debug, Serialize)]
pub struct Parameter {
    /// Name of the parameter.
    pub name: Cow<'static, str>,
    /// Description in one line.
    #[serde(rename = "what")]
    pub help: Cow<'static, str>,
    /// Values that the parameter accepts.
    #[serde(rename = "expected", serialize_with = "text")]
    pub kind: ParameterKind,
    /// Default value of the parameter.
    #[serde(serialize_with = "text")]
    pub default: Value,
}

/// Set of values that a parameter accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// Whole number in an inclusive range.
    Whole(u64, u64),
    /// Whole number in an inclusive range, which may be negative.
    Integer(i64, i64),
    /// Finite number, with or without a fraction.
    Number,
    /// Text without restrictions.
    Text,
    /// One of the listed words.
    Choice(Vec<Cow<'static, str>>),
    /// One of the listed element types.
    Type(&'static [DType]),
}

/// Value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Whole number.
    Whole(u64),
    /// Whole number, which may be negative.
    Integer(i64),
    /// Finite number.
    Number(f64),
    /// Text as given.
    Text(String),
    /// One of the accepted words.
    Choice(Cow<'static, str>),
    /// Element type.
    Type(DType),
}

/// Error of an invalid parameter. Choose another value, or another parameter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// The bench has no parameter with this name.
    #[error("{bench} has no parameter `{name}`; it has {known}{}", hint(.nearest.as_deref()))]
    NoSuchParameter {
        /// Name of the bench.
        bench: String,
        /// Name that was given.
        name: String,
        /// Names of the bench's parameters.
        known: String,
        /// Most similar parameter name.
        nearest: Option<String>,
    },
    /// The parameter does not accept this value.
    #[error("{bench}: {name}={found}: expected {expected}")]
    Value {
        /// Name of the bench.
        bench: String,
        /// Name of the parameter.
        name: String,
        /// Description of the accepted values.
        expected: String,
        /// Value that was given.
        found: String,
    },
    /// The text has no `=`.
    #[error("`{0}`: expected name=value")]
    Form(String),
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; the nearest is `{nearest}`"))
}

/// Values of a bench's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Values(BTreeMap<Cow<'static, str>, Value>);

impl Parameter {
    /// Creates a parameter of the given kind.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        kind: ParameterKind,
        default: Value,
        help: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { name: name.into(), help: help.into(), kind, default }
    }

    /// Creates a whole-number parameter.
    pub fn whole(
        name: &'static str,
        default: u64,
        (least, most): (u64, u64),
        help: &'static str,
    ) -> Self {
        Self::new(name, ParameterKind::Whole(least, most), Value::Whole(default), help)
    }

    /// Creates a parameter with a choice of words; the first is the default.
    pub fn choice(name: &'static str, words: &[&'static str], help: &'static str) -> Self {
        let kind = ParameterKind::Choice(words.iter().map(|&word| word.into()).collect());
        Self::new(name, kind, Value::Choice(words[0].into()), help)
    }

    /// Creates a parameter with a choice of element types; the first is the default.
    pub fn dtype(name: &'static str, types: &'static [DType], help: &'static str) -> Self {
        Self::new(name, ParameterKind::Type(types), Value::Type(types[0]), help)
    }
}

impl ParameterKind {
    fn parse(&self, text: &str) -> Option<Value> {
        match self {
            Self::Whole(least, most) => {
                let number = text.replace('_', "").parse().ok()?;
                (least..=most).contains(&&number).then_some(Value::Whole(number))
            }
            Self::Integer(least, most) => {
                let number = text.replace('_', "").parse().ok()?;
                (least..=most).contains(&&number).then_some(Value::Integer(number))
            }
            Self::Number => {
                let number: f64 = text.parse().ok()?;
                number.is_finite().then_some(Value::Number(number))
            }
            Self::Text => Some(Value::Text(text.to_owned())),
            Self::Choice(words) => {
                words.iter().find(|word| *word == text).map(|word| Value::Choice(word.clone()))
            }
            Self::Type(types) => {
                let dtype = text.parse().ok()?;
                types.contains(&dtype).then_some(Value::Type(dtype))
            }
        }
    }
}

/// Describes the accepted values in words.
impl fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Integer(i64::MIN, i64::MAX) => f.write_str("a whole number"),
            Self::Integer(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Number => f.write_str("a number"),
            Self::Text => f.write_str("a text"),
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
            Self::Integer(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Choice(word) => f.write_str(word),
            Self::Type(dtype) => f.write_str(dtype.name()),
        }
    }
}

impl Values {
    /// Resolves the values of a bench: as given by `name=value`, or else the defaults.
    pub fn new(
        bench: &str,
        parameters: &[Parameter],
        said: &[String],
    ) -> Result<Self, ParameterError> {
        let defaults = parameters.iter().map(|it| (it.name.clone(), it.default.clone()));
        let mut values: BTreeMap<_, _> = defaults.collect();
        for text in said {
            let (name, value) =
                text.split_once('=').ok_or_else(|| ParameterError::Form(text.clone()))?;
            let parameter = parameters.iter().find(|parameter| parameter.name == name);
            let parameter = parameter.ok_or_else(|| unknown(bench, parameters, name))?;
            let wrong = || ParameterError::Value {
                bench: bench.to_owned(),
                name: name.to_owned(),
                expected: parameter.kind.to_string(),
                found: value.to_owned(),
            };
            values.insert(parameter.name.clone(), parameter.kind.parse(value).ok_or_else(wrong)?);
        }
        Ok(Self(values))
    }

    /// Returns the value of a parameter.
    ///
    /// # Panics
    /// If the bench has no such parameter; the same applies to the functions below.
    pub fn value(&self, name: &str) -> &Value {
        &self.0[name]
    }

    /// Returns the value of a whole-number parameter.
    pub fn whole(&self, name: &str) -> u64 {
        match self.0[name] {
            Value::Whole(number) => number,
            ref other => panic!("{name} is {other:?}"),
        }
    }

    /// Returns the whole numbers of several parameters.
    pub fn wholes<const N: usize>(&self, names: [&str; N]) -> [u64; N] {
        names.map(|name| self.whole(name))
    }

    /// Returns the word of a choice parameter.
    pub fn choice(&self, name: &str) -> &str {
        match &self.0[name] {
            Value::Choice(word) => word,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Returns the value of an element-type parameter.
    pub fn dtype(&self, name: &str) -> DType {
        match self.0[name] {
            Value::Type(dtype) => dtype,
            ref other => panic!("{name} is {other:?}"),
        }
    }

    /// Returns all values as text, in the order of the parameters.
    pub fn shown(&self, parameters: &[Parameter]) -> Vec<(String, String)> {
        let value = |name: &str| self.0[name].to_string();
        parameters.iter().map(|it| (it.name.to_string(), value(&it.name))).collect()
    }
}

fn unknown(bench: &str, parameters: &[Parameter], name: &str) -> ParameterError {
    let names: Vec<_> = parameters.iter().map(|parameter| &*parameter.name).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let nearest = nearest(name, names.into_iter()).map(str::to_owned);
    ParameterError::NoSuchParameter {
        bench: bench.to_owned(),
        name: name.to_owned(),
        known,
        nearest,
    }
}

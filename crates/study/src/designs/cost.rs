//! Cost of a machine as an expression over its keys and groups of keys.
//!
//! An expression has numbers, `+`, `-`, `*`, `/`, parentheses, `min(…)`, `max(…)`, and names. The value of a topology
//! key is its number: bytes for sizes, and the unit of its name for others. The value of a group of keys is its
//! [factor](Topology::factor) relative to the default machine.

mod names;
mod parse;

use cubeyard_device::topology::Topology;
use thiserror::Error;

use names::Named;

/// Expression that gives the cost of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    text: String,
    /// Operations in postfix order.
    steps: Vec<Step>,
}

/// Operation of an expression with its column, counted from 1.
#[derive(Clone, Debug, PartialEq)]
struct Step {
    column: usize,
    operation: Operation,
}

#[derive(Clone, Debug, PartialEq)]
enum Operation {
    Number(f64),
    Name(Named),
    Negate,
    Add,
    Subtract,
    Multiply,
    Divide,
    /// Smallest of so many values on the stack.
    Least(usize),
    /// Largest of so many values on the stack.
    Largest(usize),
}

/// Error in an expression of a cost. Correct the expression at the column.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("`{text}`, column {column}: {problem}")]
pub struct CostError {
    /// Expression, cut to 80 characters.
    pub text: String,
    /// Column of the problem in characters, from 1.
    pub column: usize,
    /// Problem at the column.
    pub problem: CostProblem,
}

/// Problem in an expression of a cost.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CostProblem {
    /// The text has another form than an expression. Correct it.
    #[error("expected {expected}, found {found}")]
    Syntax {
        /// Expected part of an expression.
        expected: String,
        /// Text that was found.
        found: String,
    },
    /// The machine does not have this key. Use the nearest one.
    #[error("there is no topology key or group `{found}`; the nearest is `{nearest}`")]
    Unknown {
        /// Name that was given.
        found: String,
        /// Most similar key or group.
        nearest: String,
    },
    /// The value of a key on this machine is no number. Use another key.
    #[error("{key} has the value {value}, expected a number")]
    NotANumber {
        /// Name of the key or group.
        key: String,
        /// Its value on the machine.
        value: String,
    },
    /// A divisor is 0 on this machine.
    #[error("division by zero")]
    DivisionByZero,
    /// A result is too large, or not a number.
    #[error("the result is not finite")]
    NotFinite,
    /// The cost is below 0.
    #[error("expected a cost of at least 0, found {0}")]
    Negative(f64),
}

impl Cost {
    /// Parses an expression. Its names belong to a machine, and are checked by [`of`](Self::of).
    pub fn parse(text: &str) -> Result<Self, CostError> {
        parse::parse(text)
    }

    /// Returns the expression as given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the cost of a machine, a finite number of at least 0.
    pub fn of(&self, topology: &Topology) -> Result<f64, CostError> {
        let mut stack = Vec::new();
        for Step { column, operation } in &self.steps {
            let value = result(operation, &mut stack, topology)
                .and_then(|value| value.is_finite().then_some(value).ok_or(CostProblem::NotFinite));
            stack.push(value.map_err(|problem| error(&self.text, *column, problem))?);
        }
        match stack.pop() {
            Some(cost) if cost < 0.0 => Err(error(&self.text, 1, CostProblem::Negative(cost))),
            // Adding 0 turns −0 into 0.
            Some(cost) => Ok(cost + 0.0),
            None => unreachable!("the parser refuses an empty expression"),
        }
    }
}

/// Returns the result of an operation, and removes its operands from the stack.
fn result(
    operation: &Operation,
    stack: &mut Vec<f64>,
    topology: &Topology,
) -> Result<f64, CostProblem> {
    let mut next = || stack.pop().expect("the parser gives each operator its operands");
    Ok(match operation {
        Operation::Number(number) => *number,
        Operation::Name(name) => name.value(topology)?,
        Operation::Negate => -next(),
        Operation::Add => next() + next(),
        Operation::Subtract => -next() + next(),
        Operation::Multiply => next() * next(),
        Operation::Divide => match next() {
            0.0 => return Err(CostProblem::DivisionByZero),
            divisor => next() / divisor,
        },
        Operation::Least(count) => (0..*count).map(|_| next()).fold(f64::INFINITY, f64::min),
        Operation::Largest(count) => (0..*count).map(|_| next()).fold(f64::NEG_INFINITY, f64::max),
    })
}

fn error(text: &str, column: usize, problem: CostProblem) -> CostError {
    const SHOWN: usize = 80;
    let text = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    CostError { text, column, problem }
}

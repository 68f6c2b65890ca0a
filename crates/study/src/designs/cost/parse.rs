//! Parser of expressions: precedence climbing over the characters of the text.

use super::names::Named;
use super::{Cost, CostError, CostProblem, Operation, Step, error};

/// Maximum number of characters of an expression.
const LONGEST: usize = 4096;
/// Maximum depth of parentheses and signs, which bounds the parser's stack.
const DEEPEST: usize = 64;
/// Number of characters of unexpected text that errors show.
const SHOWN: usize = 20;

/// Parses an expression into operations in postfix order.
pub(super) fn parse(text: &str) -> Result<Cost, CostError> {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() > LONGEST {
        let (expected, found) =
            (format!("at most {LONGEST} characters"), characters.len().to_string());
        return Err(error(text, LONGEST + 1, CostProblem::Syntax { expected, found }));
    }
    let mut parser = Parser { text: characters, at: 0, depth: 0, steps: Vec::new() };
    let parsed = parser.sum().and_then(|()| match parser.peek() {
        None => Ok(()),
        Some(_) => Err(parser.unexpected("an operator: + - * /")),
    });
    match parsed {
        Ok(()) => Ok(Cost { text: text.to_owned(), steps: parser.steps }),
        Err((at, problem)) => Err(error(text, at + 1, problem)),
    }
}

/// Index of a character with the problem there.
type Failed = (usize, CostProblem);

struct Parser {
    text: Vec<char>,
    at: usize,
    depth: usize,
    steps: Vec<Step>,
}

impl Parser {
    /// Returns the next character that is no space.
    fn peek(&mut self) -> Option<char> {
        while self.text.get(self.at).is_some_and(|next| next.is_whitespace()) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn push(&mut self, at: usize, operation: Operation) {
        self.steps.push(Step { column: at + 1, operation });
    }

    fn unexpected(&mut self, expected: &str) -> Failed {
        let found = if self.peek().is_none() {
            "the end".to_owned()
        } else {
            let shown = self.text[self.at..].iter().take(SHOWN);
            format!("`{}`", shown.flat_map(|it| it.escape_debug()).collect::<String>())
        };
        (self.at, CostProblem::Syntax { expected: expected.to_owned(), found })
    }

    /// Takes a character, which must be next.
    fn take(&mut self, wanted: char, expected: &str) -> Result<(), Failed> {
        if self.peek() != Some(wanted) {
            return Err(self.unexpected(expected));
        }
        self.at += 1;
        Ok(())
    }

    fn sum(&mut self) -> Result<(), Failed> {
        self.product()?;
        while let Some(sign @ ('+' | '-')) = self.peek() {
            let at = self.at;
            self.at += 1;
            self.product()?;
            self.push(at, if sign == '+' { Operation::Add } else { Operation::Subtract });
        }
        Ok(())
    }

    fn product(&mut self) -> Result<(), Failed> {
        self.factor()?;
        while let Some(sign @ ('*' | '/')) = self.peek() {
            let at = self.at;
            self.at += 1;
            self.factor()?;
            self.push(at, if sign == '*' { Operation::Multiply } else { Operation::Divide });
        }
        Ok(())
    }

    fn factor(&mut self) -> Result<(), Failed> {
        let (next, at) = (self.peek(), self.at);
        if self.depth == DEEPEST {
            return Err(self.unexpected(&format!("at most {DEEPEST} nested parentheses and signs")));
        }
        self.depth += 1;
        let parsed = match next {
            Some('-') => {
                self.at += 1;
                self.factor().map(|()| self.push(at, Operation::Negate))
            }
            Some('(') => {
                self.at += 1;
                self.sum().and_then(|()| self.take(')', "`)`"))
            }
            Some('0'..='9' | '.') => self.number(),
            Some(first) if first.is_ascii_alphabetic() => self.name(),
            _ => Err(self.unexpected("a number, a topology key or a group of keys")),
        };
        self.depth -= 1;
        parsed
    }

    /// Takes characters while they belong to a word, and returns it.
    fn word(&mut self, is_part: impl Fn(&[char], char) -> bool) -> String {
        let from = self.at;
        while let Some(next) = self.text.get(self.at) {
            if !is_part(&self.text[from..self.at], *next) {
                break;
            }
            self.at += 1;
        }
        self.text[from..self.at].iter().collect()
    }

    fn number(&mut self) -> Result<(), Failed> {
        let at = self.at;
        // A sign belongs to the number directly behind the `e` of its exponent.
        let is_part = |before: &[char], next: char| {
            let is_exponent = matches!(before.last(), Some('e' | 'E'));
            next.is_ascii_alphanumeric()
                || next == '.'
                || (is_exponent && matches!(next, '+' | '-'))
        };
        let word = self.word(is_part);
        match word.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                self.push(at, Operation::Number(number));
                Ok(())
            }
            _ => {
                let expected = "a number such as 0.3, with `*` before a key".to_owned();
                Err((at, CostProblem::Syntax { expected, found: format!("`{word}`") }))
            }
        }
    }

    fn name(&mut self) -> Result<(), Failed> {
        let at = self.at;
        let word = self.word(|_, next| next.is_ascii_alphanumeric() || matches!(next, '.' | '_'));
        if self.peek() == Some('(') {
            return self.function(at, &word);
        }
        self.push(at, Operation::Name(Named::new(&word)));
        Ok(())
    }

    fn function(&mut self, at: usize, name: &str) -> Result<(), Failed> {
        let operation = match name {
            "min" => Operation::Least,
            "max" => Operation::Largest,
            _ => {
                let found = format!("`{name}(`");
                let expected = "one of the functions min and max".to_owned();
                return Err((at, CostProblem::Syntax { expected, found }));
            }
        };
        self.take('(', "`(`")?;
        self.sum()?;
        let mut count = 1;
        while self.peek() == Some(',') {
            self.at += 1;
            self.sum()?;
            count += 1;
        }
        self.take(')', "`,` or `)`")?;
        self.push(at, operation(count));
        Ok(())
    }
}

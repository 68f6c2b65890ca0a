//! The stack machine that runs a pickle.

mod stack;

use std::borrow::Cow;
use std::mem::take;

use self::stack::{check_pairs, next_index};
use super::error::Problem;
use super::source::Source;
use super::{
    Blob, Container, Dict, Document, Limits, PickleError, Sequence, Text, Value, acyclic, literal,
    opcode,
};
use crate::MemoryLimit;
use crate::budget::Budget;

/// Maximum memory per byte of a pickle, and a constant allowance, in bytes.
const FACTOR: u64 = 16;
const ALWAYS: u64 = 1 << 20;

/// Reads one pickle that occupies all of `input`.
pub fn read<'a>(input: &'a [u8], limits: &Limits) -> Result<Document<'a>, PickleError> {
    let whole =
        |limit: MemoryLimit| PickleError { offset: 0, opcode: "pickle", problem: limit.into() };
    let mut budget = Budget::new(limits.memory, input.len()).map_err(whole)?;
    read_within(input, limits.depth, &mut budget)
}

/// Reads one pickle that occupies all of `input`, which is already charged to the budget.
pub fn read_within<'a>(
    input: &'a [u8],
    depth: u16,
    budget: &mut Budget,
) -> Result<Document<'a>, PickleError> {
    let most = FACTOR.saturating_mul(input.len() as u64).saturating_add(ALWAYS);
    let inflated = most < budget.left();
    let mut machine = Machine::new(input, budget.stage(most));
    let before = machine.budget.left();
    let done = machine.run(depth).map_err(|error| match error.problem {
        Problem::Memory(_) if inflated => {
            PickleError { problem: Problem::Inflated { factor: FACTOR }, ..error }
        }
        _ => error,
    });
    done?;
    machine.release_tools();
    let held = usize::try_from(before - machine.budget.left()).unwrap_or(usize::MAX);
    budget.charge(held).expect("a stage takes no more than was left");
    Ok(machine.document)
}

/// Rejects an input that is not the beginning of a pickle of plain data.
pub fn check_beginning(start: &[u8], limits: &Limits) -> Result<(), PickleError> {
    let cut_off = |problem: &Problem| {
        matches!(problem, Problem::Truncated { .. } | Problem::EndlessLine | Problem::Memory(_))
    };
    let Ok(budget) = Budget::new(limits.memory, start.len()) else { return Ok(()) };
    let mut machine = Machine { partial: true, ..Machine::new(start, budget) };
    match machine.run(limits.depth) {
        Err(error) if !cut_off(&error.problem) => Err(error),
        _ => Ok(()),
    }
}

struct Machine<'a> {
    source: Source<'a>,
    budget: Budget,
    /// Whether only the beginning of the input is present.
    partial: bool,
    /// Number of values built so far. No table is longer, so indices fit in 32 bits.
    built: u32,
    stack: Vec<Value>,
    /// Height of the stack at each mark. Values below the last mark are out of reach.
    marks: Vec<usize>,
    memo: Vec<Option<Value>>,
    /// Number of memo entries in use.
    memoized: usize,
    document: Document<'a>,
}

impl<'a> Machine<'a> {
    fn new(input: &'a [u8], budget: Budget) -> Self {
        let (texts, blobs, containers) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            source: Source::new(input),
            budget,
            partial: false,
            built: 0,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            memoized: 0,
            document: Document { root: Value::None, texts, blobs, containers },
        }
    }

    fn run(&mut self, depth: u16) -> Result<(), PickleError> {
        loop {
            let offset = self.source.offset();
            let code = self.source.byte().map_err(|problem| end(offset, problem))?;
            let at = |problem| PickleError { offset, opcode: opcode::name(code), problem };
            if code == opcode::STOP {
                self.stop().map_err(at)?;
                break;
            }
            self.step(code).map_err(at)?;
        }
        acyclic::check(&self.document.containers, self.document.root, depth, &self.budget)
    }

    /// Releases the memory of the stack, the marks and the memo.
    fn release_tools(&mut self) {
        let (stack, marks, memo) =
            (take(&mut self.stack), take(&mut self.marks), take(&mut self.memo));
        for (held, size) in [
            (stack.capacity(), size_of::<Value>()),
            (marks.capacity(), size_of::<usize>()),
            (memo.capacity(), size_of::<Option<Value>>()),
        ] {
            self.budget.release(held * size);
        }
    }

    fn stop(&mut self) -> Result<(), Problem> {
        self.document.root = self.pop("a value")?;
        match (self.stack.len() + self.marks.len(), self.source.left()) {
            (0, 0) => Ok(()),
            (0, count) => Err(Problem::Trailing { count }),
            (more, _) => Err(Problem::Leftover { count: 1 + more }),
        }
    }

    /// Executes one opcode other than `STOP`.
    #[rustfmt::skip] // one opcode per line is the most readable form of this table
    fn step(&mut self, code: u8) -> Result<(), Problem> {
        match code {
            opcode::PROTO => self.protocol(),
            opcode::FRAME => self.frame(),
            opcode::MARK => Ok(self.budget.push(&mut self.marks, self.stack.len())?),
            opcode::POP => self.discard(),
            opcode::POP_MARK => { let mark = self.pop_mark()?; self.stack.truncate(mark); Ok(()) }
            opcode::DUP => { let top = self.top("a value")?; self.push(top) }

            opcode::NONE => self.push(Value::None),
            opcode::NEWTRUE => self.push(Value::Boolean(true)),
            opcode::NEWFALSE => self.push(Value::Boolean(false)),
            opcode::INT => { let line = self.source.line()?; self.push(literal::int(line)?) }
            opcode::LONG => { let line = self.source.line()?; self.push(literal::decimal(line)?) }
            opcode::FLOAT => { let line = self.source.line()?; self.push(literal::float(line)?) }
            opcode::BININT => { let bits = self.source.four_bytes()?; self.integer(bits.cast_signed()) }
            opcode::BININT1 => { let number = self.source.byte()?; self.integer(number) }
            opcode::BININT2 => { let number = self.source.two_bytes()?; self.integer(number) }
            opcode::LONG1 => { let length = self.source.byte()?; self.long(length.into()) }
            opcode::LONG4 => { let length = self.source.four_bytes()?; self.long(length.into()) }
            opcode::BINFLOAT => { let bytes = self.source.array()?; self.push(Value::Float(f64::from_be_bytes(bytes))) }

            opcode::UNICODE => { let line = self.source.line()?; self.text(literal::escaped_text(line)?.into()) }
            opcode::SHORT_BINUNICODE => { let length = self.source.byte()?; self.binary_text(length.into()) }
            opcode::BINUNICODE => { let length = self.source.four_bytes()?; self.binary_text(length.into()) }
            opcode::BINUNICODE8 => { let length = self.source.eight_bytes()?; self.binary_text(length) }
            opcode::SHORT_BINBYTES => { let length = self.source.byte()?; self.bytes(length.into()) }
            opcode::BINBYTES => { let length = self.source.four_bytes()?; self.bytes(length.into()) }
            opcode::BINBYTES8 | opcode::BYTEARRAY8 => { let length = self.source.eight_bytes()?; self.bytes(length) }

            opcode::EMPTY_LIST => self.list(Vec::new()),
            opcode::EMPTY_TUPLE => self.tuple(Vec::new()),
            opcode::EMPTY_DICT => self.dict(Vec::new()),
            opcode::LIST => { let items = self.pop_items()?; self.list(items) }
            opcode::TUPLE => { let items = self.pop_items()?; self.tuple(items) }
            opcode::DICT => { let items = self.pop_items()?; check_pairs(&items)?; self.dict(items) }
            opcode::TUPLE1 => self.short_tuple(1),
            opcode::TUPLE2 => self.short_tuple(2),
            opcode::TUPLE3 => self.short_tuple(3),
            opcode::APPEND => { let start = self.last(1)?; self.append_from(start) }
            opcode::APPENDS => { let start = self.pop_mark()?; self.append_from(start) }
            opcode::SETITEM => { let start = self.last(2)?; self.set_from(start) }
            opcode::SETITEMS => { let start = self.pop_mark()?; self.set_from(start) }

            opcode::GET => { let line = self.source.line()?; self.recall(literal::memo_index(line)?) }
            opcode::BINGET => { let index = self.source.byte()?; self.recall(index.into()) }
            opcode::LONG_BINGET => { let index = self.source.four_bytes()?; self.recall(index.into()) }
            opcode::PUT => { let line = self.source.line()?; self.memoize(literal::memo_index(line)?) }
            opcode::BINPUT => { let index = self.source.byte()?; self.memoize(index.into()) }
            opcode::LONG_BINPUT => { let index = self.source.four_bytes()?; self.memoize(index.into()) }
            opcode::MEMOIZE => self.memoize(self.memoized as u64),

            _ => Err(match opcode::makes(code) {
                Some(makes) => Problem::Refused { makes },
                None => Problem::Unknown { found: code },
            }),
        }
    }

    fn protocol(&mut self) -> Result<(), Problem> {
        match self.source.byte()? {
            0..=5 => Ok(()),
            found => Err(Problem::Protocol { found }),
        }
    }

    /// Checks the length of a frame, which only tells a streaming reader how much to fetch.
    fn frame(&mut self) -> Result<(), Problem> {
        let (needed, left) = (self.source.eight_bytes()?, self.source.left());
        if needed > left as u64 && !self.partial {
            return Err(Problem::Truncated { needed, left });
        }
        Ok(())
    }

    fn push(&mut self, value: Value) -> Result<(), Problem> {
        self.built = self.built.checked_add(1).ok_or(Problem::TooMany)?;
        Ok(self.budget.push(&mut self.stack, value)?)
    }

    fn integer(&mut self, number: impl Into<i64>) -> Result<(), Problem> {
        self.push(Value::Integer(number.into()))
    }

    fn long(&mut self, length: u64) -> Result<(), Problem> {
        let bytes = self.source.take(length)?;
        self.push(literal::long(bytes)?)
    }

    fn binary_text(&mut self, length: u64) -> Result<(), Problem> {
        let bytes = self.source.take(length)?;
        self.text(literal::text(bytes)?.into())
    }

    fn text(&mut self, text: Cow<'a, str>) -> Result<(), Problem> {
        self.push(Value::Text(Text(next_index(&self.document.texts))))?;
        if let Cow::Owned(text) = &text {
            self.budget.charge_table::<u8>(text.capacity())?;
        }
        Ok(self.budget.push(&mut self.document.texts, text)?)
    }

    fn bytes(&mut self, length: u64) -> Result<(), Problem> {
        let bytes = self.source.take(length)?;
        self.push(Value::Bytes(Blob(next_index(&self.document.blobs))))?;
        Ok(self.budget.push(&mut self.document.blobs, bytes)?)
    }

    fn list(&mut self, items: Vec<Value>) -> Result<(), Problem> {
        self.container(items, |index| Value::List(Sequence(index)))
    }

    fn tuple(&mut self, items: Vec<Value>) -> Result<(), Problem> {
        self.container(items, |index| Value::Tuple(Sequence(index)))
    }

    fn dict(&mut self, items: Vec<Value>) -> Result<(), Problem> {
        self.container(items, |index| Value::Dict(Dict(index)))
    }

    fn container(&mut self, items: Vec<Value>, value: fn(u32) -> Value) -> Result<(), Problem> {
        self.push(value(next_index(&self.document.containers)))?;
        // The opcodes that create containers have no argument, so the opcode was the last byte.
        let offset = self.source.offset() - 1;
        Ok(self.budget.push(&mut self.document.containers, Container { items, offset })?)
    }

    fn short_tuple(&mut self, length: usize) -> Result<(), Problem> {
        let start = self.last(length)?;
        let items = self.take_from(start)?;
        self.tuple(items)
    }
}

fn end(offset: usize, problem: Problem) -> PickleError {
    PickleError { offset, opcode: "end of input", problem }
}

#[cfg(test)]
mod tests;

//! The stack machine that a pickle is a program for.

mod stack;

use std::borrow::Cow;

use self::stack::{check_pairs, next_index};
use super::error::Problem;
use super::source::Source;
use super::{
    Blob, Container, Dict, Document, Limits, PickleError, Sequence, Text, Value, acyclic, literal,
    opcode,
};

/// Reads one pickle that takes up all of `input`.
pub fn read<'a>(input: &'a [u8], limits: &Limits) -> Result<Document<'a>, PickleError> {
    if input.len() > limits.bytes {
        let problem = Problem::TooLong { limit: limits.bytes, found: input.len() };
        return Err(PickleError { offset: 0, opcode: "pickle", problem });
    }
    Machine::new(input, limits).run()
}

struct Machine<'a> {
    source: Source<'a>,
    limits: Limits,
    /// Values built so far. Every table is shorter than this, so its indices fit 32 bits.
    built: u32,
    stack: Vec<Value>,
    /// How high the stack was at each mark. What lies below the last one is out of reach.
    marks: Vec<usize>,
    memo: Vec<Option<Value>>,
    /// How many places of the memo are taken.
    memoized: usize,
    document: Document<'a>,
}

impl<'a> Machine<'a> {
    fn new(input: &'a [u8], limits: &Limits) -> Self {
        let (texts, blobs, containers) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            source: Source::new(input),
            limits: *limits,
            built: 0,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            memoized: 0,
            document: Document { root: Value::None, texts, blobs, containers },
        }
    }

    fn run(mut self) -> Result<Document<'a>, PickleError> {
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
        acyclic::check(&self.document.containers, self.document.root, self.limits.depth)?;
        Ok(self.document)
    }

    fn stop(&mut self) -> Result<(), Problem> {
        self.document.root = self.pop("a value")?;
        match (self.stack.len() + self.marks.len(), self.source.left()) {
            (0, 0) => Ok(()),
            (0, count) => Err(Problem::Trailing { count }),
            (more, _) => Err(Problem::Leftover { count: 1 + more }),
        }
    }

    /// Carries out one opcode other than `STOP`.
    #[rustfmt::skip] // a table reads best with one opcode a line
    fn step(&mut self, code: u8) -> Result<(), Problem> {
        match code {
            opcode::PROTO => self.protocol(),
            opcode::FRAME => self.frame(),
            opcode::MARK => { self.marks.push(self.stack.len()); Ok(()) }
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

    /// A frame says how much a reader may fetch at once. All of the input is here already.
    fn frame(&mut self) -> Result<(), Problem> {
        let (needed, left) = (self.source.eight_bytes()?, self.source.left());
        if needed > left as u64 { Err(Problem::Truncated { needed, left }) } else { Ok(()) }
    }

    fn push(&mut self, value: Value) -> Result<(), Problem> {
        if self.built == self.limits.values {
            return Err(Problem::TooMany { limit: self.limits.values });
        }
        self.built += 1;
        self.stack.push(value);
        Ok(())
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
        self.document.texts.push(text);
        Ok(())
    }

    fn bytes(&mut self, length: u64) -> Result<(), Problem> {
        let bytes = self.source.take(length)?;
        self.push(Value::Bytes(Blob(next_index(&self.document.blobs))))?;
        self.document.blobs.push(bytes);
        Ok(())
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
        // The opcodes that make containers have no argument, so theirs was the last byte.
        let offset = self.source.offset() - 1;
        self.document.containers.push(Container { items, offset });
        Ok(())
    }

    fn short_tuple(&mut self, length: usize) -> Result<(), Problem> {
        let start = self.last(length)?;
        let items = self.take_from(start);
        self.tuple(items)
    }
}

/// The error of a pickle that ends without `STOP`.
fn end(offset: usize, problem: Problem) -> PickleError {
    PickleError { offset, opcode: "end of input", problem }
}

#[cfg(test)]
mod tests;

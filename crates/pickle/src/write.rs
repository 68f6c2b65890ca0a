//! Writer of plain data as a pickle of protocol 4.
//!
//! It uses only opcodes that PyTorch's snapshot viewer, `MemoryViz.js`, supports. The viewer converts numbers to
//! doubles, so integers from 2⁵³ up lose their low bits there.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::opcode;

/// Writes a dictionary filled by `fill`, and returns the sink.
///
/// Strings are remembered, so that each is written once. Everything else goes to the sink immediately, so the sink
/// should be buffered.
pub fn write_dict<W: Write>(
    sink: W,
    fill: impl FnOnce(&mut DictWriter<'_, W>) -> io::Result<()>,
) -> io::Result<W> {
    let mut pickler = Pickler { sink, texts: BTreeMap::new() };
    pickler.put(&[opcode::PROTO, 4])?;
    pickler.dict(fill)?;
    pickler.put(&[opcode::STOP])?;
    Ok(pickler.sink)
}

/// A dictionary that is being written.
#[derive(Debug)]
pub struct DictWriter<'p, W> {
    pickler: &'p mut Pickler<W>,
    items: Items,
}

impl<W: Write> DictWriter<'_, W> {
    /// Returns the slot for the value of `key`. The key is written together with the value.
    #[must_use = "an entry is written when it gets its value"]
    pub fn entry<'k>(&'k mut self, key: &'k str) -> Slot<'k, W> {
        Slot { pickler: self.pickler, items: &mut self.items, key: Some(key) }
    }
}

/// A list or tuple that is being written.
#[derive(Debug)]
pub struct ListWriter<'p, W> {
    pickler: &'p mut Pickler<W>,
    items: Items,
}

impl<W: Write> ListWriter<'_, W> {
    /// Returns the slot for one more item.
    #[must_use = "an item is written when it gets its value"]
    pub fn item(&mut self) -> Slot<'_, W> {
        Slot { pickler: self.pickler, items: &mut self.items, key: None }
    }
}

/// A slot for exactly one value.
#[derive(Debug)]
#[must_use = "a slot is written when it gets its value"]
pub struct Slot<'p, W> {
    pickler: &'p mut Pickler<W>,
    items: &'p mut Items,
    key: Option<&'p str>,
}

impl<'p, W: Write> Slot<'p, W> {
    /// Writes Python's `None`.
    pub fn none(self) -> io::Result<()> {
        self.begin()?.put(&[opcode::NONE])
    }

    /// Writes a boolean.
    pub fn boolean(self, value: bool) -> io::Result<()> {
        self.begin()?.put(&[if value { opcode::NEWTRUE } else { opcode::NEWFALSE }])
    }

    /// Writes an integer.
    pub fn integer(self, value: impl Into<i128>) -> io::Result<()> {
        self.begin()?.integer(value.into())
    }

    /// Writes a floating-point number.
    pub fn float(self, value: f64) -> io::Result<()> {
        let pickler = self.begin()?;
        pickler.put(&[opcode::BINFLOAT])?;
        pickler.put(&value.to_be_bytes())
    }

    /// Writes a string.
    pub fn text(self, value: &str) -> io::Result<()> {
        self.begin()?.text(value)
    }

    /// Writes a list filled by `fill`.
    pub fn list(
        self,
        fill: impl FnOnce(&mut ListWriter<'_, W>) -> io::Result<()>,
    ) -> io::Result<()> {
        let pickler = self.begin()?;
        pickler.put(&[opcode::EMPTY_LIST])?;
        let mut list = ListWriter { pickler, items: Items::appended(opcode::APPENDS) };
        fill(&mut list)?;
        list.items.close(list.pickler)
    }

    /// Writes a tuple filled by `fill`.
    pub fn tuple(
        self,
        fill: impl FnOnce(&mut ListWriter<'_, W>) -> io::Result<()>,
    ) -> io::Result<()> {
        let pickler = self.begin()?;
        let mut tuple = ListWriter { pickler, items: Items::at_once(opcode::TUPLE) };
        fill(&mut tuple)?;
        match tuple.items.count {
            0 => tuple.pickler.put(&[opcode::EMPTY_TUPLE]),
            _ => tuple.items.close(tuple.pickler),
        }
    }

    /// Writes a dictionary filled by `fill`.
    pub fn dict(
        self,
        fill: impl FnOnce(&mut DictWriter<'_, W>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.begin()?.dict(fill)
    }

    /// Writes the opcodes that precede the value.
    fn begin(self) -> io::Result<&'p mut Pickler<W>> {
        self.items.open(self.pickler)?;
        if let Some(key) = self.key {
            self.pickler.text(key)?;
        }
        Ok(self.pickler)
    }
}

/// Items of a container that are still on the reader's stack.
#[derive(Debug)]
struct Items {
    count: usize,
    most: usize,
    close: u8,
}

impl Items {
    /// Returns items that are appended to their container 1,000 at a time, like Python does. The viewer passes them as
    /// arguments of one call, and browsers limit the number of arguments.
    const fn appended(close: u8) -> Self {
        Self { count: 0, most: 1000, close }
    }

    /// Returns items that form their container in one step.
    const fn at_once(close: u8) -> Self {
        Self { count: 0, most: usize::MAX, close }
    }

    fn open<W: Write>(&mut self, pickler: &mut Pickler<W>) -> io::Result<()> {
        if self.count == self.most {
            self.close(pickler)?;
        }
        if self.count == 0 {
            pickler.put(&[opcode::MARK])?;
        }
        self.count += 1;
        Ok(())
    }

    fn close<W: Write>(&mut self, pickler: &mut Pickler<W>) -> io::Result<()> {
        match std::mem::take(&mut self.count) {
            0 => Ok(()),
            _ => pickler.put(&[self.close]),
        }
    }
}

/// The sink, and the strings written to it with their memo indices.
#[derive(Debug)]
struct Pickler<W> {
    sink: W,
    texts: BTreeMap<Box<str>, u32>,
}

impl<W: Write> Pickler<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sink.write_all(bytes)
    }

    fn dict(
        &mut self,
        fill: impl FnOnce(&mut DictWriter<'_, W>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.put(&[opcode::EMPTY_DICT])?;
        let mut dict = DictWriter { pickler: self, items: Items::appended(opcode::SETITEMS) };
        fill(&mut dict)?;
        dict.items.close(dict.pickler)
    }

    fn integer(&mut self, value: i128) -> io::Result<()> {
        if let Ok(byte) = u8::try_from(value) {
            self.put(&[opcode::BININT1, byte])
        } else if let Ok(two) = u16::try_from(value) {
            self.put_with(opcode::BININT2, &two.to_le_bytes())
        } else if let Ok(four) = i32::try_from(value) {
            self.put_with(opcode::BININT, &four.to_le_bytes())
        } else {
            let bytes = value.to_le_bytes();
            let (length, shortest) = shortest(value, &bytes);
            self.put(&[opcode::LONG1, length])?;
            self.put(shortest)
        }
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        match self.texts.get(text) {
            Some(&place) => match u8::try_from(place) {
                Ok(place) => self.put(&[opcode::BINGET, place]),
                Err(_) => self.put_with(opcode::LONG_BINGET, &place.to_le_bytes()),
            },
            None => self.new_text(text),
        }
    }

    fn new_text(&mut self, text: &str) -> io::Result<()> {
        let too_much = |_| io::Error::new(io::ErrorKind::InvalidInput, "more than 4 GiB of text");
        if let Ok(length) = u8::try_from(text.len()) {
            self.put(&[opcode::SHORT_BINUNICODE, length])?;
        } else {
            let length = u32::try_from(text.len()).map_err(too_much)?;
            self.put_with(opcode::BINUNICODE, &length.to_le_bytes())?;
        }
        self.put(text.as_bytes())?;
        let place = u32::try_from(self.texts.len()).map_err(too_much)?;
        self.texts.insert(text.into(), place);
        self.put(&[opcode::MEMOIZE])
    }

    fn put_with(&mut self, code: u8, argument: &[u8]) -> io::Result<()> {
        self.put(&[code])?;
        self.put(argument)
    }
}

/// Returns the fewest low bytes that preserve the sign of `value`, and their number.
fn shortest(value: i128, bytes: &[u8; 16]) -> (u8, &[u8]) {
    let redundant = if value < 0 { value.leading_ones() } else { value.leading_zeros() };
    // One of the equal leading bits is the sign and must be kept.
    let length = 16 - (redundant - 1) / 8;
    (u8::try_from(length).expect("at most 16"), &bytes[..length as usize])
}

//! YAML text as a tree in which every key and value has its line.
//!
//! Only plain data is accepted: one document of mappings, lists and scalars. Anchors, aliases, tags and merge
//! keys are rejected, so that the tree cannot be larger than the text.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};

use super::{InputError, InputProblem};

/// Largest depth of nested mappings and lists; the default topology has three levels.
pub(crate) const DEEPEST: usize = 16;

/// Line and column in a named text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextMark<'a> {
    pub(crate) file: &'a str,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// Value with its position.
#[derive(Clone, Debug)]
pub(crate) struct Tree<'a> {
    pub(crate) mark: TextMark<'a>,
    pub(crate) value: Value<'a>,
}

#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    /// Scalar. A quoted scalar is text even if it looks like a number.
    Scalar {
        text: String,
        is_quoted: bool,
    },
    List(Vec<Tree<'a>>),
    Map(Vec<MapEntry<'a>>),
}

/// Key of a mapping with its value.
#[derive(Clone, Debug)]
pub(crate) struct MapEntry<'a> {
    pub(crate) key: String,
    pub(crate) mark: TextMark<'a>,
    pub(crate) tree: Tree<'a>,
}

impl TextMark<'_> {
    pub(crate) fn error(&self, key: &str, problem: InputProblem) -> InputError {
        let Self { file, line, column } = *self;
        InputError { file: file.into(), line, column, key: key.into(), problem }
    }
}

/// Decodes bytes as UTF-8; fails if there are more than `longest`.
pub(crate) fn text<'a>(file: &str, bytes: &'a [u8], longest: usize) -> Result<&'a str, InputError> {
    check_length(file, bytes.len(), longest)?;
    std::str::from_utf8(bytes).map_err(|error| {
        let (valid, rest) = bytes.split_at(error.valid_up_to());
        let before = String::from_utf8_lossy(valid);
        let last = before.rsplit('\n').next().unwrap_or_default();
        let (line, column) = (1 + before.matches('\n').count(), 1 + last.chars().count());
        let byte = rest.first().copied().unwrap_or_default();
        TextMark { file, line, column }.error("", InputProblem::NotUtf8 { byte })
    })
}

pub(crate) fn check_length(file: &str, bytes: usize, limit: usize) -> Result<(), InputError> {
    let problem = InputProblem::TooLong { limit };
    let error = || TextMark { file, line: 1, column: 1 }.error("", problem);
    if bytes <= limit { Ok(()) } else { Err(error()) }
}

/// Parses a text. A text without content is an empty mapping.
pub(crate) fn parse<'a>(file: &'a str, text: &'a str) -> Result<Tree<'a>, InputError> {
    let top = TextMark { file, line: 1, column: 1 };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = TreeBuilder { file, events: Parser::new_from_str(text), depth: 0 };
    let mut tree = Tree { mark: top, value: Value::Map(Vec::new()) };
    let mut documents = 0;
    loop {
        let (event, mark) = builder.next()?;
        match event {
            Event::StreamEnd => return Ok(tree),
            Event::DocumentStart(_) if documents > 0 => {
                return Err(unsupported(mark, "a second document"));
            }
            Event::DocumentStart(_) => documents += 1,
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            event => {
                let content = builder.tree(event, mark, "")?;
                // A document that has only comments is one empty scalar.
                if !content.is_nothing() {
                    tree = content;
                }
            }
        }
    }
}

fn unsupported(mark: TextMark<'_>, found: &'static str) -> InputError {
    mark.error("", InputProblem::Unsupported { found })
}

struct TreeBuilder<'a> {
    file: &'a str,
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    depth: usize,
}

impl<'a> TreeBuilder<'a> {
    fn mark(&self, place: Marker) -> TextMark<'a> {
        TextMark { file: self.file, line: place.line().max(1), column: place.col() + 1 }
    }

    fn next(&mut self) -> Result<(Event<'a>, TextMark<'a>), InputError> {
        match self.events.next_event() {
            Some(Ok((event, Span { start, .. }))) => Ok((event, self.mark(start))),
            Some(Err(error)) => {
                let message = error.info().to_owned();
                let problem = InputProblem::Syntax { message };
                Err(self.mark(*error.marker()).error("", problem))
            }
            None => Ok((Event::StreamEnd, TextMark { file: self.file, line: 1, column: 1 })),
        }
    }

    /// Reads the value that begins with `event`.
    fn tree(
        &mut self,
        event: Event<'a>,
        mark: TextMark<'a>,
        path: &str,
    ) -> Result<Tree<'a>, InputError> {
        let value = match event {
            Event::Scalar(text, style, 0, None) => {
                Value::Scalar { text: text.into_owned(), is_quoted: style != ScalarStyle::Plain }
            }
            Event::SequenceStart(0, None) => self.nested(mark, path, Self::list)?,
            Event::MappingStart(0, None) => self.nested(mark, path, Self::map)?,
            Event::Alias(_) => return Err(unsupported(mark, "an alias")),
            Event::Scalar(_, _, 0, Some(_))
            | Event::SequenceStart(0, Some(_))
            | Event::MappingStart(0, Some(_)) => return Err(unsupported(mark, "a tag")),
            Event::Scalar(..) | Event::SequenceStart(..) | Event::MappingStart(..) => {
                return Err(unsupported(mark, "an anchor"));
            }
            _ => return Err(unsupported(mark, "no value")),
        };
        Ok(Tree { mark, value })
    }

    fn nested(
        &mut self,
        mark: TextMark<'a>,
        path: &str,
        read: fn(&mut Self, &str) -> Result<Value<'a>, InputError>,
    ) -> Result<Value<'a>, InputError> {
        if self.depth == DEEPEST {
            return Err(mark.error(path, InputProblem::TooDeep { limit: DEEPEST }));
        }
        self.depth += 1;
        let value = read(self, path);
        self.depth -= 1;
        value
    }

    fn list(&mut self, path: &str) -> Result<Value<'a>, InputError> {
        let mut list = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(list)),
                (event, mark) => {
                    let path = format!("{path}[{}]", list.len());
                    list.push(self.tree(event, mark, &path)?);
                }
            }
        }
    }

    fn map(&mut self, path: &str) -> Result<Value<'a>, InputError> {
        let mut entries: Vec<MapEntry<'a>> = Vec::new();
        // Index of each key in `entries`; a mapping of the longest text has too many keys to scan.
        let mut seen = std::collections::BTreeMap::new();
        loop {
            let (key, mark) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Value::Map(entries)),
                (Event::Scalar(key, _, 0, None), mark) => (key.into_owned(), mark),
                (_, mark) => return Err(unsupported(mark, "a key that is no text")),
            };
            let path = join(path, &key);
            if let Some(first_line) = seen.insert(key.clone(), mark.line) {
                return Err(mark.error(&path, InputProblem::DuplicateKey { first_line }));
            }
            let (event, start) = self.next()?;
            let tree = self.tree(event, start, &path)?;
            // An empty value has no meaningful position, so it gets the position of its key.
            let tree = if tree.is_nothing() { Tree { mark, ..tree } } else { tree };
            entries.push(MapEntry { key, mark, tree });
        }
    }
}

/// Returns the dotted path of `key` in the mapping at `path`.
pub(crate) fn join(path: &str, key: &str) -> String {
    let key: String = key.chars().take(40).flat_map(char::escape_debug).collect();
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

impl<'a> Tree<'a> {
    /// Returns whether the value is empty.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, is_quoted: false } if text.is_empty())
    }

    /// Lays `other` over this tree: mappings are merged, other values are replaced.
    pub(crate) fn overlay(&mut self, other: Tree<'a>) {
        match (&mut self.value, other.value) {
            (Value::Map(below), Value::Map(above)) => {
                for entry in above {
                    match below.iter_mut().find(|known| known.key == entry.key) {
                        Some(known) => {
                            known.mark = entry.mark;
                            known.tree.overlay(entry.tree);
                        }
                        None => below.push(entry),
                    }
                }
                self.mark = other.mark;
            }
            (_, value) => *self = Tree { mark: other.mark, value },
        }
    }
}

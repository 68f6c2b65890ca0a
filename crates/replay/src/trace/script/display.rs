//! Formatting of scripts.

use std::fmt::{self, Display, Formatter};

use super::{Expectation, Request, Script, Statement, Step};
use cubeyard_memory::policy::Kind;
use cubeyard_units::Bytes;

/// Formats one statement per line, in a form that [`Script::parse`] reads back.
impl Display for Script {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.statements.iter().try_for_each(|statement| writeln!(f, "{statement}"))
    }
}

/// Formats the statement without its line number.
impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.step.fmt(f)
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Space(size) => write!(f, "space {}", Exact(*size)),
            Self::Granule(size) => write!(f, "granule {}", Exact(*size)),
            Self::Policy(name) => write!(f, "policy {name}"),
            Self::Allocate(request) => request.fmt(f),
            Self::Free { name, refused: false } => write!(f, "free {name}"),
            Self::Free { name, refused: true } => write!(f, "free {name} -> error"),
            Self::Largest(size) => write!(f, "largest {}", Exact(*size)),
            Self::FreeBytes(size) => write!(f, "free-bytes {}", Exact(*size)),
        }
    }
}

impl Display for Request {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "alloc {} {}", self.name, Exact(self.size))?;
        write_option(f, "align", self.align.map(Exact))?;
        write_option(f, "at", self.at.map(Exact))?;
        if self.high {
            write!(f, " high")?;
        }
        write_option(f, "stream", self.stream)?;
        write_option(f, "kind", self.kind.map(Kind::name))?;
        write_option(f, "->", self.outcome)
    }
}

fn write_option(f: &mut Formatter<'_>, word: &str, value: Option<impl Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, " {word} {value}"))
}

impl Display for Expectation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => Exact(*offset).fmt(f),
            Self::OutOfMemory => f.write_str("out of memory"),
        }
    }
}

/// Size in the largest unit without remainder, where `Bytes` itself would round.
struct Exact(Bytes);

impl Display for Exact {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let count = self.0.get();
        match count.trailing_zeros() {
            0..10 | 64 => write!(f, "{count}"),
            10..20 => write!(f, "{}KiB", count >> 10),
            20..30 => write!(f, "{}MiB", count >> 20),
            _ => write!(f, "{}GiB", count >> 30),
        }
    }
}

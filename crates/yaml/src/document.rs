//! Input files, overlaid on defaults.

use super::InputError;
use super::reader::Field;
use super::tree::{self, Tree};

/// Default limit on the size of a file, in bytes.
pub const LONGEST: usize = 256 << 10;

/// Parsed file that other files may be laid over.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    tree: Tree<'a>,
}

impl<'a> Document<'a> {
    /// Parses a text of at most `longest` bytes. Errors refer to it as `name`.
    pub fn parse(name: &'a str, text: &'a str, longest: usize) -> Result<Self, InputError> {
        tree::check_length(name, text.len(), longest)?;
        Ok(Self { tree: tree::parse(name, text)? })
    }

    /// Lays another file over this one: mappings are merged, other values are replaced.
    pub fn overlay(&mut self, other: Self) {
        self.tree.overlay(other.tree);
    }

    /// Lays `text` over `defaults`: mappings are merged, other values are replaced. Errors refer to them as `name` and
    /// `defaults_name`.
    pub fn overlaid(
        defaults_name: &'a str,
        defaults: &'a str,
        name: &'a str,
        text: &'a str,
    ) -> Result<Self, InputError> {
        let over = Self::parse(name, text, LONGEST)?;
        let mut document = Self::parse(defaults_name, defaults, usize::MAX)?;
        document.overlay(over);
        Ok(document)
    }

    /// Returns the top-level value.
    pub fn root(&self) -> Field<'_> {
        Field::root(&self.tree)
    }
}

/// Decodes the bytes of a file as UTF-8, up to 256 KiB.
pub fn text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, InputError> {
    text_up_to(name, bytes, LONGEST)
}

/// Decodes the bytes of a file as UTF-8, up to `longest` bytes.
pub fn text_up_to<'a>(name: &str, bytes: &'a [u8], longest: usize) -> Result<&'a str, InputError> {
    tree::text(name, bytes, longest)
}

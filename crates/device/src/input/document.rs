//! A file laid over the defaults.

use super::InputError;
use super::reader::Field;
use super::yaml::{self, Tree};

/// The longest file that is read; no default has a tenth of it.
pub(crate) const LONGEST: usize = 256 << 10;

/// A file of defaults and what a user's file says instead.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    tree: Tree<'a>,
}

impl<'a> Document<'a> {
    /// `text` over `defaults`: mappings are merged, everything else is replaced. Errors call them `name` and
    /// `defaults_name`.
    pub fn overlaid(
        defaults_name: &'a str,
        defaults: &'a str,
        name: &'a str,
        text: &'a str,
    ) -> Result<Self, InputError> {
        yaml::check_length(name, text.len(), LONGEST)?;
        let mut tree = yaml::parse(defaults_name, defaults)?;
        tree.overlay(yaml::parse(name, text)?);
        Ok(Self { tree })
    }

    /// All of it.
    pub fn root(&self) -> Field<'_> {
        Field::root(&self.tree)
    }
}

/// The text that the bytes of a file are, if there are not too many.
pub fn text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, InputError> {
    yaml::text(name, bytes, LONGEST)
}

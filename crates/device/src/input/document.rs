//! Files laid over defaults.

use super::InputError;
use super::reader::Field;
use super::yaml::{self, Tree};

/// Largest file that is read, in bytes.
pub(crate) const LONGEST: usize = 256 << 10;

/// A file of defaults with a user's file laid over it.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    tree: Tree<'a>,
}

impl<'a> Document<'a> {
    /// Lays `text` over `defaults`: mappings are merged, other values are replaced. Errors call them `name`
    /// and `defaults_name`.
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

    /// Returns the top-level value.
    pub fn root(&self) -> Field<'_> {
        Field::root(&self.tree)
    }
}

/// Decodes the bytes of a file as UTF-8, up to 256 KiB.
pub fn text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, InputError> {
    yaml::text(name, bytes, LONGEST)
}

//! The input of a pickle, read from front to back.

use super::error::Problem;

#[derive(Debug)]
pub(super) struct Source<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Source<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self { input, at: 0 }
    }

    pub(super) fn offset(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a [u8] {
        &self.input[self.at..]
    }

    pub(super) fn left(&self) -> usize {
        self.input.len() - self.at
    }

    /// Reads the next `count` bytes without allocating.
    pub(super) fn take(&mut self, count: u64) -> Result<&'a [u8], Problem> {
        let fits = usize::try_from(count).ok().and_then(|count| self.rest().get(..count));
        let taken = fits.ok_or(Problem::Truncated { needed: count, left: self.left() })?;
        self.at += taken.len();
        Ok(taken)
    }

    /// Reads the next line, without its line end.
    pub(super) fn line(&mut self) -> Result<&'a [u8], Problem> {
        let end = self.rest().iter().position(|&byte| byte == b'\n');
        let line = &self.rest()[..end.ok_or(Problem::EndlessLine)?];
        self.at += line.len() + 1;
        Ok(line)
    }

    /// Reads the next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let missed = Problem::Truncated { needed: N as u64, left: self.left() };
        let array = *self.rest().first_chunk().ok_or(missed)?;
        self.at += N;
        Ok(array)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Problem> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn two_bytes(&mut self) -> Result<u16, Problem> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn four_bytes(&mut self) -> Result<u32, Problem> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn eight_bytes(&mut self) -> Result<u64, Problem> {
        self.array().map(u64::from_le_bytes)
    }
}

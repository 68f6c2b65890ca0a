//! A separate target for each stream, for policies that would give memory of one stream to another.

use std::collections::BTreeMap;

use super::Target;
use crate::trace::{Allocate, Trace};
use cubeyard_units::Bytes;

/// Targets of the streams of a trace. Pending work of a stream may still use a block after it is freed, so only
/// requests of the same stream may reuse its memory.
pub(super) struct Apart<'t> {
    targets: BTreeMap<u32, Box<dyn Target + 't>>,
    /// Stream of each block and its token there, indexed by the token of this target.
    tokens: Vec<(u32, u64)>,
}

impl<'t> Apart<'t> {
    /// Creates a target for each stream of a trace.
    pub(super) fn new(trace: &'t Trace, make: impl Fn(&'t Trace) -> Box<dyn Target + 't>) -> Self {
        let targets = trace.streams().into_iter().map(|stream| (stream, make(trace)));
        Self { targets: targets.collect(), tokens: Vec::new() }
    }

    /// Returns the stream of a token, and the token in that stream.
    fn of(&self, token: u64) -> Option<(u32, u64)> {
        self.tokens.get(usize::try_from(token).ok()?).copied()
    }
}

impl Target for Apart<'_> {
    fn allocate(&mut self, request: &Allocate) -> Result<u64, String> {
        let target = self.targets.get_mut(&request.stream);
        let target = target.ok_or_else(|| format!("stream {} is not known", request.stream))?;
        self.tokens.push((request.stream, target.allocate(request)?));
        Ok(self.tokens.len() as u64 - 1)
    }

    fn free(&mut self, token: u64) {
        let (stream, token) = self.of(token).expect("a token comes from `allocate`");
        self.targets.get_mut(&stream).into_iter().for_each(|target| target.free(token));
    }

    fn reserved(&self) -> Bytes {
        let each = self.targets.values().map(|target| target.reserved());
        each.reduce(|all, more| all.checked_add(more).unwrap_or(Bytes::MAX)).unwrap_or_default()
    }

    fn retries(&self) -> u64 {
        self.targets.values().map(|target| target.retries()).sum()
    }
}

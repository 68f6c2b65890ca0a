//! A separate target for each stream, for policies that would give memory of one stream to another.

use std::collections::BTreeMap;

use super::Target;
use crate::trace::{Allocate, Trace};
use crate::work::HeldBack;
use cubeyard_units::Bytes;

/// Targets of the streams of a trace. Pending work of a stream may still use a block after it is freed, so only
/// requests of the same stream may reuse its memory.
pub(super) struct Apart<'t> {
    targets: BTreeMap<u32, Box<dyn Target + 't>>,
    /// Stream of each block and its token there, indexed by the token of this target.
    tokens: Vec<(u32, u64)>,
    /// Freed blocks that other streams may still use, by the tokens of this target; `None` if there never are any.
    held_back: Option<HeldBack>,
}

impl<'t> Apart<'t> {
    /// Creates a target for each stream of a trace.
    pub(super) fn new(trace: &'t Trace, make: impl Fn(&'t Trace) -> Box<dyn Target + 't>) -> Self {
        let targets = trace.streams().into_iter().map(|stream| (stream, make(trace)));
        let (tokens, held_back) = (Vec::new(), HeldBack::of(trace));
        Self { targets: targets.collect(), tokens, held_back }
    }

    /// Returns the stream of a token, and the token in that stream.
    fn of(&self, token: u64) -> Option<(u32, u64)> {
        self.tokens.get(usize::try_from(token).ok()?).copied()
    }

    /// Frees a block in the target of its stream.
    fn give_back(&mut self, token: u64) {
        let (stream, token) = self.of(token).expect("a token comes from `allocate`");
        self.targets.get_mut(&stream).into_iter().for_each(|target| target.free(token));
    }
}

impl Target for Apart<'_> {
    fn allocate(&mut self, request: &Allocate) -> Result<u64, String> {
        let passed = self.held_back.as_mut().map(HeldBack::begin).unwrap_or_default();
        passed.into_iter().for_each(|token| self.give_back(token));
        let target = self.targets.get_mut(&request.stream);
        let target = target.ok_or_else(|| format!("stream {} is not known", request.stream))?;
        self.tokens.push((request.stream, target.allocate(request)?));
        let token = self.tokens.len() as u64 - 1;
        self.held_back.iter_mut().for_each(|held_back| held_back.placed(request, token));
        Ok(token)
    }

    fn free(&mut self, token: u64) {
        if !self.held_back.as_mut().is_some_and(|held_back| held_back.free(token)) {
            self.give_back(token);
        }
    }

    fn reserved(&self) -> Bytes {
        let each = self.targets.values().map(|target| target.reserved());
        each.reduce(|all, more| all.checked_add(more).unwrap_or(Bytes::MAX)).unwrap_or_default()
    }

    fn retries(&self) -> u64 {
        self.targets.values().map(|target| target.retries()).sum()
    }
}

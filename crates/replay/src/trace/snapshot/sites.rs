//! Numbering of call stacks.

use std::collections::BTreeMap;

use super::{Cursor, SnapshotError};
use crate::trace::CallStacks;
use cubeyard_pickle::Document;
use cubeyard_pickle::MemoryLimit;
use cubeyard_pickle::{Budget, map_entry};

/// Frame: file, line and function, with texts as numbers.
type Frame = (u32, i128, u32);

/// Assigns equal numbers to equal stacks of frames, from 1, in the order of first occurrence.
///
/// Many entries refer to one list, many lists to one frame, and many frames to one text. Each is examined once, so the
/// time is proportional to the size of the file.
#[derive(Debug)]
pub(super) struct Sites<'d> {
    stacks: Numbers<Vec<u32>>,
    frames: Numbers<Frame>,
    texts: Numbers<&'d str>,
}

impl<'d> Sites<'d> {
    pub(super) fn new(document: &Document<'_>, budget: &mut Budget) -> Result<Self, MemoryLimit> {
        let mut stacks = Numbers::new(document.containers(), budget)?;
        stacks.by_content.insert(Vec::new(), 0);
        let frames = Numbers::new(document.containers(), budget)?;
        Ok(Self { stacks, frames, texts: Numbers::new(document.texts(), budget)? })
    }

    /// Returns the number for the `frames` of an entry; 0 if it has none.
    pub(super) fn site(
        &mut self,
        entry: &Cursor<'d, '_>,
        budget: &mut Budget,
    ) -> Result<u32, SnapshotError> {
        match entry.optional("frames")? {
            Some(frames) => self.stack(&frames, budget),
            None => Ok(0),
        }
    }

    /// Returns the stacks of all call sites, by number.
    pub(super) fn finish(self, budget: &mut Budget) -> Result<CallStacks, MemoryLimit> {
        for text in self.texts.by_content.keys() {
            budget.charge_table::<u8>(text.len())?;
        }
        budget.charge_table::<String>(self.texts.by_content.len())?;
        let texts = self.texts.in_order(budget)?.into_iter().map(str::to_owned).collect();
        let (frames, stacks) = (self.frames.in_order(budget)?, self.stacks.in_order(budget)?);
        Ok(CallStacks { texts, frames, stacks })
    }

    fn stack(
        &mut self,
        frames: &Cursor<'d, '_>,
        budget: &mut Budget,
    ) -> Result<u32, SnapshotError> {
        let place = frames.sequence()?.index();
        if let Some(number) = self.stacks.by_place[place] {
            return Ok(number);
        }
        let mut stack = Vec::new();
        for frame in frames.items()? {
            let frame = self.frame(&frame, budget)?;
            budget.push(&mut stack, frame)?;
        }
        self.stacks.number(place, stack, budget)
    }

    fn frame(&mut self, frame: &Cursor<'d, '_>, budget: &mut Budget) -> Result<u32, SnapshotError> {
        let place = frame.dictionary()?;
        if let Some(number) = self.frames.by_place[place] {
            return Ok(number);
        }
        let file = self.text(&frame.field("filename")?, budget)?;
        let line = frame.field("line")?.integer()?;
        let function = self.text(&frame.field("name")?, budget)?;
        self.frames.number(place, (file, line, function), budget)
    }

    fn text(&mut self, text: &Cursor<'d, '_>, budget: &mut Budget) -> Result<u32, SnapshotError> {
        let place = text.string()?.index();
        match self.texts.by_place[place] {
            Some(number) => Ok(number),
            None => self.texts.number(place, text.text()?, budget),
        }
    }
}

/// Numbering of values of one kind: equal numbers for equal content.
#[derive(Debug)]
struct Numbers<K> {
    /// Numbers assigned so far, by index in the document.
    by_place: Vec<Option<u32>>,
    by_content: BTreeMap<K, u32>,
}

impl<K: Ord> Numbers<K> {
    fn new(places: usize, budget: &mut Budget) -> Result<Self, MemoryLimit> {
        budget.charge_table::<Option<u32>>(places)?;
        Ok(Self { by_place: vec![None; places], by_content: BTreeMap::new() })
    }

    /// Returns the values in the order of their numbers.
    fn in_order(self, budget: &mut Budget) -> Result<Vec<K>, MemoryLimit> {
        budget.charge_table::<(u32, K)>(2 * self.by_content.len())?;
        let mut numbered: Vec<_> = self.by_content.into_iter().map(|(key, it)| (it, key)).collect();
        numbered.sort_unstable_by_key(|&(number, _)| number);
        Ok(numbered.into_iter().map(|(_, key)| key).collect())
    }

    /// Returns the number of the value at `place` with this content.
    fn number(
        &mut self,
        place: usize,
        content: K,
        budget: &mut Budget,
    ) -> Result<u32, SnapshotError> {
        let next = u32::try_from(self.by_content.len()).map_err(|_| SnapshotError::TooMany)?;
        let number = self.by_content.get(&content).copied().unwrap_or(next);
        if number == next {
            budget.charge(map_entry::<K, u32>())?;
            self.by_content.insert(content, next);
        }
        self.by_place[place] = Some(number);
        Ok(number)
    }
}

//! `Sites`: numbers for call stacks.

use std::collections::BTreeMap;

use super::{Cursor, SnapshotError};

/// What a frame says: file, line and function.
type Frame<'d> = (&'d str, i128, &'d str);

/// Gives equal stacks of frames equal numbers, from 1, in the order in which they are met.
///
/// Snapshots refer to one list from many entries and to one frame from many lists. Each is looked at
/// once, which keeps the time in proportion to the file.
#[derive(Debug)]
pub(super) struct Sites<'d> {
    /// The number of each list that was met, by its place in the document.
    lists: Vec<Option<u32>>,
    /// The number of each frame that was met, by its place in the document.
    dictionaries: Vec<Option<u32>>,
    frames: BTreeMap<Frame<'d>, u32>,
    stacks: BTreeMap<Vec<u32>, u32>,
}

impl<'d> Sites<'d> {
    pub(super) fn new(containers: usize) -> Self {
        Self {
            lists: vec![None; containers],
            dictionaries: vec![None; containers],
            frames: BTreeMap::new(),
            stacks: BTreeMap::from([(Vec::new(), 0)]),
        }
    }

    /// The number for the `frames` of an entry; 0 where it has none.
    pub(super) fn site(&mut self, entry: &Cursor<'d, '_>) -> Result<u32, SnapshotError> {
        match entry.optional("frames")? {
            Some(frames) => self.stack(&frames),
            None => Ok(0),
        }
    }

    fn stack(&mut self, frames: &Cursor<'d, '_>) -> Result<u32, SnapshotError> {
        let place = frames.sequence()?.index();
        if let Some(number) = self.lists[place] {
            return Ok(number);
        }
        let stack = frames.items()?.map(|frame| self.frame(&frame));
        let stack = stack.collect::<Result<Vec<u32>, _>>()?;
        let number = number(&mut self.stacks, stack)?;
        self.lists[place] = Some(number);
        Ok(number)
    }

    fn frame(&mut self, frame: &Cursor<'d, '_>) -> Result<u32, SnapshotError> {
        let place = frame.dictionary()?;
        if let Some(number) = self.dictionaries[place] {
            return Ok(number);
        }
        let line = frame.field("line")?.integer()?;
        let said = (frame.field("filename")?.text()?, line, frame.field("name")?.text()?);
        let number = number(&mut self.frames, said)?;
        self.dictionaries[place] = Some(number);
        Ok(number)
    }
}

fn number<K: Ord>(numbers: &mut BTreeMap<K, u32>, key: K) -> Result<u32, SnapshotError> {
    let next = u32::try_from(numbers.len()).map_err(|_| SnapshotError::TooMany)?;
    Ok(*numbers.entry(key).or_insert(next))
}

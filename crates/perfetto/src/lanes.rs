//! Distribution of overlapping operations over several tracks.

use std::io::Write;

use cubeyard_units::Time;

use super::{TraceError, TraceWriter, TrackId};

/// Track with additional tracks below it for overlapping operations.
///
/// Each operation gets the first free lane, so the number of lanes is the largest number of concurrent operations, and
/// the same operations always get the same lanes. The first lane is the track itself; the others are named after it:
/// `DMA #2`, `DMA #3`.
///
/// ```
/// use cubeyard_perfetto::{Lanes, TraceWriter};
/// use cubeyard_units::Time;
///
/// let mut trace = TraceWriter::new(Vec::new());
/// let mut dma = Lanes::new(&mut trace, "DMA", None)?;
/// for (start, end) in [(0, 30), (10, 20), (20, 40), (30, 50)] {
///     let (start, end) = (Time::from_ps(start), Time::from_ps(end));
///     let lane = dma.lane(&mut trace, start, end)?;
///     trace.slice(lane, start, end, "read")?;
/// }
/// assert_eq!(dma.tracks().len(), 2);
/// # Ok::<(), cubeyard_perfetto::TraceError>(())
/// ```
#[derive(Debug)]
pub struct Lanes {
    name: String,
    tracks: Vec<TrackId>,
    ends: Vec<Time>,
    last_start: Time,
}

impl Lanes {
    /// Adds a track below `parent` as the first lane.
    pub fn new<W: Write>(
        trace: &mut TraceWriter<W>,
        name: &str,
        parent: Option<TrackId>,
    ) -> Result<Self, TraceError> {
        let first = trace.track(name, parent)?;
        let (tracks, ends) = (vec![first], vec![Time::ZERO]);
        Ok(Self { name: name.to_owned(), tracks, ends, last_start: Time::ZERO })
    }

    /// Returns the lane for an operation from `start` to `end`, and reserves it.
    ///
    /// Operations must be given in the order of their starts. Slices for the parts of an operation belong on its lane.
    pub fn lane<W: Write>(
        &mut self,
        trace: &mut TraceWriter<W>,
        start: Time,
        end: Time,
    ) -> Result<TrackId, TraceError> {
        if end < start {
            return Err(TraceError::EndsBeforeStart { start, end });
        }
        if start < self.last_start {
            return Err(TraceError::OutOfOrder { start, last: self.last_start });
        }
        let lane = match self.ends.iter().position(|&taken| taken <= start) {
            Some(lane) => lane,
            None => self.add(trace)?,
        };
        self.ends[lane] = end;
        self.last_start = start;
        Ok(self.tracks[lane])
    }

    /// Returns the tracks of all lanes so far.
    pub fn tracks(&self) -> &[TrackId] {
        &self.tracks
    }

    fn add<W: Write>(&mut self, trace: &mut TraceWriter<W>) -> Result<usize, TraceError> {
        let lane = self.tracks.len();
        let name = format!("{} #{}", self.name, lane + 1);
        self.tracks.push(trace.track(&name, Some(self.tracks[0]))?);
        self.ends.push(Time::ZERO);
        Ok(lane)
    }
}

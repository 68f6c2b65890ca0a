//! Loads and stores along the fast axis of memory.
//!
//! A tile whose rows cross the fast axis of memory is an access for each row, and each element of it is a burst. Along
//! the fast axis it is a single access of rows, and the vector unit permutes the tile. The cheaper of the two is chosen, by
//! the bursts of the accesses and by the stated cost of the permutation.

use cubeyard_device::message::{Direction, Rows};
use cubeyard_device::pe::{Dma, Strips};
use cubeyard_runtime::Scalar;
use cubeyard_sim::Span;

use super::op::Op;
use super::{Mask, Ref, Tile, Tl};

/// Tile in memory with its axes in the order of memory.
struct Along {
    memory: Ref,
    mask: Option<Mask>,
    /// Axis of the tile for each axis of `memory`.
    axes: Vec<usize>,
}

impl Along {
    /// Returns the axis of `memory` for each axis of the tile.
    fn back(&self) -> Vec<usize> {
        let mut back = vec![0; self.axes.len()];
        self.axes.iter().enumerate().for_each(|(at, &axis)| back[axis] = at);
        back
    }
}

impl Tl {
    /// Loads a tile like [`load`](Self::load) and [`load_masked`](Self::load_masked), or along the fast axis of memory
    /// with a permutation in the PE, if that is quicker.
    #[track_caller]
    pub fn load_along(&self, from: &Ref, mask: Option<(&Mask, Scalar)>) -> Tile {
        let Some(along) = self.along(Direction::Read, from, mask.map(|(mask, _)| mask)) else {
            return self.load_selected(from, mask);
        };
        let other = mask.map_or(Scalar::Int(0), |(_, other)| other);
        let tile = self.load_selected(&along.memory, along.mask.as_ref().map(|mask| (mask, other)));
        self.permute(&tile, &along.back())
    }

    /// Stores a tile like [`store`](Self::store) and [`store_masked`](Self::store_masked), or along the fast axis of
    /// memory after a permutation in the PE, if that is quicker.
    #[track_caller]
    pub fn store_along(&self, to: &Ref, tile: &Tile, mask: Option<&Mask>) {
        let along =
            if to.ty() == tile.ty() { self.along(Direction::Write, to, mask) } else { None };
        match along {
            Some(along) => {
                let tile = self.permute(tile, &along.axes);
                self.store_selected(&along.memory, &tile, along.mask.as_ref());
            }
            None => self.store_selected(to, tile, mask),
        }
    }

    #[track_caller]
    fn load_selected(&self, from: &Ref, mask: Option<(&Mask, Scalar)>) -> Tile {
        match mask {
            Some((mask, other)) => self.load_masked(from, mask, other),
            None => self.load(from),
        }
    }

    #[track_caller]
    fn store_selected(&self, to: &Ref, tile: &Tile, mask: Option<&Mask>) {
        match mask {
            Some(mask) => self.store_masked(to, tile, mask),
            None => self.store(to, tile),
        }
    }

    /// Returns the quickest order of axes along memory, if it and a permutation are quicker than the order of the tile.
    /// It has no more accesses, so that their latency is no longer either.
    fn along(&self, direction: Direction, of: &Ref, mask: Option<&Mask>) -> Option<Along> {
        let orders = of.orders_along_memory(direction);
        if orders.is_empty() || mask.is_some_and(|mask| *mask.shape() != *of.ty().shape) {
            return None;
        }
        let plain = of.accesses(direction, mask);
        let timed = orders.into_iter().filter_map(|axes| {
            let (memory, mask) = (of.permuted(&axes), mask.map(|mask| mask.permuted(&axes)));
            let accesses = memory.accesses(direction, mask.as_ref());
            let time = (self.time_of(direction, &accesses, true), accesses.len());
            (accesses.len() <= plain.len()).then_some((time, Along { memory, mask, axes }))
        });
        let ((time, _), along) = timed.min_by_key(|(time, _)| *time)?;
        let quicker =
            time + self.permutation(of, &along.axes)? < self.time_of(direction, &plain, false);
        let fits = || self.state.scratch.borrow().has_room_for_two(of.ty().nbytes());
        (quicker && fits()).then_some(along)
    }

    /// Returns the time of accesses whose bursts are spread evenly over the channels of a memory. The DMA engines share
    /// the accesses, but not the bursts of one.
    fn time_of(&self, direction: Direction, accesses: &[Dma], repeats: bool) -> Span {
        let (core, hbm) = (&self.state.site.core, &self.state.site.hbm);
        let burst = hbm.burst.get();
        let rounds = |dma: &Dma| {
            let repeated = if repeats { dma.bytes.div_ceil(burst) } else { 0 };
            (bursts(dma, burst) + repeated).div_ceil(hbm.channels.into())
        };
        let engines = match direction {
            Direction::Read => core.dma_read_engines,
            Direction::Write => core.dma_write_engines,
        };
        let all = accesses.iter().map(rounds).sum::<u64>().div_ceil(engines.into());
        let longest = accesses.iter().map(rounds).max().unwrap_or(0);
        hbm.channel_bandwidth.span(burst) * all.max(longest)
    }

    /// Returns the time of a permutation: its dispatch, the scheduler, and its strips.
    fn permutation(&self, of: &Ref, axes: &[usize]) -> Option<Span> {
        let (op, core) = (Op::Permute(axes.to_vec()), &self.state.site.core);
        let output = op.infer(&[of.ty()]).ok()?;
        let strips = op.cost(&[of.ty()], &output, core).ok()?;
        Some(core.dispatch + core.scheduler_overhead + duration(&strips))
    }
}

/// Returns the bursts of an access. Rows that follow each other within a burst share it. They do so within a flit only; a
/// flit has at least one burst of data, so there are at most `bytes / burst` more.
fn bursts(dma: &Dma, burst: u64) -> u64 {
    let rows = dma.rows.unwrap_or(Rows { bytes: dma.bytes, pitch: dma.bytes });
    let (mut next, mut count) = (0, 0);
    for (offset, bytes) in rows.segments(0, dma.bytes) {
        let first = ((dma.address + offset) / burst).max(next);
        next = (dma.address + offset + bytes).div_ceil(burst).max(first);
        count += next - first;
    }
    count
}

/// Returns the time of strips that stream through the three stages.
fn duration(strips: &Strips) -> Span {
    let Strips { fetch, work, store, count, .. } = *strips;
    let slowest = fetch.max(work).max(store);
    fetch + work + store + slowest * u64::from(count.saturating_sub(1))
}

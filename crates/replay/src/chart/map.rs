//! Still picture of block maps side by side: addresses over events.

use super::WIDTH;
use crate::{BlockMap, MappedBlock};
use cubeyard_draw::axis::{BYTE_UNITS, multiples, ticks, unit};
use cubeyard_draw::plot::Plot;
use cubeyard_draw::svg::{Area, Canvas, SOFT};
use cubeyard_units::text::count;
use std::collections::BTreeMap;

const HEIGHT: f64 = 420.0;
const TOP: f64 = 58.0;
const BOTTOM: f64 = HEIGHT - 52.0;
const LEFT: f64 = 60.0;
const GAP: f64 = 70.0;
/// Number of blocks in the picture of a map: the blocks with the most bytes times events.
const LARGEST: usize = 1000;

/// Draws maps side by side with equal scales. `colour` chooses the colour of a block by its name.
pub(super) fn draw(maps: &[BlockMap], colour: &dyn Fn(&str) -> &'static str) -> String {
    let most = maps.iter().map(|map| map.height.get()).max().unwrap_or(0).max(1) as f64;
    let columns = maps.len().max(1) as f64;
    let width = (WIDTH - LEFT - 20.0 - GAP * (columns - 1.0)) / columns;
    let mut canvas = Canvas::default();
    for (place, map) in maps.iter().enumerate() {
        let x = LEFT + place as f64 * (width + GAP);
        let area = Area { x, y: TOP, width, height: BOTTOM - TOP };
        MapPanel { map, area, most }.draw(&mut canvas, colour);
    }
    canvas.finish("Blocks by address over the events of the trace", WIDTH, HEIGHT)
}

struct MapPanel<'m> {
    map: &'m BlockMap,
    area: Area,
    most: f64,
}

impl MapPanel<'_> {
    fn x(&self, event: f64) -> f64 {
        self.area.x + self.area.width * event / self.map.events.max(1) as f64
    }

    fn y(&self, bytes: f64) -> f64 {
        self.area.bottom() - self.area.height * bytes / self.most
    }

    fn draw(&self, canvas: &mut Canvas, colour: &dyn Fn(&str) -> &'static str) {
        let largest = largest(&self.map.blocks);
        canvas.text(self.area.x, 20.0, "font-size=\"15\" font-weight=\"600\"", self.map.policy);
        canvas.text(self.area.x, 38.0, SOFT, &remark(self.map, largest.len()));
        self.axes(canvas);
        let mut paths: BTreeMap<&str, String> = BTreeMap::new();
        for block in largest {
            *paths.entry(colour(self.map.name(block))).or_default() += &self.outline(block);
        }
        for (fill, path) in paths {
            canvas.path(&path, &format!("fill=\"{fill}\" fill-opacity=\"0.85\""));
        }
    }

    fn outline(&self, block: &MappedBlock) -> String {
        let (left, right) = (self.x(block.from as f64), self.x(block.to as f64));
        let (start, size) = (block.start.get() as f64, block.size.get() as f64);
        let (top, bottom) = (self.y(start + size), self.y(start));
        format!("M{left:.1} {top:.1}H{right:.1}V{bottom:.1}H{left:.1}Z")
    }

    fn axes(&self, canvas: &mut Canvas) {
        let plot = Plot { area: self.area, right: self.area.right() };
        let end = self.map.events.max(1) as f64;
        let whole = multiples(end, 4).filter(|number| number.fract() == 0.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let across: Vec<_> = whole.map(|number| (self.x(number), count(number as u64))).collect();
        let (size, name) = unit(&BYTE_UNITS, self.most);
        let up = ticks(self.most, size, 6).into_iter().map(|(value, text)| (self.y(value), text));
        plot.axes(canvas, &across, &up.collect::<Vec<_>>(), ["events", name]);
    }
}

/// Returns the blocks with the most bytes times events.
fn largest(blocks: &[MappedBlock]) -> Vec<&MappedBlock> {
    let mut largest: Vec<_> = blocks.iter().collect();
    largest.sort_by_key(|block| std::cmp::Reverse(block.weight()));
    largest.truncate(LARGEST);
    largest
}

/// Describes the height of a map, and the number of its blocks that are shown.
pub(super) fn remark(map: &BlockMap, shown: usize) -> String {
    let (height, all) = (map.height, count(map.all() as u64));
    if shown == map.all() {
        return format!("{height} of addresses in use; all {all} blocks");
    }
    format!("{height} of addresses in use; the largest {} of {all} blocks", count(shown as u64))
}

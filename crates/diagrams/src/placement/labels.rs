//! Names on rectangles: of parts if all of them fit, otherwise of cubes, otherwise of SIPs.

use cubeyard_draw::svg::{Area, MIDDLE, SOFT};
use cubeyard_memory::Bytes;
use cubeyard_runtime::placement::Split;

use super::paint::number;
use super::{Picture, Shard};

/// Returns whether the text fits into the rectangle.
fn has_room(area: Area, text: &str) -> bool {
    area.width >= 6.6 * text.chars().count() as f64 + 4.0 && area.height >= 13.0
}

/// Returns the bounding rectangle of both.
fn union(a: Area, b: Area) -> Area {
    let (x, y) = (a.x.min(b.x), a.y.min(b.y));
    let (right, bottom) = (a.right().max(b.right()), a.bottom().max(b.bottom()));
    Area { x, y, width: right - x, height: bottom - y }
}

/// Names of the levels in labels.
pub(super) const LEVELS: [&str; 3] = ["sip", "cube", "pe"];

impl Picture<'_> {
    /// Joins the parts that are equal in the first `levels` levels. Such parts are adjacent in order. Their union is a
    /// rectangle, because they were split from one rectangle.
    pub(super) fn joined(&self, levels: usize) -> Vec<(&Shard, Area)> {
        let mut joined: Vec<(&Shard, Area)> = Vec::new();
        for copies in self.layout.parts() {
            let (shard, area) = (&copies[0], self.area(&copies[0]));
            match joined.last_mut() {
                Some((first, whole)) if same(first, shard, levels) => *whole = union(*whole, area),
                _ => joined.push((shard, area)),
            }
        }
        joined
    }

    pub(super) fn unions(&self, levels: usize) -> Vec<Area> {
        self.joined(levels).into_iter().map(|(_, area)| area).collect()
    }

    /// Returns the name of a shard, built from the levels that split the tensor.
    fn name(&self, shard: &Shard, levels: usize) -> String {
        let split = (0..levels).filter(|&level| self.layout.splits()[level] != Split::Replicate);
        let names = split.map(|level| format!("{}{}", LEVELS[level], number(shard, level)));
        let name = names.collect::<Vec<_>>().join(" ");
        let everywhere = self.layout.splits().iter().all(|&split| split == Split::Replicate);
        if everywhere { "all of it in each PE".to_owned() } else { name }
    }

    /// Writes names at the finest level at which all of them fit.
    pub(super) fn labels(&mut self) {
        let fitting = [3, 2, 1].into_iter().find_map(|levels| {
            let labels: Vec<(String, Area, u64)> = self
                .joined(levels)
                .into_iter()
                .map(|(shard, area)| (self.name(shard, levels), area, shard.nbytes))
                .collect();
            let room =
                labels.iter().all(|(name, area, _)| !name.is_empty() && has_room(*area, name));
            room.then_some((levels, labels))
        });
        if let Some((levels, labels)) = fitting {
            for (name, area, nbytes) in labels {
                let bytes = (levels == 3).then(|| Bytes::new(nbytes).to_string());
                self.label(area, &name, bytes.as_deref());
            }
        }
    }

    fn label(&mut self, area: Area, name: &str, bytes: Option<&str>) {
        let (x, y) = area.middle();
        let bytes = bytes.filter(|text| has_room(area, text) && area.height >= 32.0);
        let style = format!("font-size=\"11\" {MIDDLE}");
        let raised = if bytes.is_some() { 3.0 } else { -4.0 };
        self.canvas.text(x, y - raised, &style, name);
        if let Some(bytes) = bytes {
            self.canvas.text(x, y + 11.0, &format!("{style} {SOFT}"), bytes);
        }
    }
}

fn same(a: &Shard, b: &Shard, levels: usize) -> bool {
    (0..levels).all(|level| number(a, level) == number(b, level))
}

//! Names on rectangles: of parts if all of them have room, else of cubes, else of SIPs.

use cubeyard_memory::Bytes;

use super::super::Split;
use super::paint::number;
use super::{Picture, Shard};

/// A rectangle on the paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rect {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Rect {
    fn around(self, other: Self) -> Self {
        Self {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }

    pub(super) fn shorter(self) -> f64 {
        (self.right - self.left).min(self.bottom - self.top)
    }

    fn has_room(self, text: &str) -> bool {
        let width = 6.6 * text.chars().count() as f64 + 4.0;
        self.right - self.left >= width && self.bottom - self.top >= 13.0
    }
}

const LEVELS: [&str; 3] = ["sip", "cube", "pe"];

impl Picture<'_> {
    /// Parts joined while their numbers at the first `levels` levels are the same. They are neighbours
    /// in the order of parts, and their union is a rectangle, as it was one before it was split.
    pub(super) fn joined(&self, levels: usize) -> Vec<(&Shard, Rect)> {
        let mut joined: Vec<(&Shard, Rect)> = Vec::new();
        for copies in self.layout.parts() {
            let (shard, area) = (&copies[0], self.area(&copies[0]));
            match joined.last_mut() {
                Some((first, whole)) if same(first, shard, levels) => *whole = whole.around(area),
                _ => joined.push((shard, area)),
            }
        }
        joined
    }

    pub(super) fn unions(&self, levels: usize) -> Vec<Rect> {
        self.joined(levels).into_iter().map(|(_, area)| area).collect()
    }

    /// A shard's name, as far as the levels that split tell it.
    fn name(&self, shard: &Shard, levels: usize) -> String {
        let split = (0..levels).filter(|&level| self.layout.splits[level] != Split::Replicate);
        let names = split.map(|level| format!("{}{}", LEVELS[level], number(shard, level)));
        let name = names.collect::<Vec<_>>().join(" ");
        let everywhere = self.layout.splits.iter().all(|&split| split == Split::Replicate);
        if everywhere { "all of it in each PE".to_owned() } else { name }
    }

    /// Writes names on the finest level that has room for all of them; gives where the matrix ends.
    pub(super) fn labels(&mut self) -> f64 {
        let fitting = [3, 2, 1].into_iter().find_map(|levels| {
            let labels: Vec<(String, Rect, u64)> = self
                .joined(levels)
                .into_iter()
                .map(|(shard, area)| (self.name(shard, levels), area, shard.nbytes))
                .collect();
            let room = labels.iter().all(|(name, area, _)| !name.is_empty() && area.has_room(name));
            room.then_some((levels, labels))
        });
        if let Some((levels, labels)) = fitting {
            for (name, area, nbytes) in labels {
                let bytes = (levels == 3).then(|| Bytes::new(nbytes).to_string());
                self.label(area, &name, bytes.as_deref());
            }
        }
        self.whole().bottom + 10.0
    }

    fn label(&mut self, area: Rect, name: &str, bytes: Option<&str>) {
        let (x, y) = (f64::midpoint(area.left, area.right), f64::midpoint(area.top, area.bottom));
        let bytes = bytes.filter(|text| area.has_room(text) && area.bottom - area.top >= 32.0);
        let style = "font-size=\"11\" text-anchor=\"middle\"";
        let raised = if bytes.is_some() { 3.0 } else { -4.0 };
        self.text(x, y - raised, style, name);
        if let Some(bytes) = bytes {
            self.text(x, y + 11.0, &format!("{style} fill=\"#57606a\""), bytes);
        }
    }
}

fn same(a: &Shard, b: &Shard, levels: usize) -> bool {
    (0..levels).all(|level| number(a, level) == number(b, level))
}

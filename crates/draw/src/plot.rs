//! Plots: the axes around the lines of a chart, and the names beside their ends.

use crate::svg::{AXIS, Area, Canvas, END, GRID, MIDDLE, SOFT};
use crate::xml::shorten;

/// Vertical distance between labels, in pixels.
const LABEL_GAP: f64 = 18.0;
/// Longest name of a label, in characters.
const LONGEST_NAME: usize = 24;

/// Part of a chart in which its lines are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Plot {
    /// Rectangle between the axes.
    pub area: Area,
    /// Right edge of the labels beside the plot.
    pub right: f64,
}

/// Name and figures of a line, beside its end.
#[derive(Clone, Debug)]
pub struct Label {
    /// Name of the line; long names are shortened.
    pub name: String,
    /// Figures at the right edge.
    pub figures: String,
    /// End of the line, from which a leader goes to the label.
    pub from: (f64, f64),
    /// Style of the leader.
    pub leader: String,
    /// Whether the label is emphasized.
    pub bold: bool,
}

impl Plot {
    /// Draws grid lines with labels at the given positions of both axes, then the axes and their titles.
    pub fn axes(
        &self,
        canvas: &mut Canvas,
        across: &[(f64, String)],
        up: &[(f64, String)],
        titles: [&str; 2],
    ) {
        let Area { x: left, y: top, .. } = self.area;
        let (right, bottom) = (self.area.right(), self.area.bottom());
        for (y, text) in up {
            canvas.path(&format!("M{left} {y:.1}H{right}"), GRID);
            canvas.text(left - 8.0, y + 4.0, &format!("{SOFT} {END}"), text);
        }
        for (x, text) in across {
            canvas.path(&format!("M{x:.1} {top}V{bottom}"), GRID);
            canvas.text(*x, bottom + 18.0, &format!("{SOFT} {MIDDLE}"), text);
        }
        canvas.path(&format!("M{left} {top}V{bottom}H{right}"), AXIS);
        let [below, above] = titles;
        canvas.text(self.area.middle().0, bottom + 38.0, &format!("{SOFT} {MIDDLE}"), below);
        canvas.text(left - 8.0, top - 12.0, &format!("{SOFT} {END}"), above);
    }

    /// Draws labels to the right of the plot, moved apart where they would overlap.
    pub fn labels(&self, canvas: &mut Canvas, labels: &[Label]) {
        let right = self.area.right();
        let heights: Vec<f64> = labels.iter().map(|label| label.from.1).collect();
        for (label, to) in labels.iter().zip(spread(&heights, LABEL_GAP, self.area.bottom())) {
            let Label { name, figures, from: (x, y), leader, bold } = label;
            let (bend, baseline) = (right + 16.0, to + 4.0);
            let d = format!("M{x:.1} {y:.1}H{right}L{bend} {to:.1}h12");
            canvas.path(&d, &format!("fill=\"none\" {leader}"));
            let style = if *bold { "font-weight=\"700\"" } else { "font-weight=\"400\"" };
            canvas.text(right + 36.0, baseline, style, &shorten(name, LONGEST_NAME));
            canvas.text(self.right, baseline, &format!("{style} {END}"), figures);
        }
    }
}

/// Moves heights down, and then up again from the bottom, until all are at least `gap` apart.
fn spread(heights: &[f64], gap: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|&left, &right| heights[left].total_cmp(&heights[right]));
    let mut moved = heights.to_vec();
    let mut least = f64::MIN;
    for &place in &order {
        moved[place] = moved[place].max(least);
        least = moved[place] + gap;
    }
    let mut most = bottom;
    for &place in order.iter().rev() {
        moved[place] = moved[place].min(most);
        most = moved[place] - gap;
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_apart_and_above_the_bottom() {
        assert_eq!(spread(&[10.0, 50.0, 30.0], 20.0, 100.0), [10.0, 50.0, 30.0]);
        assert_eq!(spread(&[50.0, 50.0, 53.0], 10.0, 100.0), [50.0, 60.0, 70.0]);
        assert_eq!(spread(&[95.0, 99.0], 10.0, 100.0), [90.0, 100.0]);
        assert!(spread(&[], 10.0, 100.0).is_empty());
    }
}

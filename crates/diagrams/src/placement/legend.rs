//! Legend of a layout: colours and figures.

use cubeyard_draw::svg::Area;
use cubeyard_memory::Bytes;

use super::labels::LEVELS;
use super::{Picture, Split};

const LINE: f64 = 20.0;
const PLAIN: &str = "font-size=\"12\"";
const BOLD: &str = "font-size=\"13\" font-weight=\"600\"";

impl Picture<'_> {
    /// Draws the legend from a point downwards; returns its bottom edge.
    pub(super) fn legend(&mut self, x: f64, y: f64) -> f64 {
        let mut y = self.colours(x, y + 10.0);
        self.canvas.text(x, y, BOLD, "who holds it");
        for line in self.figures() {
            y += LINE;
            self.canvas.text(x, y, PLAIN, &line);
        }
        y
    }

    fn colours(&mut self, x: f64, mut y: f64) -> f64 {
        let hues = self.hues;
        let Some((level, count)) = hues.hue else { return y };
        self.canvas.text(x, y, BOLD, "colours");
        let mut last = y;
        for place in 0..count {
            let (column, row) = (f64::from(place % 3), f64::from(place / 3));
            let (left, top) = (x + 76.0 * column, y + LINE * (row + 0.4));
            let area = Area { x: left, y: top, width: 16.0, height: 13.0 };
            let fill = hues.colour(place, 0);
            self.canvas.rect(area, &format!("rx=\"3\" fill=\"{fill}\" stroke=\"#8c959f\""));
            self.canvas.text(left + 22.0, top + 11.0, PLAIN, &format!("{}{place}", LEVELS[level]));
            last = top;
        }
        y = last + 2.0 * LINE;
        if let Some((level, count)) = hues.shade {
            let names = format!("{name}0 to {name}{}", count - 1, name = LEVELS[level]);
            let width = 100.0 / f64::from(count);
            for shade in 0..count {
                let left = x + width * f64::from(shade);
                let area = Area { x: left, y: y - 11.0, width, height: 14.0 };
                self.canvas.rect(area, &format!("fill=\"{}\"", hues.colour(0, shade)));
            }
            self.canvas.text(x + 108.0, y, PLAIN, &names);
            y += LINE;
        }
        y + 0.6 * LINE
    }

    /// Describes the split at each level, then the bytes per PE.
    fn figures(&self) -> Vec<String> {
        let layout = self.layout;
        let counts = [layout.sips().len(), layout.cubes().len(), layout.placed_pes()];
        let names = ["SIP", "cube", "PE"];
        let levels = layout.splits().into_iter().zip(counts).zip(names);
        let mut lines: Vec<String> = levels
            .map(|((split, count), name)| match (split, count) {
                (_, 1) => format!("one {name}"),
                (Split::Replicate, _) => format!("a copy in each of {count} {name}s"),
                (Split::RowWise, _) => format!("rows over {count} {name}s"),
                (Split::ColumnWise, _) => format!("columns over {count} {name}s"),
            })
            .collect();
        lines.push(match layout.parts().len() {
            1 => "one part".to_owned(),
            parts => format!("{parts} different parts"),
        });
        let (least, most) = layout.bytes_of_holders();
        let (least, most) = (Bytes::new(least).to_string(), Bytes::new(most).to_string());
        lines.push(if least == most {
            format!("{most} in each PE")
        } else {
            format!("{least} to {most} in a PE")
        });
        let idle = layout.sips().len() * layout.cubes().len() * layout.placed_pes()
            - layout.shards().len();
        if idle > 0 {
            lines.push(format!("{idle} PEs have nothing left to hold"));
        }
        lines
    }
}

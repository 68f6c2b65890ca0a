//! What the colours mean, and the figures.

use cubeyard_memory::Bytes;

use super::labels::Rect;
use super::{Picture, Split};

const LINE: f64 = 20.0;
const NAMES: [&str; 3] = ["sip", "cube", "pe"];
const PLAIN: &str = "font-size=\"12\"";
const BOLD: &str = "font-size=\"13\" font-weight=\"600\"";

impl Picture<'_> {
    /// Writes the legend from here on; gives where it ends.
    pub(super) fn legend(&mut self, x: f64, y: f64) -> f64 {
        let mut y = self.colours(x, y + 10.0);
        self.text(x, y, BOLD, "who holds it");
        for line in self.figures() {
            y += LINE;
            self.text(x, y, PLAIN, &line);
        }
        y
    }

    fn colours(&mut self, x: f64, mut y: f64) -> f64 {
        let hues = self.hues;
        let Some((level, count)) = hues.hue else { return y };
        self.text(x, y, BOLD, "colours");
        let mut last = y;
        for place in 0..count {
            let (column, row) = (f64::from(place % 3), f64::from(place / 3));
            let (left, top) = (x + 76.0 * column, y + LINE * (row + 0.4));
            self.swatch(left, top, &hues.colour(place, 0));
            self.text(left + 22.0, top + 11.0, PLAIN, &format!("{}{place}", NAMES[level]));
            last = top;
        }
        y = last + 2.0 * LINE;
        if let Some((level, count)) = hues.shade {
            let names = format!("{name}0 to {name}{}", count - 1, name = NAMES[level]);
            let width = 100.0 / f64::from(count);
            for shade in 0..count {
                let left = x + width * f64::from(shade);
                let area = Rect { left, top: y - 11.0, right: left + width, bottom: y + 3.0 };
                self.rect(area, &format!("fill=\"{}\"", hues.colour(0, shade)));
            }
            self.text(x + 108.0, y, PLAIN, &names);
            y += LINE;
        }
        y + 0.6 * LINE
    }

    fn swatch(&mut self, left: f64, top: f64, fill: &str) {
        let area = Rect { left, top, right: left + 16.0, bottom: top + 13.0 };
        self.rect(area, &format!("rx=\"3\" fill=\"{fill}\" stroke=\"#8c959f\""));
    }

    /// Each level in words, then how much a PE holds.
    fn figures(&self) -> Vec<String> {
        let layout = self.layout;
        let counts = [layout.sips.len(), layout.cubes.len(), layout.placed_pes];
        let names = ["SIP", "cube", "PE"];
        let levels = layout.splits.iter().zip(counts).zip(names);
        let mut lines: Vec<String> = levels
            .map(|((&split, count), name)| match (split, count) {
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
        let idle = layout.sips.len() * layout.cubes.len() * layout.placed_pes - layout.shards.len();
        if idle > 0 {
            lines.push(format!("{idle} PEs have nothing left to hold"));
        }
        lines
    }
}

//! Colours of shards: a hue by cube, a shade by PE.

use cubeyard_runtime::placement::{Layout, Shard, Split};

/// Levels that determine the hue and the shade: 0 for SIPs, 1 for cubes, 2 for PEs, each with its count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hues {
    pub(super) hue: Option<(usize, u32)>,
    pub(super) shade: Option<(usize, u32)>,
}

impl Hues {
    /// Chooses the first two of cubes, PEs and SIPs that split the tensor.
    pub(super) fn new(layout: &Layout) -> Self {
        let mut levels = [1, 2, 0].into_iter().filter_map(|level: usize| {
            let count = layout.shards().iter().map(|shard| number(shard, level) + 1).max()?;
            (layout.splits()[level] != Split::Replicate && count > 1).then_some((level, count))
        });
        Self { hue: levels.next(), shade: levels.next() }
    }

    pub(super) fn fill(self, shard: &Shard) -> String {
        let place =
            |level: Option<(usize, u32)>| level.map_or(0, |(level, _)| number(shard, level));
        self.colour(place(self.hue), place(self.shade))
    }

    pub(super) fn colour(self, place: u32, shade: u32) -> String {
        let hues = self.hue.map_or(1, |(_, count)| count);
        let shades = self.shade.map_or(1, |(_, count)| count);
        let hue = 210.0 + 360.0 * f64::from(place) / f64::from(hues);
        // Adjacent hues also differ in saturation, since many hues alone are hard to distinguish.
        let strength = if place.is_multiple_of(2) { 0.75 } else { 0.5 };
        let light = 0.90 - 0.20 * f64::from(shade) / f64::from(shades.max(2) - 1);
        rgb(hue % 360.0, strength, if shades == 1 { 0.82 } else { light })
    }
}

/// Returns the index of a shard's SIP, cube or PE.
pub(super) fn number(shard: &Shard, level: usize) -> u32 {
    let at = shard.at;
    [at.sip.number(), at.cube.number(), at.pe.number()][level]
}

/// Converts hue in degrees, saturation and lightness to a hexadecimal colour.
fn rgb(hue: f64, saturation: f64, lightness: f64) -> String {
    let reach = saturation * lightness.min(1.0 - lightness);
    let channel = |offset: f64| {
        let turn = (offset + hue / 30.0) % 12.0;
        let value = lightness - reach * (turn - 3.0).min(9.0 - turn).clamp(-1.0, 1.0);
        format!("{:02x}", to_byte(value))
    };
    format!("#{}{}{}", channel(0.0), channel(8.0), channel(4.0))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
fn to_byte(value: f64) -> u8 {
    (value * 255.0).round().clamp(0.0, 255.0) as u8
}

#[cfg(test)]
mod tests {
    use super::rgb;

    #[test]
    fn colours_are_those_of_the_web() {
        assert_eq!(rgb(0.0, 1.0, 0.5), "#ff0000");
        assert_eq!(rgb(120.0, 1.0, 0.25), "#008000");
        assert_eq!(rgb(210.0, 0.0, 1.0), "#ffffff");
        assert_eq!(rgb(240.0, 1.0, 0.5), "#0000ff");
    }
}

//! Overrides of the number, topology and grid of the SIPs.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use cubeyard_memory::address::SipId;
use thiserror::Error;

use super::spec::{SipTopology, SipsSpec};
use super::{Spec, Topology};
use cubeyard_yaml::NoSuchName;

impl SipTopology {
    /// All topologies, with their names in files.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("ring_1d", Self::Ring1d),
        ("torus_2d", Self::Torus2d),
        ("mesh_2d_no_wrap", Self::Mesh2dNoWrap),
    ];

    /// Returns the name of the topology in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring1d => "ring_1d",
            Self::Torus2d => "torus_2d",
            Self::Mesh2dNoWrap => "mesh_2d_no_wrap",
        }
    }
}

impl FromStr for SipTopology {
    type Err = NoSuchName;

    fn from_str(text: &str) -> Result<Self, NoSuchName> {
        NoSuchName::find(text, &Self::NAMES, |(name, _)| name).map(|(_, topology)| topology)
    }
}

/// Grid of SIPs; `3x2` has three columns and two rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SipGrid {
    /// Number of SIPs in a row.
    pub w: NonZeroU32,
    /// Number of SIPs in a column.
    pub h: NonZeroU32,
}

impl FromStr for SipGrid {
    type Err = SipsError;

    fn from_str(text: &str) -> Result<Self, SipsError> {
        let sides = text.split_once(['x', '×']);
        let sides = sides.and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
        let (w, h) = sides.ok_or_else(|| SipsError::Grid(text.to_owned()))?;
        Ok(Self { w, h })
    }
}

impl fmt::Display for SipGrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.w, self.h)
    }
}

impl SipGrid {
    /// Returns the number of places, saturating at `u32::MAX`.
    const fn count(self) -> u32 {
        self.w.get().saturating_mul(self.h.get())
    }
}

/// Values that replace the machine's values for SIPs; `None` keeps the machine's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SipsOverlay {
    /// Number of SIPs.
    pub count: Option<u32>,
    /// Topology that the SIPs form.
    pub topology: Option<SipTopology>,
    /// Grid of the SIPs. If `None`, the grid of the machine if the number is unchanged, otherwise the grid nearest to a
    /// square.
    pub grid: Option<SipGrid>,
}

/// Error for invalid SIP values. Give other values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SipsError {
    /// The text is not a grid.
    #[error("expected columns and rows, such as 3x2; found `{0}`")]
    Grid(String),
    /// The number is zero, or greater than the number of SIPs that addresses can name.
    #[error("expected from 1 to {} SIPs; found {found}", SipId::COUNT)]
    Count {
        /// Number that was given.
        found: u32,
    },
    /// A grid was given for a ring.
    #[error("expected no grid for a ring of SIPs; found {0}")]
    RingGrid(SipGrid),
    /// The number of places in the grid differs from the number of SIPs.
    #[error("expected a grid of {count} SIPs; found {grid}, which has {}", grid.count())]
    Places {
        /// Number of SIPs.
        count: u32,
        /// Grid that was given.
        grid: SipGrid,
    },
}

impl Topology {
    /// Returns this machine with other SIPs, all of them like the existing ones.
    ///
    /// ```
    /// use cubeyard_device::topology::{SipTopology, SipsOverlay, Topology};
    ///
    /// let torus = SipTopology::Torus2d;
    /// let six = SipsOverlay { count: Some(6), topology: Some(torus), grid: None };
    /// let sips = Topology::embedded().with_sips(six)?.spec().sips;
    /// assert_eq!((sips.count, sips.w, sips.h), (6, 3, 2));
    /// # Ok::<(), cubeyard_device::topology::SipsError>(())
    /// ```
    pub fn with_sips(self, overlay: SipsOverlay) -> Result<Self, SipsError> {
        let sips = overlay.over(self.spec.sips)?;
        if sips == self.spec.sips {
            return Ok(self);
        }
        Ok(Self::new(Spec { sips, ..self.spec }, self.values))
    }
}

impl SipsOverlay {
    fn over(self, had: SipsSpec) -> Result<SipsSpec, SipsError> {
        let topology = self.topology.unwrap_or(had.topology);
        let count = self.count.or(self.grid.map(SipGrid::count)).unwrap_or(had.count);
        if !(1..=SipId::COUNT).contains(&count) {
            return Err(SipsError::Count { found: count });
        }
        let (w, h) = match (topology, self.grid) {
            (SipTopology::Ring1d, Some(grid)) => return Err(SipsError::RingGrid(grid)),
            (SipTopology::Ring1d, None) => (count, 1),
            (_, Some(grid)) if grid.count() != count => {
                return Err(SipsError::Places { count, grid });
            }
            (_, Some(grid)) => (grid.w.get(), grid.h.get()),
            (_, None) if had.topology != SipTopology::Ring1d && had.count == count => {
                (had.w, had.h)
            }
            (_, None) => near_square(count),
        };
        Ok(SipsSpec { count, topology, w, h })
    }
}

/// Returns the grid with `count` places that is nearest to a square, and at least as wide as high.
fn near_square(count: u32) -> (u32, u32) {
    let sides = (1..=count.isqrt()).rev();
    let h = sides.into_iter().find(|side| count.is_multiple_of(*side)).unwrap_or(1);
    (count / h, h)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: SipsSpec = SipsSpec { count: 2, topology: SipTopology::Ring1d, w: 2, h: 1 };
    const TORUS: SipsSpec = SipsSpec { count: 6, topology: SipTopology::Torus2d, w: 2, h: 3 };

    fn overlay(count: Option<u32>, topology: &str, grid: &str) -> SipsOverlay {
        let (topology, grid) = (topology.parse().ok(), grid.parse().ok());
        SipsOverlay { count, topology, grid }
    }

    fn over(had: SipsSpec, overlay: SipsOverlay) -> Result<(u32, u32, u32), String> {
        let sips = overlay.over(had).map_err(|error| error.to_string())?;
        Ok((sips.count, sips.w, sips.h))
    }

    #[test]
    fn a_grid_that_is_not_said_is_near_a_square() {
        let grids = [1, 2, 4, 5, 6, 8, 12, 16].map(near_square);
        let expected = [(1, 1), (2, 1), (2, 2), (5, 1), (3, 2), (4, 2), (4, 3), (4, 4)];
        assert_eq!(grids, expected);
    }

    #[test]
    fn what_is_not_said_stays() {
        assert_eq!(over(TORUS, SipsOverlay::default()), Ok((6, 2, 3)));
        assert_eq!(over(TORUS, overlay(None, "mesh_2d_no_wrap", "")), Ok((6, 2, 3)));
        assert_eq!(over(TORUS, overlay(Some(8), "", "")), Ok((8, 4, 2)));
        assert_eq!(over(TORUS, overlay(None, "", "3x2")), Ok((6, 3, 2)));
        assert_eq!(over(TORUS, overlay(None, "ring_1d", "")), Ok((6, 6, 1)));
        assert_eq!(over(RING, overlay(Some(6), "", "")), Ok((6, 6, 1)));
        assert_eq!(over(RING, overlay(None, "torus_2d", "2x3")), Ok((6, 2, 3)));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let refused = |overlay| over(RING, overlay).unwrap_err();
        assert_eq!(refused(overlay(Some(0), "", "")), "expected from 1 to 16 SIPs; found 0");
        assert_eq!(refused(overlay(Some(17), "", "")), "expected from 1 to 16 SIPs; found 17");
        assert_eq!(
            refused(overlay(None, "", "3x2")),
            "expected no grid for a ring of SIPs; found 3x2"
        );
        assert_eq!(
            refused(overlay(Some(6), "torus_2d", "2x2")),
            "expected a grid of 6 SIPs; found 2x2, which has 4"
        );
        let grid = overlay(None, "torus_2d", "4294967295x2");
        assert_eq!(refused(grid), "expected from 1 to 16 SIPs; found 4294967295");
        let name = "torus".parse::<SipTopology>().unwrap_err().to_string();
        assert!(name.ends_with("found `torus`; the nearest is `torus_2d`"), "{name}");
        for text in ["", "3", "3x", "0x2", "3x2x1", "axb", "-1x2"] {
            assert!(text.parse::<SipGrid>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_machine_with_other_sips_is_the_one_that_a_file_would_describe() {
        let six = overlay(Some(6), "torus_2d", "");
        let ours = Topology::embedded().with_sips(six).unwrap();
        let text = "sips: {count: 6, topology: torus_2d, w: 3, h: 2}\n";
        let file = Topology::read("six.yaml", text).unwrap();
        assert_eq!(ours.spec(), file.spec());
        assert_eq!(ours.nodes().len(), file.nodes().len());
        assert_eq!(ours.content_hash(), file.content_hash());
    }
}

//! Machines for the tests of collectives.

use cubeyard_collectives::distributed::Ranks;
use cubeyard_device::topology::Topology;

/// A machine of SIPs whose cubes have two PEs each, and the kind of its ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) sips: &'static str,
    /// Number of columns and rows of cubes.
    pub(super) cubes: (u32, u32),
    pub(super) ranks: Ranks,
    /// Size of the TCM's part for tiles, as text with its unit.
    pub(super) scratch: &'static str,
}

const SCRATCH: &str = "8 MiB";

/// Rings of single SIPs of each length, then rings, tori and meshes of SIPs, cubes and PEs.
pub(super) const MACHINES: [Machine; 15] = [
    sips("{count: 1}"),
    sips("{count: 2}"),
    sips("{count: 3}"),
    sips("{count: 4}"),
    sips("{count: 5}"),
    sips("{count: 6}"),
    sips("{count: 7}"),
    sips("{count: 8}"),
    sips("{count: 6, topology: torus_2d, w: 3, h: 2}"),
    sips("{count: 6, topology: mesh_2d_no_wrap, w: 3, h: 2}"),
    Machine { sips: "{count: 2}", cubes: (2, 2), ranks: Ranks::Cube, scratch: SCRATCH },
    Machine { sips: "{count: 1}", cubes: (3, 3), ranks: Ranks::Cube, scratch: SCRATCH },
    Machine {
        sips: "{count: 6, topology: torus_2d, w: 3, h: 2}",
        cubes: (2, 1),
        ranks: Ranks::Cube,
        scratch: SCRATCH,
    },
    Machine { sips: "{count: 2}", cubes: (2, 2), ranks: Ranks::Pe, scratch: SCRATCH },
    Machine {
        sips: "{count: 4, topology: mesh_2d_no_wrap, w: 2, h: 2}",
        cubes: (1, 2),
        ranks: Ranks::Pe,
        scratch: SCRATCH,
    },
];

/// Rings of 1 to 16 SIPs, as the key `sips` of a topology.
pub(super) const COUNTS: [&str; 16] = [
    "{count: 1}",
    "{count: 2}",
    "{count: 3}",
    "{count: 4}",
    "{count: 5}",
    "{count: 6}",
    "{count: 7}",
    "{count: 8}",
    "{count: 9}",
    "{count: 10}",
    "{count: 11}",
    "{count: 12}",
    "{count: 13}",
    "{count: 14}",
    "{count: 15}",
    "{count: 16}",
];

pub(super) const fn sips(sips: &'static str) -> Machine {
    Machine { sips, cubes: (1, 1), ranks: Ranks::Sip, scratch: SCRATCH }
}

impl Machine {
    pub(super) fn topology(self) -> Topology {
        let (sips, (w, h), scratch) = (self.sips, self.cubes, self.scratch);
        let text = format!(
            "sips: {sips}\ncubes: {{w: {w}, h: {h}}}\nhbm: {{bytes_per_cube: 64 MiB}}\n\
             pe: {{routers: [r0c0, r0c1], core: {{scratch_bytes: {scratch}}}}}\n"
        );
        Topology::read("small.yaml", &text).unwrap()
    }

    /// Returns the number of PEs of a SIP.
    pub(super) fn pes(self) -> usize {
        (self.cubes.0 * self.cubes.1 * 2) as usize
    }

    pub(super) fn world(self) -> usize {
        let each = self.pes() / self.position_count();
        self.topology().sips().count() * each
    }

    /// Returns the number of PEs of a rank.
    pub(super) fn position_count(self) -> usize {
        match self.ranks {
            Ranks::Sip => self.pes(),
            Ranks::Cube => 2,
            Ranks::Pe => 1,
        }
    }

    /// Returns the rank, and the position within it, of a PE of a SIP.
    pub(super) fn place(self, sip: usize, pe: usize) -> (usize, usize) {
        let number = sip * self.pes() + pe;
        (number / self.position_count(), number % self.position_count())
    }
}

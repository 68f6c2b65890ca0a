//! Kernels of the parts of a layer, one per file.

mod append;
mod columns;
mod decode;
mod embed;
mod gather;
mod norm;
mod prefill;
mod rows;
mod turn;

pub(super) use append::append;
pub(super) use columns::{gate_up, head, qkv};
pub(super) use decode::decode;
pub(super) use embed::embed;
pub(super) use norm::norm;
pub(super) use prefill::prefill;
pub(super) use rows::{down, output};

use std::rc::Rc;

use super::cut::Cut;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Lazy, Port, Tile, Tl};

/// A PE that runs a part of a layer.
pub(super) struct Here {
    tl: Tl,
    args: Args,
    cut: Rc<Cut>,
    /// Index of the PE in its cube.
    pe: u64,
    /// Index of the cube's group in its SIP, and index of the cube in the group.
    group: u64,
    cube: u64,
}

impl Here {
    /// Returns its number in the group: PEs at the first position of each cube come first. So the PEs of one
    /// cube hold contiguous parts of the group's output.
    fn unit(&self) -> u64 {
        self.pe * self.cut.group_cubes + self.cube
    }

    /// Returns the other cubes of the group, with the port to the PE at this position of each.
    fn others(&self) -> impl Iterator<Item = (u64, Port)> + use<> {
        let here = self.cube;
        let port = |cube: u64| (cube, Port(u16::try_from(cube).expect("few cubes")));
        (0..self.cut.group_cubes).filter(move |cube| *cube != here).map(port)
    }

    /// Splits rows into ranges that are in the TCM at once.
    fn row_blocks(&self, rows: u64) -> impl Iterator<Item = std::ops::Range<u64>> + use<> {
        let most = self.cut.rows();
        (0..rows.div_ceil(most)).map(move |block| block * most..((block + 1) * most).min(rows))
    }

    /// Computes an expression, cast to the type of activations.
    #[track_caller]
    fn narrow(&self, expression: &Lazy) -> Tile {
        self.tl.eval(&expression.cast(self.cut.work.dtype))
    }
}

/// Makes a kernel of a distribution, named by all its parameters.
fn kernel(part: &str, cut: &Rc<Cut>, body: impl Fn(&Here) + 'static) -> Kernel {
    let name = format!("{part} of {}", cut.label());
    let (cut, body) = (Rc::clone(cut), Rc::new(body));
    Kernel::new(&name, move |tl, args| {
        let (cut, body) = (Rc::clone(&cut), Rc::clone(&body));
        let (pe, cube) = (tl.program_id(0), tl.program_id(1));
        let (group, cube) = (cube / cut.group_cubes, cube % cut.group_cubes);
        let here = Here { tl, args, cut, pe, group, cube };
        Box::pin(async move { body(&here) })
    })
}

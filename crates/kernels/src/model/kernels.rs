//! What PEs run for the parts of a layer, one to a file.

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
use crate::kernel::{Args, Kernel};
use crate::tl::{Port, Tile, Tl};

/// A PE at work on a part of a layer.
pub(super) struct Here {
    tl: Tl,
    args: Args,
    cut: Rc<Cut>,
    /// Which of its cube's PEs it is.
    pe: u64,
    /// Which of its SIP's groups its cube belongs to, and which of the group's cubes that is.
    group: u64,
    cube: u64,
}

impl Here {
    /// Its number in the group: position by position, of each the cubes. What PEs of one cube have of a
    /// group's output then follows each other in the order of these.
    fn unit(&self) -> u64 {
        self.pe * self.cut.group_cubes + self.cube
    }

    /// The other cubes of the group, with the port to the PE at this position of each.
    fn others(&self) -> impl Iterator<Item = (u64, Port)> + use<> {
        let here = self.cube;
        let port = |cube: u64| (cube, Port(u16::try_from(cube).expect("few cubes")));
        (0..self.cut.group_cubes).filter(move |cube| *cube != here).map(port)
    }

    /// The ranges of so many rows that are in the TCM at once.
    fn row_blocks(&self, rows: u64) -> impl Iterator<Item = std::ops::Range<u64>> + use<> {
        let most = self.cut.rows();
        (0..rows.div_ceil(most)).map(move |block| block * most..((block + 1) * most).min(rows))
    }

    /// A tile in the type of activations.
    #[track_caller]
    fn narrow(&self, tile: &Tile) -> Tile {
        self.tl.cast(tile, self.cut.work.dtype)
    }
}

/// A kernel of a cut, whose name says all that it depends on.
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

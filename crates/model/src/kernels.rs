//! Kernels of the parts of a layer, one per file.

mod add;
mod append;
mod columns;
mod decode;
mod embed;
mod expert;
mod gather;
mod layer;
mod norm;
mod pick;
mod prefill;
mod rows;
mod turn;

pub(super) use layer::layer;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::cut::{Cut, Phase};
use super::part::StepPart;
use super::wiring::to_cube;
use cubeyard_runtime::dtype::DType;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Lazy, Port, Tile, Tl};

use pick::Pick;

/// Computation of a part on each PE.
type PartBody = fn(&Here);

/// Context of a PE that runs a part of a layer.
pub(super) struct Here {
    tl: Tl,
    args: Args,
    cut: Rc<Cut>,
    /// Index of the PE in its cube.
    pe: u64,
    /// Index of the cube's group in its SIP, and index of the cube in the group.
    group: u64,
    cube: u64,
    /// Weights that were loaded before their part began, with their addresses, in order of use.
    ahead: RefCell<VecDeque<(u64, Tile)>>,
}

impl Here {
    fn new(tl: Tl, args: Args, cut: &Rc<Cut>) -> Self {
        let (pe, cube) = (tl.program_id(0), tl.program_id(1));
        let (group, cube) = (cube / cut.group_cubes, cube % cut.group_cubes);
        Self { tl, args, cut: Rc::clone(cut), pe, group, cube, ahead: RefCell::default() }
    }

    /// Returns the PE's number in the group: the PEs at the first position of each cube come first. The PEs of a cube
    /// therefore hold contiguous parts of the group's output.
    fn unit(&self) -> u64 {
        self.pe * self.cut.group_cubes + self.cube
    }

    /// Returns the other cubes of the group, each with the port to its PE at this PE's position.
    fn others(&self) -> impl Iterator<Item = (u64, Port)> + use<> {
        let here = self.cube;
        (0..self.cut.group_cubes)
            .filter(move |cube| *cube != here)
            .map(|cube| (cube, to_cube(cube)))
    }

    /// Splits rows into ranges that fit in the TCM at once.
    fn row_blocks(&self, rows: u64) -> impl Iterator<Item = std::ops::Range<u64>> + use<> {
        let most = self.cut.rows();
        (0..rows.div_ceil(most)).map(move |block| block * most..((block + 1) * most).min(rows))
    }

    /// Converts a tile to a type; a tile that already has the type is returned as it is.
    #[track_caller]
    fn cast(&self, tile: &Tile, dtype: DType) -> Tile {
        if tile.ty().dtype == dtype {
            return tile.clone();
        }
        self.tl.eval(&tile.lazy().cast(dtype))
    }

    /// Computes an expression, and casts it to the type of activations.
    #[track_caller]
    fn narrow(&self, expression: &Lazy) -> Tile {
        self.tl.eval(&expression.cast(self.cut.work.dtype))
    }
}

/// Creates the kernel of a part, named by all parameters of its distribution.
pub(super) fn kernel(part: StepPart, cut: &Rc<Cut>) -> Kernel {
    let (name, body) =
        (format!("{} of {}", name(part, cut.work.phase), cut.label()), body(part, cut.work.phase));
    let cut = Rc::clone(cut);
    Kernel::new(&name, move |tl, args| {
        let here = Here::new(tl, args, &cut);
        Box::pin(async move { body(&here) })
    })
}

/// Returns the name of a part's kernel.
fn name(part: StepPart, phase: Phase) -> &'static str {
    match (part, phase) {
        (StepPart::Append, _) => "append",
        (StepPart::Attention, Phase::Prefill) => "prefill attention",
        (StepPart::GateUp, _) => "gate and up",
        _ => part.name(),
    }
}

/// Returns the computation of a part.
fn body(part: StepPart, phase: Phase) -> PartBody {
    match (part, phase) {
        (StepPart::Embedding, _) => embed::embed,
        (StepPart::Norm | StepPart::PostNorm, _) => norm::norm,
        (StepPart::Add, _) => add::add,
        (StepPart::Qkv, _) => columns::qkv,
        (StepPart::Append, _) => append::append,
        (StepPart::Attention, Phase::Decode) => decode::decode,
        (StepPart::Attention, Phase::Prefill) => prefill::prefill,
        (StepPart::Output, _) => rows::output,
        (StepPart::Router, _) => expert::router,
        (StepPart::GateUp, _) => columns::gate_up,
        (StepPart::Down, _) => rows::down,
        (StepPart::Head, _) => columns::head,
        (StepPart::AllReduce | StepPart::Layer, _) => unreachable!("it is made of others"),
    }
}

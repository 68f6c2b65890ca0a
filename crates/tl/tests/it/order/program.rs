//! Random kernels of loads and stores in one memory, and plain loops that do the same.

use cubeyard_runtime::dtype::DType;
use cubeyard_tl::numeric::Unary;
use cubeyard_tl::{Mask, Op, Ref, Source, Tile, Tl};
use proptest::prelude::*;

/// Number of elements of the memory, all f32.
pub(crate) const MEMORY: u64 = 256;

/// Shapes of tiles, of 24 elements each.
const SHAPES: [&[u64]; 4] = [&[24], &[4, 6], &[2, 3, 4], &[1, 6, 2, 2]];

/// Elements of the memory: the first one, and a stride per dimension of a tile.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    start: u64,
    strides: Vec<u64>,
}

#[derive(Clone, Debug)]
enum Step {
    /// Loads a tile, and adds a number to it.
    Load { shape: usize, from: Place, mask: Option<Vec<bool>>, add: u8 },
    /// Stores one of the most recently loaded tiles, in its shape.
    Store { tile: usize, to: [Place; 4], mask: Option<Vec<bool>> },
    /// Negates a matrix with a tiled operation: in place, or from one half of the memory to the other.
    Negate { starts: [u64; 2], pitch: u64, in_place: bool },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fences {
    None,
    Some,
    All,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    steps: Vec<(Step, bool)>,
    fences: Fences,
}

/// Calls a function with the index of each tile element that a mask selects, and its position in memory.
fn each(shape: &[u64], place: &Place, mask: Option<&[bool]>, mut act: impl FnMut(usize, usize)) {
    for element in 0..shape.iter().product::<u64>() {
        let (mut rest, mut at) = (element, place.start);
        for (length, stride) in shape.iter().zip(&place.strides).rev() {
            at += rest % length * stride;
            rest /= length;
        }
        let element = usize::try_from(element).unwrap();
        if mask.is_none_or(|mask| mask[element]) {
            act(element, usize::try_from(at).unwrap());
        }
    }
}

impl Place {
    fn of(&self, memory: &Ref, shape: &[u64]) -> Ref {
        memory.at(self.start, shape).strided(&self.strides)
    }
}

impl Step {
    fn perform(&self, tl: &Tl, memory: &Ref, tiles: &mut Vec<(usize, Tile)>) {
        match self {
            Self::Load { shape, from, mask, add } => {
                let from = from.of(memory, SHAPES[*shape]);
                let tile = match mask {
                    Some(mask) => tl.load_masked(&from, &mask_of(SHAPES[*shape], mask), -1.0),
                    None => tl.load(&from),
                };
                tiles.push((*shape, &tile + f64::from(*add)));
            }
            Self::Store { tile, to, mask } => {
                let Some((shape, tile)) = last(tiles, *tile) else { return };
                let to = to[*shape].of(memory, SHAPES[*shape]);
                match mask {
                    Some(mask) => tl.store_masked(&to, tile, &mask_of(SHAPES[*shape], mask)),
                    None => tl.store(&to, tile),
                }
            }
            Self::Negate { .. } => {
                let [from, to] = self.matrices().map(|place| place.of(memory, &[4, 6]));
                tl.map(Op::Unary(Unary::Neg), vec![Source::from(&from)]).tiles(2, 6).store(&to);
            }
        }
    }

    /// Applies the step to plain memory.
    fn expect(&self, memory: &mut [f32], tiles: &mut Vec<(usize, Vec<f32>)>) {
        match self {
            Self::Load { shape, from, mask, add } => {
                let mut tile = [-1.0; 24];
                each(SHAPES[*shape], from, mask.as_deref(), |at, from| tile[at] = memory[from]);
                tiles.push((*shape, tile.iter().map(|value| value + f32::from(*add)).collect()));
            }
            Self::Store { tile, to, mask } => {
                let Some((shape, tile)) = last(tiles, *tile) else { return };
                each(SHAPES[*shape], &to[*shape], mask.as_deref(), |at, to| memory[to] = tile[at]);
            }
            Self::Negate { .. } => {
                let [from, to] = self.matrices();
                let mut values = Vec::new();
                each(&[4, 6], &from, None, |_, from| values.push(-memory[from]));
                each(&[4, 6], &to, None, |at, to| memory[to] = values[at]);
            }
        }
    }

    /// Returns source and result of a negation.
    fn matrices(&self) -> [Place; 2] {
        let Self::Negate { starts, pitch, in_place } = self else {
            unreachable!("only asked there")
        };
        let place = |start| Place { start, strides: vec![*pitch, 1] };
        let from = place(starts[0]);
        let to = if *in_place { from.clone() } else { place(MEMORY / 2 + starts[1]) };
        [from, to]
    }
}

/// Returns one of the last three tiles.
fn last<T>(tiles: &[T], back: usize) -> Option<&T> {
    tiles[tiles.len().saturating_sub(3)..].iter().rev().cycle().nth(back)
}

fn mask_of(shape: &[u64], mask: &[bool]) -> Mask {
    let number =
        |index: &[u64]| index.iter().zip(shape).fold(0, |all, (at, length)| all * length + at);
    Mask::new(shape, |index| mask[usize::try_from(number(index)).unwrap()])
}

impl Program {
    pub(crate) fn with(&self, fences: Fences) -> Self {
        Self { fences, ..self.clone() }
    }

    pub(crate) fn perform(&self, tl: &Tl, memory: &Ref) {
        assert_eq!((memory.ty().elements(), memory.ty().dtype), (MEMORY, DType::F32));
        let mut tiles = Vec::new();
        for (step, fenced) in &self.steps {
            step.perform(tl, memory, &mut tiles);
            match self.fences {
                Fences::All => tl.fence(),
                Fences::Some if *fenced => tl.fence(),
                _ => {}
            }
        }
    }

    /// Returns the memory after all steps in sequence; the memory initially counts from 0.
    pub(crate) fn expected(&self) -> Vec<f32> {
        let mut memory: Vec<f32> = (0..MEMORY).map(|at| at as f32).collect();
        let mut tiles = Vec::new();
        self.steps.iter().for_each(|(step, _)| step.expect(&mut memory, &mut tiles));
        memory
    }
}

/// Positions of a tile in memory such that no two elements share one: each dimension in turn, in any order, has a
/// stride beyond the extent of the earlier ones, possibly with a gap.
fn places(shape: &'static [u64]) -> impl Strategy<Value = Place> {
    let order = Just((0..shape.len()).collect::<Vec<_>>()).prop_shuffle();
    let gaps = proptest::collection::vec(prop_oneof![3 => Just(0_u64), 1 => 1..3_u64], shape.len());
    let is_plain = any::<bool>();
    (order, gaps, is_plain, any::<prop::sample::Index>()).prop_map(
        move |(order, gaps, is_plain, start)| {
            let (mut extent, mut strides) = (1, vec![1; shape.len()]);
            let order = if is_plain { (0..shape.len()).rev().collect() } else { order };
            for axis in order {
                strides[axis] = extent + gaps[axis];
                extent += strides[axis] * (shape[axis] - 1);
            }
            let most = MEMORY - extent;
            Place { start: start.index(usize::try_from(most + 1).unwrap()) as u64, strides }
        },
    )
}

fn masks() -> impl Strategy<Value = Option<Vec<bool>>> {
    prop_oneof![
        4 => Just(None),
        2 => proptest::collection::vec(any::<bool>(), 24).prop_map(Some),
        1 => (0..25_usize).prop_map(|count| Some((0..24).map(|at| at < count).collect())),
    ]
}

fn loads(shape: usize) -> impl Strategy<Value = Step> {
    (places(SHAPES[shape]), masks(), 0..9_u8).prop_map(move |(from, mask, add)| Step::Load {
        shape,
        from,
        mask,
        add,
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let to = SHAPES.map(places);
    let store =
        (0..3_usize, to, masks()).prop_map(|(tile, to, mask)| Step::Store { tile, to, mask });
    let start = 0..MEMORY / 2 - 4 * 9;
    let negate = ([start.clone(), start], 6..9_u64, any::<bool>())
        .prop_map(|(starts, pitch, in_place)| Step::Negate { starts, pitch, in_place });
    prop_oneof![
        3 => (0..SHAPES.len()).prop_flat_map(loads),
        3 => store,
        1 => negate,
    ]
}

pub(crate) fn programs() -> impl Strategy<Value = Program> {
    let steps = proptest::collection::vec((steps(), any::<bool>()), 4..24);
    steps.prop_map(|steps| Program { steps, fences: Fences::None })
}

//! Views of tensors as arguments: a kernel sees the shape of the view, and each PE its part of the view.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use cubeyard_memory::address::PeId;
use cubeyard_runtime::Tensor;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_tl::Tl;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::launch::{Launcher, Mode};
use proptest::prelude::*;

use crate::lab::{SMALL, context, launch, one, tensors};
use crate::long_tests::cases;

const PES: u8 = 4;

/// Shape of each PE's part; `None` if a PE holds nothing.
type Parts = Rc<RefCell<Vec<Option<Vec<u64>>>>>;

/// Records the shape of each part, and adds 1000 to its elements.
fn mark(tl: &Tl, args: &Args, parts: &Parts) {
    let part = args.tensor(0).local_if_any();
    let pe = usize::try_from(tl.program_id(0)).unwrap();
    parts.borrow_mut()[pe] = part.as_ref().map(|part| part.ty().shape.to_vec());
    if let Some(part) = part {
        tl.store(&part, &(&tl.load(&part) + 1000.0));
    }
}

/// Runs the kernel on a view; returns the shapes of the parts, or the error.
fn marked(view: &Tensor, launcher: &Launcher) -> Result<Vec<Option<Vec<u64>>>, String> {
    let parts: Parts = Rc::new(RefCell::new(vec![None; PES.into()]));
    let noted = Rc::clone(&parts);
    let kernel = Kernel::new("mark", move |tl, args| {
        let parts = Rc::clone(&noted);
        Box::pin(async move { mark(&tl, &args, &parts) })
    });
    let done = launcher.run(&kernel, &launch(tensors(&[view]), PES));
    done.map_err(|error| error.to_string())?;
    Ok(parts.take())
}

fn split(pe: Split) -> Placement {
    Placement { pe, cubes: Some(1), pes: Some(PES.into()), ..Placement::default() }
}

/// A view had the rows and columns of its tensor: 8 × 2, not 2 × 8.
#[test]
fn a_view_has_its_own_shape_in_a_kernel() {
    let context = context("", true);
    let x = context.arange(0.0, 1.0, 16, DType::F32).unwrap();
    let x = x.view(&[8, 2]).unwrap().to(&one()).unwrap();
    let launcher = Launcher::new(&context);
    let shapes = |view: &Tensor| marked(view, &launcher).unwrap()[0].clone();
    assert_eq!(shapes(&x.view(&[2, 8]).unwrap()), Some(vec![2, 8]));
    assert_eq!(shapes(&x.view(&[16]).unwrap()), Some(vec![16]));
    assert_eq!(shapes(&x.view(&[2, 2, 4]).unwrap()), Some(vec![4, 4]));
    assert_eq!(shapes(&x), Some(vec![8, 2]));
}

/// A view of some rows was held by no PE, so a kernel that checked for its part did nothing.
#[test]
fn a_view_of_rows_is_held_by_the_pes_that_hold_its_rows() {
    let context = context("", true);
    let x = context.zeros(&[8, 3], DType::F32).unwrap();
    let x = x.to(&split(Split::RowWise)).unwrap();
    let parts = marked(&x.rows(1..4).unwrap(), &Launcher::new(&context)).unwrap();
    assert_eq!(parts, [Some(vec![1, 3]), Some(vec![2, 3]), None, None]);
    let expected: Vec<_> =
        (0..24).map(|at| if (3..12).contains(&at) { 1000.0 } else { 0.0 }).collect();
    assert_eq!(x.read::<f32>().unwrap().known().unwrap(), expected);
}

#[test]
fn a_view_of_columns_has_the_columns_of_each_pe() {
    let context = context("", true);
    let x = context.zeros(&[6, 8], DType::F32).unwrap();
    let x = x.to(&split(Split::ColumnWise)).unwrap();
    let parts = marked(&x.view(&[2, 3, 8]).unwrap(), &Launcher::new(&context)).unwrap();
    assert_eq!(parts, vec![Some(vec![6, 2]); 4]);
    assert_eq!(x.read::<f32>().unwrap().known().unwrap(), [1000.0; 48]);
}

/// A part that is not a rectangle of the view has no shape; the kernel must not conclude that it holds nothing.
#[test]
fn a_part_that_is_no_rectangle_is_refused() {
    let context = context("", true);
    let x = context.zeros(&[8, 3], DType::F32).unwrap();
    let x = x.to(&split(Split::RowWise)).unwrap().view(&[6, 4]).unwrap();
    let error = marked(&x, &Launcher::new(&context)).unwrap_err();
    let wanted = "argument 0: sip0.cube0.pe0 holds elements 0 to 6 of a view of 6x4, which are no \
                  rectangle of it; use the whole of it, or a view whose rows it holds";
    assert!(error.contains(wanted), "{error}");
}

/// A random view: some rows of a tensor, reshaped, and some rows of the result.
#[derive(Clone, Debug)]
struct Case {
    shape: Vec<u64>,
    pe: Split,
    first: [u32; 2],
    second: [u32; 2],
    shape_index: prop::sample::Index,
}

impl Case {
    /// Returns the view, and the positions of its elements in the tensor.
    fn view(&self, tensor: &Tensor) -> (Tensor, Range<u64>) {
        let mut offset = 0;
        let mut cut = |tensor: &Tensor, [from, to]: [u32; 2]| {
            let rows = tensor.shape().dimensions()[0];
            let of = |point: u32| u64::from(point) * (rows + 1) / 1000;
            let (start, end) = (of(from).min(of(to)), of(from).max(of(to)));
            offset += start * tensor.shape().elements() / rows.max(1);
            tensor.rows(start..end).unwrap()
        };
        let some = cut(tensor, self.first);
        let shapes = shapes_of(some.shape().elements());
        let shape: &Vec<u64> = self.shape_index.get(&shapes);
        let view = some.view(shape).unwrap();
        let view = cut(&view, self.second);
        let range = offset..offset + view.shape().elements();
        (view, range)
    }
}

/// Returns the shapes with this number of elements and one to three dimensions.
fn shapes_of(elements: u64) -> Vec<Vec<u64>> {
    let divisors = |of: u64| (1..=of.max(1)).filter(move |by| of.is_multiple_of(*by));
    let mut shapes = vec![vec![elements]];
    for rows in divisors(elements) {
        let rest = elements / rows;
        shapes.push(vec![rows, rest]);
        shapes.extend(divisors(rest).map(|next| vec![rows, next, rest / next]));
    }
    shapes
}

/// Returns the part of a view with these dimensions that a range of its elements forms; `None` if it is not a
/// rectangle.
fn rectangle(dimensions: &[u64], held: &Range<u64>) -> Option<Vec<u64>> {
    let count = held.end - held.start;
    let &[.., columns] = dimensions else { return None };
    match (dimensions.len(), held.start % columns, held.end % columns) {
        (1, ..) => Some(vec![count]),
        (_, 0, 0) => Some(vec![count / columns, columns]),
        _ if held.start / columns == (held.end - 1) / columns => Some(vec![1, count]),
        _ => None,
    }
}

fn cases_of_views() -> impl Strategy<Value = Case> {
    let shape = proptest::collection::vec(1..9_u64, 1..4);
    let pe = prop_oneof![Just(Split::Replicate), Just(Split::RowWise)];
    let cut = || prop_oneof![[0..1000_u32, 0..1000], Just([0, 999])];
    (shape, pe, cut(), cut(), any::<prop::sample::Index>()).prop_map(
        |(shape, pe, first, second, shape_index)| Case { shape, pe, first, second, shape_index },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    #[test]
    fn each_pe_sees_its_part_of_any_view(case in cases_of_views()) {
        for mode in [Mode::Recorded, Mode::Live] {
            let context = context(SMALL, true);
            let elements: u64 = case.shape.iter().product();
            let start: Vec<f32> = (0..elements).map(|at| at as f32).collect();
            let tensor = context.from_slice(&case.shape, &start).unwrap().to(&split(case.pe)).unwrap();
            let (view, range) = case.view(&tensor);
            // The tensor is split by rows or not at all, so each PE holds a contiguous range of its elements.
            let held: Vec<_> = (0..PES).map(|pe| {
                let shards = tensor.layout().unwrap().shards();
                let shard = shards.iter().find(|shard| shard.at.pe == PeId::new(pe.into()).unwrap())?;
                let bytes = shard.bytes();
                let (from, to) = ((bytes.start / 4).max(range.start), (bytes.end / 4).min(range.end));
                (from < to).then(|| from - range.start..to - range.start)
            }).collect();
            let dimensions = view.shape().dimensions().to_vec();
            let parts: Vec<_> =
                held.iter().map(|held| held.as_ref().map(|held| rectangle(&dimensions, held))).collect();
            let found = marked(&view, &Launcher::with_mode(&context, mode));
            if parts.iter().flatten().any(Option::is_none) {
                prop_assert!(found.unwrap_err().contains("no rectangle"));
                continue;
            }
            let parts: Vec<_> = parts.into_iter().map(Option::flatten).collect();
            prop_assert_eq!(found, Ok(parts));
            let marked = |at: u64| if range.contains(&at) { 1000.0 } else { 0.0 };
            let expected: Vec<f32> = (0..elements).map(|at| at as f32 + marked(at)).collect();
            prop_assert_eq!(tensor.read::<f32>().unwrap().known().unwrap(), expected);
        }
    }
}

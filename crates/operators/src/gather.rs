//! Rows of a table at indices: lookups, and writes or additions.
//!
//! There are no indices without data. They are assumed to be spread uniformly over the table, and to differ.

use std::rc::Rc;

use cubeyard_kernels::ahead;
use cubeyard_tl::{Ref, Tile, Tl};

use crate::compute::{apply, cast, value};
use crate::cost::{Measured, OperatorCost, Vector, Work};
use crate::error::{OperatorError, refused};
use crate::machine::{OperatorMachine, Stage, address};
use crate::spread::Spread;
use crate::steady::steady;
use crate::tensor::Tensor;

/// Steps that are simulated of a longer kernel.
const FEW: [u64; 2] = [8, 16];

/// Rows of a table at indices.
#[derive(Clone, Debug)]
struct Lookup {
    table: Tensor,
    rows: Tensor,
    indices: Tensor,
    /// Elements of a row.
    row: u64,
    /// Rows of the table.
    height: u64,
    way: Way,
}

/// Direction of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// From the table, with operations on each element.
    From(u64),
    /// To the table.
    To,
    /// To the table, added to what is there.
    Added,
}

impl OperatorMachine {
    /// Returns the cost of a lookup: a table of rows and indices to the rows at these indices.
    pub fn gather(
        &self,
        operands: &[Tensor],
        results: &[Tensor],
        row: u64,
        simple: u64,
    ) -> Result<OperatorCost, OperatorError> {
        let ([table, indices, ..], [rows, ..]) = (operands, results) else {
            return refused("operands and results: expected a table and indices, and a result");
        };
        self.lookup(table, rows, indices, row, Way::From(simple))
    }

    /// Returns the cost of writing or adding rows of values to a table at indices.
    pub fn scatter(
        &self,
        operands: &[Tensor],
        results: &[Tensor],
        row: u64,
        add: bool,
    ) -> Result<OperatorCost, OperatorError> {
        let ([rows, indices, ..], [table, ..]) = (operands, results) else {
            return refused("operands and results: expected values and indices, and a table");
        };
        self.lookup(table, rows, indices, row, if add { Way::Added } else { Way::To })
    }

    fn lookup(
        &self,
        table: &Tensor,
        rows: &Tensor,
        indices: &Tensor,
        row: u64,
        way: Way,
    ) -> Result<OperatorCost, OperatorError> {
        for (name, tensor) in [("the table", table), ("the rows", rows)] {
            if row == 0 || tensor.elements() % row != 0 {
                let elements = tensor.elements();
                return refused(format!(
                    "row: {row} is no divisor of the {elements} elements of {name}"
                ));
            }
        }
        let count = rows.elements() / row;
        let element = table.dtype.size();
        let simple = match way {
            Way::From(simple) => simple,
            Way::To => 0,
            Way::Added => 1,
        };
        let touched = count.min(table.elements() / row)
            * row
            * element
            * if way == Way::Added { 2 } else { 1 };
        let bytes = rows.bytes() + indices.bytes() + touched;
        let work = Work { bytes, vector: [rows.elements() * simple, 0, 0], ..Work::default() };
        let (table, rows, indices) = (table.clone(), rows.clone(), indices.clone());
        let height = table.elements() / row;
        let run = self.run_lookup(Lookup { table, rows, indices, row, height, way }, count)?;
        let name = if matches!(way, Way::From(_)) { "gather" } else { "scatter" };
        Ok(work.cost(self, format!("{name} rows of {row}"), &run))
    }

    fn run_lookup(&self, lookup: Lookup, count: u64) -> Result<Measured, OperatorError> {
        let storage = |tensor: &Tensor| tensor.elements() * tensor.dtype.size();
        let storages = [&lookup.table, &lookup.rows, &lookup.indices].map(storage);
        let element = lookup.rows.dtype.size();
        if 8 * lookup.row * element > self.scratch() {
            return refused(format!(
                "row: {} elements, of which a PE cannot hold several rows",
                lookup.row
            ));
        }
        let spread = Spread::new(self, count, lookup.row, element, 1);
        let lookup = Rc::new(lookup);
        let run = |steps| self.run("lookup", &storages, &[stage(&lookup, spread, steps)]);
        steady(spread.steps(), self.few(FEW), run)
    }
}

/// Returns a row of the table for the row at a place: all are equally likely, and equal places give equal rows.
fn spread_index(place: u64, height: u64) -> u64 {
    let mixed = (place + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((u128::from(mixed) * u128::from(height)) >> 64) as u64
}

fn stage(lookup: &Rc<Lookup>, spread: Spread, steps: u64) -> Stage {
    let lookup = Rc::clone(lookup);
    Rc::new(move |tl: &Tl, turn| {
        let Lookup { table, rows, indices, row, height, way } = &*lookup;
        let tiles = spread.tiles(turn, steps);
        let all = tiles.iter().flat_map(|[first, count]| *first..first + count);
        let at_row = |tensor: &Tensor, storage: usize, number: u64| {
            Ref::new(
                address(storage) + number * row * tensor.dtype.size(),
                &[1, *row],
                tensor.dtype,
            )
        };
        let loads = all.map(|number| {
            let index = number.min(indices.elements() - 1);
            let size = indices.dtype.size();
            let known = tl.load(&Ref::new(address(2) + index * size, &[1], indices.dtype));
            drop(known);
            let there = at_row(table, 0, spread_index(number, *height));
            let here = at_row(rows, 1, number);
            let from = if matches!(way, Way::From(_)) { &there } else { &here };
            let loaded = tl.load(from);
            let old = (*way == Way::Added).then(|| tl.load(&there));
            (loaded, old, if matches!(way, Way::From(_)) { here } else { there })
        });
        for (loaded, old, to) in ahead(loads) {
            tl.store(&to, &combined(tl, &loaded, old.as_ref(), *way, to.ty().dtype));
        }
    })
}

fn combined(
    tl: &Tl,
    loaded: &Tile,
    old: Option<&Tile>,
    way: Way,
    dtype: cubeyard_runtime::dtype::DType,
) -> Tile {
    let simple = if let Way::From(simple) = way { simple } else { 0 };
    let x = match old {
        Some(old) => cast(loaded.lazy(), dtype) + &cast(old.lazy(), dtype),
        None => loaded.lazy(),
    };
    value(tl, &cast(apply(x, Vector { simple, special: 0 }, 0), dtype))
}

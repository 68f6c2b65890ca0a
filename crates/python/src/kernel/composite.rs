//! Operations that the core splits into tiles, with the epilogues of each tile.

use std::rc::Rc;
use std::sync::Arc;

use cubeyard_runtime::Scalar;
use cubeyard_tl as tl;
use cubeyard_tl::Op;
use cubeyard_tl::numeric::{Binary, Reduce, Ternary, Unary};
use pyo3::prelude::*;

use super::numbers::{dtype, expected, scalar};
use super::operand::kind_of;
use super::reference::Ref;
use super::run::{self, Run, RunInfo, Tile};

/// A builder of a tiled operation; `store` or `tile` issues it.
#[pyclass(module = "cubeyard._native")]
pub(crate) struct Composite {
    info: Arc<RunInfo>,
    kind: Kind,
    /// Operands; `None` once the operation is issued.
    sources: Option<Vec<Source>>,
    epilogues: [Vec<Epilogue>; 3],
    /// Reductions of the rows of the output.
    rows: Vec<Reduce>,
    ahead: Option<u32>,
    tiles: Option<[u64; 2]>,
}

#[derive(Clone)]
enum Kind {
    Gemm,
    Map(Op),
    Reduce(Reduce),
}

/// Operand in memory or in the TCM.
pub(super) enum Source {
    Memory(tl::Ref),
    Pinned(Py<Tile>),
}

enum Epilogue {
    Unary(Unary),
    Scale(Binary, Scalar),
    With(Binary, Py<Tile>),
    AddProduct([Py<Tile>; 2]),
}

/// A handle of a tiled operation that was issued.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct Handle {
    info: Arc<RunInfo>,
    handle: tl::Handle,
}

impl Handle {
    /// Returns the handle of an operation; an error unless it belongs to this run.
    pub(super) fn of(&self, run: &Run) -> PyResult<&tl::Handle> {
        if Arc::ptr_eq(&self.info, run.info()) {
            return Ok(&self.handle);
        }
        Err(run
            .fail(&format!("handle: expected one of this run, found one of {}", self.info.name())))
    }
}

impl Source {
    pub(super) fn read(name: &str, of: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(tile) = of.cast::<Tile>() {
            return Ok(Self::Pinned(tile.clone().unbind()));
        }
        match of.cast::<Ref>() {
            Ok(memory) => Ok(Self::Memory(memory.get().part(of.py())?.clone())),
            Err(_) => Err(expected(name, "a Ref or a tile", of)),
        }
    }

    fn resolve(&self, run: &Run) -> PyResult<tl::Source> {
        match self {
            Self::Memory(memory) => Ok(tl::Source::Memory(memory.clone())),
            Self::Pinned(tile) => Ok(tl::Source::Pinned(run.tile(tile.get())?)),
        }
    }
}

impl Epilogue {
    /// Parses an epilogue by its name: alone, with a number or with a tile; `add_product` takes two tiles.
    fn read(py: Python<'_>, op: &str, with: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        if op == "add_product" {
            let tiles = with.and_then(|with| with.extract::<[Bound<'_, Tile>; 2]>().ok());
            let wrong = || run::fail(py, "operand: add_product expects a pair of tiles");
            return Ok(Self::AddProduct(tiles.ok_or_else(wrong)?.map(Bound::unbind)));
        }
        let Some(with) = with else {
            return named(py, op, Unary::named, Unary::ALL.iter().map(|op| op.name()))
                .map(Self::Unary);
        };
        let binary = named(py, op, Binary::named, Binary::ALL.iter().map(|op| op.name()))?;
        if let Ok(tile) = with.cast::<Tile>() {
            return Ok(Self::With(binary, tile.clone().unbind()));
        }
        let number = scalar(with)?.ok_or_else(|| {
            run::fail(py, &format!("operand: expected a number or a tile, found {}", kind_of(with)))
        })?;
        Ok(Self::Scale(binary, number))
    }

    fn resolve(&self, run: &Run) -> PyResult<tl::Epilogue> {
        Ok(match self {
            Self::Unary(op) => tl::Epilogue::Unary(*op),
            Self::Scale(op, number) => tl::Epilogue::Scale(*op, *number),
            Self::With(op, tile) => tl::Epilogue::With(*op, run.tile(tile.get())?),
            Self::AddProduct([x, y]) => {
                tl::Epilogue::AddProduct(run.tile(x.get())?, run.tile(y.get())?)
            }
        })
    }
}

/// Finds an operation by its name.
fn named<T>(
    py: Python<'_>,
    name: &str,
    find: impl Fn(&str) -> Option<T>,
    all: impl Iterator<Item = &'static str>,
) -> PyResult<T> {
    find(name).ok_or_else(|| {
        let names: Vec<_> = all.collect();
        run::fail(py, &format!("op: expected one of {}; found `{name}`", names.join(", ")))
    })
}

impl Composite {
    fn new(run: &Run, kind: Kind, sources: Vec<Source>) -> Self {
        let (info, epilogues) = (Arc::clone(run.info()), <[Vec<Epilogue>; 3]>::default());
        let (sources, rows) = (Some(sources), Vec::new());
        Self { info, kind, sources, epilogues, rows, ahead: None, tiles: None }
    }

    pub(super) fn gemm(run: &Run, sources: [Source; 2]) -> Self {
        Self::new(run, Kind::Gemm, sources.into())
    }

    pub(super) fn map(py: Python<'_>, run: &Run, op: &str, sources: Vec<Source>) -> PyResult<Self> {
        let (count, found) = match (Unary::named(op), Binary::named(op), Ternary::named(op)) {
            (Some(unary), ..) => (1, Op::Unary(unary)),
            (_, Some(binary), _) => (2, Op::Binary(binary)),
            (.., Some(ternary)) => (3, Op::Ternary(ternary)),
            _ => return Err(run::fail(py, &format!("op: `{op}` is no elementwise operation"))),
        };
        if sources.len() == count {
            return Ok(Self::new(run, Kind::Map(found), sources));
        }
        Err(run::fail(py, &format!("operands: {op} takes {count}, found {}", sources.len())))
    }

    pub(super) fn reduce(py: Python<'_>, run: &Run, op: &str, x: Source) -> PyResult<Self> {
        let op = named(py, op, Reduce::named, Reduce::ALL.iter().map(|op| op.name()))?;
        Ok(Self::new(run, Kind::Reduce(op), vec![x]))
    }

    /// Builds the operation. Afterwards this object holds no tiles, and cannot be issued again.
    fn build(&mut self, py: Python<'_>) -> PyResult<(Rc<Run>, tl::Composite)> {
        let run = self.info.run(py)?;
        let Some(sources) = self.sources.take() else {
            return Err(run.fail(&"a tiled operation is issued twice: build it again"));
        };
        let sources: Vec<_> = sources.iter().map(|of| of.resolve(&run)).collect::<PyResult<_>>()?;
        let kind = self.kind.clone();
        let mut composite = run.attempt(|tl| kind.start(tl, sources))?;
        for (scope, epilogues) in std::mem::take(&mut self.epilogues).iter().enumerate() {
            for epilogue in epilogues {
                let epilogue = epilogue.resolve(&run)?;
                composite = match scope {
                    0 => composite.after_step(epilogue),
                    1 => composite.after_tile(epilogue),
                    _ => composite.at_the_end(epilogue),
                };
            }
        }
        for reduce in std::mem::take(&mut self.rows) {
            composite = composite.rows(reduce);
        }
        if let Some(steps) = self.ahead {
            composite = composite.ahead(steps);
        }
        if let Some([rows, columns]) = self.tiles {
            composite = composite.tiles(rows, columns);
        }
        Ok((run, composite))
    }
}

impl Kind {
    fn start(self, tl: &tl::Tl, mut sources: Vec<tl::Source>) -> tl::Composite {
        match self {
            Self::Gemm => {
                let b = sources.pop().expect("a product has two operands");
                tl.gemm(sources.pop().expect("a product has two operands"), b)
            }
            Self::Map(op) => tl.map(op, sources),
            Self::Reduce(op) => tl.reduce_rows(op, sources.pop().expect("it has an operand")),
        }
    }
}

#[pymethods]
impl Composite {
    /// Adds an epilogue that runs after each step, on the sum so far: an operation by its name, alone or with a number or a
    /// tile, which is a row or a column of the output or has its shape; or `add_product` with two such tiles.
    #[pyo3(signature = (op, operand=None))]
    fn after_step<'py>(
        mut slf: PyRefMut<'py, Self>,
        op: &str,
        operand: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<PyRefMut<'py, Self>> {
        let epilogue = Epilogue::read(slf.py(), op, operand)?;
        slf.epilogues[0].push(epilogue);
        Ok(slf)
    }

    /// Adds an epilogue that runs on each output tile before it is stored.
    #[pyo3(signature = (op, operand=None))]
    fn after_tile<'py>(
        mut slf: PyRefMut<'py, Self>,
        op: &str,
        operand: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<PyRefMut<'py, Self>> {
        let epilogue = Epilogue::read(slf.py(), op, operand)?;
        slf.epilogues[1].push(epilogue);
        Ok(slf)
    }

    /// Adds an epilogue that runs once, on the whole output, which therefore stays in the TCM.
    #[pyo3(signature = (op, operand=None))]
    fn at_the_end<'py>(
        mut slf: PyRefMut<'py, Self>,
        op: &str,
        operand: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<PyRefMut<'py, Self>> {
        let epilogue = Epilogue::read(slf.py(), op, operand)?;
        slf.epilogues[2].push(epilogue);
        Ok(slf)
    }

    /// Adds a reduction of each row of the output, by its name: a second result, of `tile_and_rows` or `store_and_rows`.
    fn rows<'py>(mut slf: PyRefMut<'py, Self>, op: &str) -> PyResult<PyRefMut<'py, Self>> {
        let op = named(slf.py(), op, Reduce::named, Reduce::ALL.iter().map(|op| op.name()))?;
        slf.rows.push(op);
        Ok(slf)
    }

    /// Sets by how many steps loads run ahead (default 2, at least 1).
    fn ahead(mut slf: PyRefMut<'_, Self>, steps: u32) -> PyRefMut<'_, Self> {
        slf.ahead = Some(steps);
        slf
    }

    /// Sets rows and columns of an operand's tile, for elementwise operations and reductions.
    fn tiles(mut slf: PyRefMut<'_, Self>, rows: u64, columns: u64) -> PyRefMut<'_, Self> {
        slf.tiles = Some([rows, columns]);
        slf
    }

    /// Issues the operation with its output stored to memory, in the type of `to`.
    fn store(&mut self, to: &Bound<'_, Ref>) -> PyResult<Handle> {
        let (run, composite) = self.build(to.py())?;
        let to = to.get().part(to.py())?;
        let handle = run.attempt(|_| composite.store(to))?;
        Ok(Handle { info: Arc::clone(&self.info), handle })
    }

    /// Issues the operation with its output as a tile of type `dtype` in the TCM.
    fn tile(&mut self, py: Python<'_>, dtype: &Bound<'_, PyAny>) -> PyResult<Tile> {
        let dtype = self::dtype(dtype)?;
        let (run, composite) = self.build(py)?;
        run.make(|_| composite.tile(dtype))
    }

    /// As `store`, and returns the reductions of rows as columns in the TCM.
    fn store_and_rows(&mut self, to: &Bound<'_, Ref>) -> PyResult<(Handle, Vec<Tile>)> {
        let (run, composite) = self.build(to.py())?;
        let to = to.get().part(to.py())?;
        let (handle, rows) = run.attempt(|_| composite.store_and_rows(to))?;
        let rows = rows.into_iter().map(|tile| run.keep(tile)).collect();
        Ok((Handle { info: Arc::clone(&self.info), handle }, rows))
    }

    /// As `tile`, and returns the reductions of rows as columns in the TCM.
    fn tile_and_rows(
        &mut self,
        py: Python<'_>,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<(Tile, Vec<Tile>)> {
        let dtype = self::dtype(dtype)?;
        let (run, composite) = self.build(py)?;
        let (tile, rows) = run.attempt(|_| composite.tile_and_rows(dtype))?;
        Ok((run.keep(tile), rows.into_iter().map(|tile| run.keep(tile)).collect()))
    }

    fn __repr__(&self) -> String {
        let kind = match &self.kind {
            Kind::Gemm => "gemm",
            Kind::Map(op) => op.name(),
            Kind::Reduce(op) => op.name(),
        };
        format!("Composite({kind})")
    }
}

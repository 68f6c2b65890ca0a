//! `tl`: a Python kernel's view of its PE.

use std::rc::Rc;

use cubeyard_runtime::Scalar;
use cubeyard_runtime::dtype::DType;
use cubeyard_tl as tl;
use cubeyard_tl::{MemoryOrder, Port};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::composite::{Composite, Handle, Source};
use super::mask::{self, Mask};
use super::math::TlMath;
use super::numbers::{dtype, expected, lengths, number, port, whole};
use super::reference::Ref;
use super::run::{self, Run, Tile};
use super::tile::LIVE;
use super::wait::{Done, PendingValue};

/// A kernel's view of the PE that it runs on.
#[pyclass(frozen, extends = TlMath, module = "cubeyard._native")]
pub(crate) struct Tl;

impl Tl {
    /// Creates the `tl` of a run.
    pub(super) fn of(py: Python<'_>, run: &Run) -> PyResult<Py<Self>> {
        let base = TlMath { info: run.info().clone() };
        Py::new(py, PyClassInitializer::from(base).add_subclass(Self))
    }
}

/// Returns the run of a kernel's `tl`, at the line of the caller.
fn running(tl: &Bound<'_, Tl>) -> PyResult<Rc<Run>> {
    tl.as_super().get().run(tl.py())
}

/// Receives a tile with the given receive function.
fn receive(
    slf: &Bound<'_, Tl>,
    port: &Bound<'_, PyAny>,
    shape: &Bound<'_, PyAny>,
    dtype: &Bound<'_, PyAny>,
    by: impl FnOnce(&tl::Tl, Port, &[u64], DType) -> tl::Tile,
) -> PyResult<Tile> {
    let run = running(slf)?;
    let (port, (shape, dtype)) = (self::port(port)?, tile_type(shape, dtype)?);
    run.make(|tl| by(tl, port, &shape, dtype))
}

/// Parses the shape and element type of a tile.
fn tile_type(shape: &Bound<'_, PyAny>, dtype: &Bound<'_, PyAny>) -> PyResult<(Vec<u64>, DType)> {
    Ok((lengths("shape", shape)?, self::dtype(dtype)?))
}

/// Parses the order of an atomic access, one of the given names.
fn memory_order(order: &Bound<'_, PyAny>, names: [&str; 2]) -> PyResult<MemoryOrder> {
    let given: Option<String> = order.extract().ok();
    let given = given.filter(|name| names.contains(&name.as_str()));
    let known = MemoryOrder::NAMES.into_iter().find(|(name, _)| given.as_deref() == Some(*name));
    let [one, other] = names;
    let what = format!("`{one}` or `{other}`");
    known.map(|(_, found)| found).ok_or_else(|| expected("order", &what, order))
}

#[pymethods]
impl Tl {
    /// Place of the commands that follow, in reports and errors: an object with a `file` and a `line`. None, the default,
    /// stands for the line of Python that issues a command.
    #[getter]
    fn place(slf: &Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        let py = slf.py();
        Ok(slf.as_super().get().info.resumed(py)?.place(py))
    }

    #[setter]
    fn set_place(slf: &Bound<'_, Self>, place: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        slf.as_super().get().info.resumed(slf.py())?.set_place(place)
    }

    /// Begins a part of the kernel that has no order with the parts before, such as another program of a grid on the same PE:
    /// accesses of different parts to the same bytes are races. A live kernel has no parts.
    fn begin_part(slf: &Bound<'_, Self>) -> PyResult<()> {
        running(slf)?.attempt(tl::Tl::begin_part)
    }

    /// Returns the index of this PE within its cube of the launch (axis 0), or the index of the cube (axis 1).
    #[pyo3(signature = (axis=0))]
    fn program_id(slf: &Bound<'_, Self>, axis: usize) -> PyResult<u64> {
        running(slf)?.attempt(|tl| tl.program_id(axis))
    }

    /// Returns the number of PEs per cube of the launch (axis 0), or the number of cubes (axis 1).
    #[pyo3(signature = (axis=0))]
    fn num_programs(slf: &Bound<'_, Self>, axis: usize) -> PyResult<u64> {
        running(slf)?.attempt(|tl| tl.num_programs(axis))
    }

    /// Returns the quotient rounded up: the number of tiles of length `b` that cover `a`.
    fn cdiv(slf: &Bound<'_, Self>, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<u64> {
        let run = running(slf)?;
        let (a, b) = (whole("a", a)?, whole("b", b)?);
        run.attempt(|tl| tl.cdiv(a, b))
    }

    /// Returns M, K and N of a tile of the matrix unit.
    fn gemm_tile(slf: &Bound<'_, Self>) -> PyResult<(u64, u64, u64)> {
        let [m, k, n] = running(slf)?.attempt(tl::Tl::gemm_tile)?;
        Ok((m, k, n))
    }

    /// Returns the number of elements that the vector unit works on at once.
    fn strip_elements(slf: &Bound<'_, Self>) -> PyResult<u64> {
        running(slf)?.attempt(tl::Tl::strip_elements)
    }

    /// Returns the bytes of the TCM that the kernel's tiles may occupy together.
    fn scratch_bytes(slf: &Bound<'_, Self>) -> PyResult<u64> {
        running(slf)?.attempt(tl::Tl::scratch_bytes)
    }

    /// Returns whether the matrix unit has a rate for factors of an element type.
    fn has_gemm(slf: &Bound<'_, Self>, dtype: &Bound<'_, PyAny>) -> PyResult<bool> {
        let dtype = self::dtype(dtype)?;
        running(slf)?.attempt(|tl| tl.has_gemm(dtype))
    }

    /// Returns the setting `pe.core.atomics` of the topology, by name.
    fn atomics(slf: &Bound<'_, Self>) -> PyResult<&'static str> {
        running(slf)?.attempt(tl::Tl::atomics)
    }

    /// Returns a reference to contiguous elements in memory from `address` on. Moves no data.
    #[pyo3(name = "ref")]
    fn reference(
        slf: &Bound<'_, Self>,
        address: &Bound<'_, PyAny>,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<Ref> {
        let run = running(slf)?;
        let (address, (shape, dtype)) = (whole("address", address)?, tile_type(shape, dtype)?);
        Ok(run.attempt(|tl| tl.ref_(address, &shape, dtype))?.into())
    }

    /// Returns a mask of the elements whose index is below `limits` in every dimension.
    fn mask(
        slf: &Bound<'_, Self>,
        shape: &Bound<'_, PyAny>,
        limits: &Bound<'_, PyAny>,
    ) -> PyResult<Mask> {
        running(slf)?;
        Mask::below(shape, limits)
    }

    /// Loads a tile into the TCM. With a mask, the elements that it does not select are set to `other`, by default 0.
    #[pyo3(signature = (from_, mask=None, other=None))]
    fn load(
        slf: &Bound<'_, Self>,
        from_: &Bound<'_, Ref>,
        mask: Option<&Bound<'_, PyAny>>,
        other: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Tile> {
        let run = running(slf)?;
        let other = other.map_or(Ok(Scalar::Int(0)), |other| number("other", other))?;
        let from = from_.get().part(slf.py())?;
        match mask.map(mask::read).transpose()? {
            Some(mask) => run.make(|tl| tl.load_masked(from, &mask, other)),
            None => run.make(|tl| tl.load(from)),
        }
    }

    /// Stores a tile from the TCM to memory; with a mask, the elements that it selects.
    #[pyo3(signature = (to, tile, mask=None))]
    fn store(
        slf: &Bound<'_, Self>,
        to: &Bound<'_, Ref>,
        tile: &Bound<'_, Tile>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let run = running(slf)?;
        let (to, tile) = (to.get().part(slf.py())?, run.tile(tile.get())?);
        match mask.map(mask::read).transpose()? {
            Some(mask) => run.attempt(|tl| tl.store_masked(to, &tile, &mask)),
            None => run.attempt(|tl| tl.store(to, &tile)),
        }
    }

    /// Loads a tile like `load`, or along the fast axis of memory with a permutation in the PE, if that is quicker.
    #[pyo3(signature = (from_, mask=None, other=None))]
    fn load_along(
        slf: &Bound<'_, Self>,
        from_: &Bound<'_, Ref>,
        mask: Option<&Bound<'_, PyAny>>,
        other: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Tile> {
        let run = running(slf)?;
        let other = other.map_or(Ok(Scalar::Int(0)), |other| number("other", other))?;
        let (from, mask) = (from_.get().part(slf.py())?, mask.map(mask::read).transpose()?);
        run.make(|tl| tl.load_along(from, mask.as_ref().map(|mask| (mask, other))))
    }

    /// Stores a tile like `store`, or along the fast axis of memory after a permutation in the PE, if that is quicker.
    #[pyo3(signature = (to, tile, mask=None))]
    fn store_along(
        slf: &Bound<'_, Self>,
        to: &Bound<'_, Ref>,
        tile: &Bound<'_, Tile>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let run = running(slf)?;
        let (to, tile) = (to.get().part(slf.py())?, run.tile(tile.get())?);
        let mask = mask.map(mask::read).transpose()?;
        run.attempt(|tl| tl.store_along(to, &tile, mask.as_ref()))
    }

    /// Loads a tile as a part of an atomic operation. `order` is `relaxed` or `acquire`.
    #[pyo3(signature = (from_, order, mask=None))]
    fn load_atomic(
        slf: &Bound<'_, Self>,
        from_: &Bound<'_, Ref>,
        order: &Bound<'_, PyAny>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Tile> {
        let run = running(slf)?;
        let order = memory_order(order, ["relaxed", "acquire"])?;
        let (from, mask) = (from_.get().part(slf.py())?, mask.map(mask::read).transpose()?);
        run.make(|tl| tl.load_atomic(from, mask.as_ref(), order))
    }

    /// Stores a tile as a part of an atomic operation. `order` is `relaxed` or `release`.
    #[pyo3(signature = (to, tile, order, mask=None))]
    fn store_atomic(
        slf: &Bound<'_, Self>,
        to: &Bound<'_, Ref>,
        tile: &Bound<'_, Tile>,
        order: &Bound<'_, PyAny>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let run = running(slf)?;
        let order = memory_order(order, ["relaxed", "release"])?;
        let (to, tile) = (to.get().part(slf.py())?, run.tile(tile.get())?);
        let mask = mask.map(mask::read).transpose()?;
        run.attempt(|tl| tl.store_atomic(to, &tile, mask.as_ref(), order))
    }

    /// Sends a tile to the PE at the other end of a port. Returns at once.
    fn send(
        slf: &Bound<'_, Self>,
        port: &Bound<'_, PyAny>,
        tile: &Bound<'_, Tile>,
    ) -> PyResult<()> {
        let run = running(slf)?;
        let (port, tile) = (self::port(port)?, run.tile(tile.get())?);
        run.attempt(|tl| tl.send(port, &tile))
    }

    /// Receives a tile from the PE at the other end of a port. The kernel waits for it.
    fn recv(
        slf: &Bound<'_, Self>,
        port: &Bound<'_, PyAny>,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<Tile> {
        receive(slf, port, shape, dtype, tl::Tl::recv)
    }

    /// As `recv`, but the kernel continues at once. Commands that use the tile wait for it.
    fn recv_async(
        slf: &Bound<'_, Self>,
        port: &Bound<'_, PyAny>,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<Tile> {
        receive(slf, port, shape, dtype, tl::Tl::recv_async)
    }

    /// Waits for the next message of a port and returns it, but leaves it in its slot: the next receive gets the same message.
    fn recv_no_consume(
        slf: &Bound<'_, Self>,
        port: &Bound<'_, PyAny>,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<Tile> {
        receive(slf, port, shape, dtype, tl::Tl::recv_no_consume)
    }

    /// Receives a tile that stays in its slot, which must be in the TCM, until `release`.
    fn recv_slot(
        slf: &Bound<'_, Self>,
        port: &Bound<'_, PyAny>,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<Tile> {
        receive(slf, port, shape, dtype, tl::Tl::recv_slot)
    }

    /// Frees the slot of a tile of `recv_slot` when all commands so far that use the tile are done.
    fn release(slf: &Bound<'_, Self>, tile: &Bound<'_, Tile>) -> PyResult<()> {
        let run = running(slf)?;
        let tile = run.tile(tile.get())?;
        run.attempt(|tl| tl.release(&tile))
    }

    /// Receives a tile from any of several ports. The second tile is a single `i32`, the index in `ports` of the sender.
    fn recv_any(
        slf: &Bound<'_, Self>,
        ports: &Bound<'_, PyAny>,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<(Tile, Tile)> {
        let run = running(slf)?;
        let ports = ports.try_iter()?.map(|of| port(&of?)).collect::<PyResult<Vec<Port>>>()?;
        let (shape, dtype) = tile_type(shape, dtype)?;
        let (tile, place) = run.attempt(|tl| tl.recv_any(&ports, &shape, dtype))?;
        Ok((run.keep(tile), run.keep(place)))
    }

    /// Waits until all commands issued so far are done.
    fn fence(slf: &Bound<'_, Self>) -> PyResult<()> {
        running(slf)?.attempt(tl::Tl::fence)
    }

    /// Waits until a tiled operation is done. The result may be awaited.
    fn wait(slf: &Bound<'_, Self>, handle: &Bound<'_, Handle>) -> PyResult<Done> {
        let run = running(slf)?;
        let handle = handle.get().of(&run)?;
        run.attempt(|tl| drop(tl.wait(handle)))?;
        Ok(Done)
    }

    /// Waits until a tile is available. The result may be awaited.
    fn wait_for(slf: &Bound<'_, Self>, tile: &Bound<'_, Tile>) -> PyResult<Done> {
        let run = running(slf)?;
        let tile = run.tile(tile.get())?;
        run.attempt(|tl| drop(tl.wait_for(&tile)))?;
        Ok(Done)
    }

    /// Returns an awaitable of the elements of a tile, as an array of NumPy. The kernel must be live.
    fn value(slf: &Bound<'_, Self>, tile: &Bound<'_, Tile>) -> PyResult<PendingValue> {
        let run = running(slf)?;
        if run.tl.is_recorded() {
            let what = format!("tl.value: the kernel is recorded, so it has no elements; {LIVE}");
            return Err(run::fail(slf.py(), &what));
        }
        let tile = run.tile(tile.get())?;
        let shape = tile.ty().shape.to_vec();
        let contents = run.attempt(|tl| tl.contents(&tile))?;
        Ok(PendingValue::new(&run, Box::pin(contents), shape))
    }

    /// Builds a matrix product in tiles of the matrix unit.
    fn gemm(
        slf: &Bound<'_, Self>,
        a: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
    ) -> PyResult<Composite> {
        let run = running(slf)?;
        Ok(Composite::gemm(&run, [Source::read("a", a)?, Source::read("b", b)?]))
    }

    /// Builds an elementwise operation on matrices of one shape, by its name.
    fn map(slf: &Bound<'_, Self>, op: &str, operands: &Bound<'_, PyAny>) -> PyResult<Composite> {
        let run = running(slf)?;
        let operands = match operands.cast::<PyList>() {
            Ok(list) => list.iter().collect::<Vec<_>>(),
            Err(_) => operands.try_iter()?.collect::<PyResult<_>>()?,
        };
        let sources = operands.iter().map(|of| Source::read("operands", of));
        Composite::map(slf.py(), &run, op, sources.collect::<PyResult<_>>()?)
    }

    /// Builds a reduction of each row of a matrix, by its name; the result is a column.
    fn reduce_rows(slf: &Bound<'_, Self>, op: &str, x: &Bound<'_, PyAny>) -> PyResult<Composite> {
        let run = running(slf)?;
        Composite::reduce(slf.py(), &run, op, Source::read("x", x)?)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        format!("tl of {}", slf.as_super().get().info.name())
    }
}

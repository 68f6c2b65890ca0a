//! References to tiles in memory: the arguments of a kernel, and parts of them.

use std::sync::Arc;

use cubeyard_tl as tl;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyIterator, PyList, PySlice, PyTuple};

use super::numbers::{expected, lengths, of_rank, pair, whole};
use super::{mask, run};

/// A tile in memory: the part of a tensor that this PE holds, or a part of that.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct Ref {
    /// Referenced memory; `None` if this PE holds nothing of the tensor, or if its elements have no shape.
    part: Option<tl::Ref>,
    /// Argument; `None` for a part of one.
    argument: Option<Arc<ArgumentTensor>>,
}

/// Tensor argument of a kernel.
pub(crate) struct ArgumentTensor {
    /// Name of the parameter.
    pub(crate) name: String,
    /// Whole tensor, if it is a single row-major range.
    pub(crate) whole: Option<tl::Ref>,
    /// Reason why the PE's part has no shape; `None` if it has a shape.
    pub(crate) ragged: Option<String>,
    /// PE that runs the kernel.
    pub(crate) pe: String,
}

impl Ref {
    /// Creates a reference to the part of an argument that a PE holds, if any.
    pub(crate) fn argument(part: Option<tl::Ref>, argument: ArgumentTensor) -> Self {
        Self { part, argument: Some(Arc::new(argument)) }
    }

    /// Returns the referenced memory; an exception if this PE holds nothing.
    pub(crate) fn part(&self, py: Python<'_>) -> PyResult<&tl::Ref> {
        self.part.as_ref().ok_or_else(|| {
            let argument = self.argument.as_ref().expect("only arguments have no part");
            let ArgumentTensor { name, pe, ragged, .. } = &**argument;
            let nothing = || format!("{pe} holds no part of it; see `{name}.held`");
            let why = ragged.clone().unwrap_or_else(nothing);
            run::fail(py, &format!("argument `{name}`: {why}"))
        })
    }
}

impl From<tl::Ref> for Ref {
    fn from(part: tl::Ref) -> Self {
        Self { part: Some(part), argument: None }
    }
}

/// Selection in one dimension: start, length, and whether the dimension is dropped.
type Chosen = (u64, u64, bool);

#[pymethods]
impl Ref {
    /// Whether this PE holds a part of the tensor.
    #[getter]
    fn held(&self) -> bool {
        self.part.is_some() || self.argument.as_ref().is_some_and(|of| of.ragged.is_some())
    }

    /// Length of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.part(py)?.ty().shape)
    }

    /// Name of the element type.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<&'static str> {
        let part = self.part.as_ref().or(self.argument.as_ref().and_then(|of| of.whole.as_ref()));
        match part {
            Some(part) => Ok(part.ty().dtype.name()),
            None => Ok(self.part(py)?.ty().dtype.name()),
        }
    }

    /// Address of the first element.
    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.part(py)?.address())
    }

    /// The whole tensor, whichever PEs hold it.
    #[getter]
    fn whole(&self, py: Python<'_>) -> PyResult<Self> {
        let Some(argument) = &self.argument else {
            return Err(run::fail(
                py,
                "whole: expected an argument of the kernel, found a part of one",
            ));
        };
        argument.whole.clone().map(Self::from).ok_or_else(|| {
            let name = &argument.name;
            let what = "it is not one contiguous row-major range; use the part of each PE";
            run::fail(py, &format!("argument `{name}`: {what}"))
        })
    }

    /// The same memory with the last two dimensions swapped.
    #[getter(T)]
    fn transposed(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(self.part(py)?.transposed().into())
    }

    /// Returns the box of this shape that begins at `start`. It may extend beyond the edges; a mask must then exclude the
    /// elements outside.
    fn block(&self, start: &Bound<'_, PyAny>, shape: &Bound<'_, PyAny>) -> PyResult<Self> {
        let part = self.part(start.py())?;
        let rank = part.ty().shape.len();
        let start = of_rank("start", start, rank)?;
        Ok(part.block(&start, &of_rank("shape", shape, rank)?).into())
    }

    /// Returns a mask of the elements of the box of `block` that are inside the edges.
    fn inside(&self, start: &Bound<'_, PyAny>, shape: &Bound<'_, PyAny>) -> PyResult<mask::Mask> {
        let part = self.part(start.py())?;
        let rank = part.ty().shape.len();
        let start = of_rank("start", start, rank)?;
        Ok(mask::Mask { mask: part.inside(&start, &of_rank("shape", shape, rank)?) })
    }

    /// Returns contiguous elements of this shape from the row-major index `element` on.
    fn at(&self, element: &Bound<'_, PyAny>, shape: &Bound<'_, PyAny>) -> PyResult<Self> {
        let part = self.part(shape.py())?;
        Ok(part.at(whole("element", element)?, &lengths("shape", shape)?).into())
    }

    /// Returns the same memory with other strides, in elements.
    fn strided(&self, strides: &Bound<'_, PyAny>) -> PyResult<Self> {
        let part = self.part(strides.py())?;
        let strides = of_rank("strides", strides, part.ty().shape.len())?;
        Ok(part.clone().strided(&strides).into())
    }

    /// Returns a matrix of this shape from here on that is stored in tiles of the shape `tile`.
    fn packed(&self, shape: &Bound<'_, PyAny>, tile: &Bound<'_, PyAny>) -> PyResult<Self> {
        let part = self.part(shape.py())?;
        let (shape, tile) = (pair("shape", shape)?, pair("tile", tile)?);
        Ok(tl::Ref::packed(part.address(), shape, part.ty().dtype, tile).into())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let part = self.part(py)?;
        let length = part
            .ty()
            .shape
            .first()
            .copied()
            .ok_or_else(|| run::fail(py, "len: a scalar has no length"))?;
        Ok(usize::try_from(length)?)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let part = self.part(py)?;
        let rows = 0..self.__len__(py)? as u64;
        let rows: PyResult<Vec<Self>> =
            rows.map(|row| chosen(py, part, &[(row, 1, true)])).collect();
        PyList::new(py, rows?)?.try_iter()
    }

    fn __getitem__(&self, index: &Bound<'_, PyAny>) -> PyResult<Self> {
        let part = self.part(index.py())?;
        let items: Vec<_> = match index.cast::<PyTuple>() {
            Ok(items) => items.iter().collect(),
            Err(_) => vec![index.clone()],
        };
        chosen(index.py(), part, &choices(&part.ty().shape, &items, index)?)
    }

    fn __repr__(&self) -> String {
        match &self.part {
            Some(part) => format!("Ref({} at {:#x})", part.ty(), part.address()),
            None => "Ref(no part)".to_owned(),
        }
    }
}

/// Returns the selection in each dimension; `...` stands for all dimensions that are not named.
fn choices(
    shape: &[u64],
    items: &[Bound<'_, PyAny>],
    index: &Bound<'_, PyAny>,
) -> PyResult<Vec<Chosen>> {
    let dots = items.iter().position(PyAnyMethods::is_instance_of::<PyEllipsis>);
    let (before, after) = match dots {
        Some(at) => (&items[..at], &items[at + 1..]),
        None => (items, &items[..0]),
    };
    let Some(skipped) = shape.len().checked_sub(before.len() + after.len()) else {
        let what = format!("an index of at most {} dimensions", shape.len());
        return Err(expected("index", &what, index));
    };
    let mut chosen = Vec::new();
    for (item, &length) in before.iter().zip(shape) {
        chosen.push(choice(item, length)?);
    }
    let rest = &shape[before.len()..];
    chosen.extend(rest[..skipped].iter().map(|&length| (0, length, false)));
    for (item, &length) in after.iter().zip(&rest[skipped..]) {
        chosen.push(choice(item, length)?);
    }
    Ok(chosen)
}

/// Parses the index of one dimension.
fn choice(item: &Bound<'_, PyAny>, length: u64) -> PyResult<Chosen> {
    if let Ok(slice) = item.cast::<PySlice>() {
        let slice = slice.indices(isize::try_from(length)?)?;
        if slice.step != 1 {
            return Err(expected("index", "a slice with step 1", item));
        }
        return Ok((u64::try_from(slice.start)?, slice.slicelength as u64, false));
    }
    let what = format!("a whole number from -{length} to {length} - 1, a slice or `...`");
    let number: Option<i128> = item.extract().ok().filter(|_| !item.is_instance_of::<PyBool>());
    let number = number.map(|number| if number < 0 { number + i128::from(length) } else { number });
    match number.and_then(|number| u64::try_from(number).ok()).filter(|number| *number < length) {
        Some(at) => Ok((at, 1, true)),
        None => Err(expected("index", &what, item)),
    }
}

/// Returns the selected part; dimensions that are not named stay whole.
fn chosen(py: Python<'_>, part: &tl::Ref, chosen: &[Chosen]) -> PyResult<Ref> {
    let shape = &part.ty().shape;
    let rest = shape[chosen.len()..].iter().map(|&length| (0, length, false));
    let all: Vec<Chosen> = chosen.iter().copied().chain(rest).collect();
    let start: Vec<_> = all.iter().map(|choice| choice.0).collect();
    let lengths: Vec<_> = all.iter().map(|choice| choice.1).collect();
    let mut block = part.block(&start, &lengths);
    for axis in (0..all.len()).rev().filter(|&axis| all[axis].2) {
        block = block.without(axis).ok_or_else(|| {
            run::fail(py, "index: a matrix stored in tiles cannot be indexed; use block")
        })?;
    }
    Ok(block.into())
}

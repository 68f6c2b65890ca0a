//! Masks of loads and stores.

use cubeyard_tl as tl;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use super::numbers::{expected, lengths};

/// The elements of a tile that a load or a store touches.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct Mask {
    pub(crate) mask: tl::Mask,
}

#[pymethods]
impl Mask {
    /// Shape of the masked tile.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.mask.shape())
    }

    /// Number of selected elements.
    #[getter]
    fn count(&self) -> u64 {
        self.mask.count()
    }

    fn __repr__(&self) -> String {
        format!("Mask({} of {:?})", self.mask.count(), self.mask.shape())
    }
}

impl Mask {
    /// Creates a mask that selects the elements whose index is below `limits` in every dimension.
    pub(crate) fn below(shape: &Bound<'_, PyAny>, limits: &Bound<'_, PyAny>) -> PyResult<Self> {
        let shape = lengths("shape", shape)?;
        let limits = super::numbers::of_rank("limits", limits, shape.len())?;
        Ok(Self { mask: tl::Mask::below(&shape, &limits) })
    }
}

/// Converts an argument: a mask, or an array of bools.
pub(crate) fn read(of: &Bound<'_, PyAny>) -> PyResult<tl::Mask> {
    static BOOLS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if let Ok(mask) = of.cast::<Mask>() {
        return Ok(mask.get().mask.clone());
    }
    let bools = BOOLS.import(of.py(), "cubeyard._base.dtypes", "bools")?.call1((of,))?;
    let Some((shape, touched)) = bools.extract::<Option<(Vec<u64>, Vec<u8>)>>()? else {
        return Err(expected("mask", "a mask (see Ref.inside) or an array of bools", of));
    };
    let place =
        |index: &[u64]| index.iter().zip(&shape).fold(0, |place, (at, length)| place * length + at);
    Ok(tl::Mask::new(&shape, |index| {
        usize::try_from(place(index)).is_ok_and(|place| touched.get(place) == Some(&1))
    }))
}

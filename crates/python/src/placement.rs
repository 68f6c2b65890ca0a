//! Placements and layouts.

use cubeyard_device::shared_memory::{BlockPart, BlockParts};
use cubeyard_device::topology as device;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::placement::{self, Split};
use cubeyard_runtime::shape::Shape;
use pyo3::prelude::*;

use crate::bytes::dtype;
use crate::error::{Kind, OrRaise};
use crate::plain;
use crate::topology::Topology;

/// Splits over SIPs, cubes and PEs; list of SIPs; number of cubes and number of PEs.
pub(crate) type Distribution = (String, String, String, Vec<u32>, Option<u32>, Option<u32>);

/// Resolves a placement of a tensor on a machine; returns its report, its text and its picture.
#[pyfunction]
fn layout<'py>(
    py: Python<'py>,
    placement: Distribution,
    shape: Vec<u64>,
    dtype_name: &str,
    topology: &Topology,
) -> PyResult<(Bound<'py, PyAny>, String, String)> {
    let (placement, dtype) = (placed(placement)?, dtype(dtype_name)?);
    let (layout, text, picture) = py.detach(|| -> PyResult<_> {
        let shape = Shape::new(&shape).map_err(cubeyard_runtime::RuntimeError::from).or_raise()?;
        let layout = placement.resolve(shape, dtype, &topology.topology);
        let layout = layout.map_err(cubeyard_runtime::RuntimeError::from).or_raise()?;
        let (text, picture) =
            (cubeyard_cli::layout_text(&layout), cubeyard_diagrams::placement(&layout));
        Ok((layout, text, picture))
    })?;
    Ok((plain::report(py, &layout)?, text, picture))
}

/// Returns the parts of a tensor that PEs hold under a placement, as parts of its memory.
pub(crate) fn parts(
    distribution: Distribution,
    shape: &[u64],
    dtype_name: &str,
    topology: &device::Topology,
) -> PyResult<BlockParts> {
    let (placement, dtype) = (placed(distribution)?, dtype(dtype_name)?);
    let shape = Shape::new(shape).map_err(cubeyard_runtime::RuntimeError::from).or_raise()?;
    let layout = placement.resolve(shape, dtype, topology);
    let layout = layout.map_err(cubeyard_runtime::RuntimeError::from).or_raise()?;
    let (_, columns) = layout.shape().matrix();
    let part = |copies: &[placement::Shard]| {
        let bytes = copies[0].columns.start * dtype.size()..copies[0].columns.end * dtype.size();
        let pes = copies.iter().map(|copy| copy.at).collect();
        BlockPart { rows: copies[0].rows.clone(), bytes, pes }
    };
    let mut parts: Vec<_> = layout.parts().map(part).collect();
    parts.sort_by_key(|part| (part.rows.start, part.bytes.start));
    Ok(BlockParts { row: columns * dtype.size(), parts })
}

/// Converts a placement given by Python.
pub(crate) fn placed(placement: Distribution) -> PyResult<placement::Placement> {
    let (sip, cube, pe, sips, cubes, pes) = placement;
    let split = |level: &str, name: &str| {
        name.parse::<Split>().map_err(|error| Kind::Input.error(format!("{level}: {error}")))
    };
    let ids: Result<Vec<SipId>, _> = sips.into_iter().map(SipId::new).collect();
    let sips = ids.map_err(|error| Kind::Input.error(format!("sips: {error}")))?;
    let (sip, cube, pe) = (split("sip", &sip)?, split("cube", &cube)?, split("pe", &pe)?);
    Ok(placement::Placement { sip, cube, pe, sips, cubes, pes })
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(layout, module)?)
}

//! Quantised weights of a configuration: the key `quantization_config`.

use cubeyard_runtime::dtype::DType;
use cubeyard_yaml::{InputError, Map};

use super::given;
use crate::spec::ModelSpec;

/// Reads the type of quantised weights of layers, and a sentence on what is not simulated. MXFP4 becomes a property of
/// the model, since only experts have it.
pub(super) fn read(
    map: &mut Map<'_>,
    spec: &mut ModelSpec,
) -> Result<(Option<DType>, Option<String>), InputError> {
    let Some(field) = given(map, "quantization_config") else { return Ok((None, None)) };
    let method = field.map()?.required("quant_method")?.text("the name of a method")?;
    let has_experts = spec.kinds(u64::MAX).iter().any(|kind| kind.experts.is_some());
    Ok(match method {
        "fp8" => {
            let note = "quantization_config: scales of fp8 weights are stored for each column, not for each block";
            (Some(DType::Fp8E4m3), Some(note.to_owned()))
        }
        "mxfp4" if has_experts => {
            spec.family.has_mxfp4_experts = true;
            (None, None)
        }
        method => {
            let instead = "--weights chooses the type of the weights";
            (
                None,
                Some(format!(
                    "quantization_config of the method {method} is not simulated: {instead}"
                )),
            )
        }
    })
}

//! Options that choose a model.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Args;
use cubeyard_model::cut::ExpertPlacement;
use cubeyard_model::{HfModel, ModelSpec};
use cubeyard_runtime::dtype::DType;

use crate::input;

/// Largest number of bytes read from a file; the library's own limit is lower.
const LIMIT: u64 = 1 << 20;

/// A model by name, from a file, or from a configuration of Hugging Face, with its element types.
#[derive(Args, Debug)]
pub(crate) struct ModelChoice {
    /// Model: llama-8b or llama-70b
    #[arg(long, value_name = "NAME", default_value = "llama-8b", conflicts_with_all = ["spec", "hf"])]
    llm: String,
    /// Model of your own in YAML, with the keys name, layers, hidden, ffn, heads, `kv_heads`, `head_dim` and
    /// vocab; omitted keys are as in llama-8b
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with = "hf")]
    spec: Option<PathBuf>,
    /// Configuration of Hugging Face, `config.json`, with the `model_type` llama, mistral, mixtral, qwen2, qwen3,
    /// `qwen3_moe`, gemma2, gemma3, phi3, granite, `gpt_oss` or llama4
    #[arg(long, value_name = "FILE")]
    hf: Option<PathBuf>,
    /// Element type of activations, weights and, without --kv-dtype, caches; f16 or the type in the file of --hf if omitted
    #[arg(long, value_name = "NAME")]
    dtype: Option<DType>,
    /// Element type of the weights of layers, with a scale for each column: `fp8` (`fp8_e4m3`), `fp8_e5m2`, `int8`
    /// (`i8`), or the type of activations; as in the file of --hf if omitted
    #[arg(long, value_name = "NAME", value_parser = weight_type)]
    weights: Option<DType>,
    /// Element type of the caches of K and V: `fp8` (`fp8_e4m3`), `fp8_e5m2`, or the type of activations
    #[arg(long, value_name = "NAME", value_parser = weight_type)]
    pub(crate) kv_dtype: Option<DType>,
    /// Placement of experts: each expert divided over all PEs (split), or whole experts per SIP (sip) or per cube or
    /// group of cubes (cube)
    #[arg(long, value_name = "PLACE", default_value = "split", value_parser = expert_placement)]
    pub(crate) experts: ExpertPlacement,
}

impl ModelChoice {
    /// Returns the files of `--spec` and `--hf`.
    pub(crate) fn files(&self) -> [&Option<PathBuf>; 2] {
        [&self.spec, &self.hf]
    }

    /// Returns the model from a Hugging Face configuration, from a model file, or by name, with the types of activations
    /// and of the weights of layers.
    pub(crate) fn read(&self) -> Result<(HfModel, [DType; 2])> {
        Ok(self.model()?.with_types(self.dtype, self.weights))
    }

    fn model(&self) -> Result<HfModel> {
        if let Some(file) = &self.hf {
            let (name, bytes) = input::named_bytes(file, LIMIT)?;
            return Ok(HfModel::read_bytes(&name, &bytes)?);
        }
        Ok(HfModel::from(spec(self.spec.as_deref(), &self.llm)?))
    }
}

fn spec(file: Option<&Path>, name: &str) -> Result<ModelSpec> {
    let Some(file) = file else {
        return ModelSpec::named(name).map_err(|error| {
            anyhow!("--llm: {error}\n  help: --spec FILE or --hf FILE takes a model of your own")
        });
    };
    let (name, bytes) = input::named_bytes(file, LIMIT)?;
    Ok(ModelSpec::read_bytes(&name, &bytes)?)
}

/// Parses an element type of weights, given by its name or by the short name of an 8-bit type.
fn weight_type(text: &str) -> Result<DType, String> {
    cubeyard_model::cut::weight_type(text).map_err(|error| error.to_string())
}

/// Parses a placement of experts.
fn expert_placement(text: &str) -> Result<ExpertPlacement, String> {
    let found = ExpertPlacement::NAMES.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, placement)| placement).ok_or_else(|| "expected split, sip or cube".to_owned())
}

//! Models from Hugging Face configurations, `config.json`.
//!
//! Keys are of three kinds: keys that are read, keys that affect neither time nor memory, and keys whose effect is not
//! simulated. The last kind and unknown keys are listed in [`HfModel::notes`].

mod keys;

use cubeyard_runtime::dtype::DType;
use cubeyard_yaml::{Document, Field, InputError, InputProblem, Map, text};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::spec::{Activation, Experts, Family, ModelSpec};
use keys::notes;

/// Model described by a Hugging Face configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HfModel {
    /// Dimensions of the model.
    pub spec: ModelSpec,
    /// Element type of the published weights, if the file states one.
    pub dtype: Option<DType>,
    /// Keys whose effect is not simulated, one sentence each.
    pub notes: Vec<String>,
}

impl Serialize for HfModel {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (spec, experts) = (&self.spec, self.spec.family.experts);
        let model = json!({
            "name": spec.name,
            "parameters": spec.parameters(),
            "layers": spec.layers,
            "hidden": spec.hidden,
            "ffn": spec.ffn,
            "heads": spec.heads,
            "kv_heads": spec.kv_heads,
            "head_dim": spec.head_dim,
            "vocab": spec.vocab,
            "experts": experts.map(|experts| experts.count),
            "active_experts": experts.map(|experts| experts.active),
            "dtype": self.dtype.map(DType::name),
            "notes": self.notes,
        });
        model.serialize(to)
    }
}

/// Model families by `model_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelType {
    Llama,
    Mistral,
    Mixtral,
    Qwen2,
    Qwen3,
    Gemma2,
    Phi3,
}

const TYPES: [(&str, ModelType); 7] = [
    ("llama", ModelType::Llama),
    ("mistral", ModelType::Mistral),
    ("mixtral", ModelType::Mixtral),
    ("qwen2", ModelType::Qwen2),
    ("qwen3", ModelType::Qwen3),
    ("gemma2", ModelType::Gemma2),
    ("phi3", ModelType::Phi3),
];
const DTYPES: [(&str, DType); 3] =
    [("bfloat16", DType::Bf16), ("float16", DType::F16), ("float32", DType::F32)];
const ACTIVATIONS: [(&str, Activation); 3] = [
    ("silu", Activation::Silu),
    ("gelu_pytorch_tanh", Activation::Gelu),
    ("gelu_tanh", Activation::Gelu),
];
/// Upper limit of all numbers in a file.
const MOST: u32 = 1 << 20;

impl HfModel {
    /// Reads a configuration. Without the key `_name_or_path`, the model is named after the file, or after its folder
    /// if the file is called `config.json`.
    ///
    /// ```
    /// use cubeyard_model::HfModel;
    ///
    /// let text = br#"{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256,
    ///     "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}"#;
    /// let model = HfModel::read_bytes("llama-3.1-8b/config.json", text)?;
    /// assert_eq!((model.spec.name.as_str(), model.spec.parameters()), ("llama-3.1-8b", 8_030_261_248));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_bytes(name: &str, bytes: &[u8]) -> Result<Self, InputError> {
        let document = Document::overlaid("defaults", "{}", name, text(name, bytes)?)?;
        let root = document.root();
        let mut map = root.map()?;
        let kind = map.required("model_type")?.choice(&TYPES)?;
        let dtype = given(&mut map, "torch_dtype").or_else(|| given(&mut map, "dtype"));
        let dtype = dtype.map(|field| field.choice(&DTYPES)).transpose()?;
        let spec = spec(&mut map, kind, name)?;
        Ok(Self { notes: notes(&mut map, kind)?, spec, dtype })
    }
}

fn spec(map: &mut Map<'_>, kind: ModelType, name: &str) -> Result<ModelSpec, InputError> {
    let heads = number(map, "num_attention_heads")?;
    Ok(ModelSpec {
        name: named(map, name),
        layers: number(map, "num_hidden_layers")?,
        hidden: number(map, "hidden_size")?,
        ffn: number(map, "intermediate_size")?,
        heads,
        kv_heads: kv_heads(map, kind, heads)?,
        head_dim: head_dim(map, kind, heads)?,
        vocab: number(map, "vocab_size")?,
        family: family(map, kind)?,
    })
}

fn family(map: &mut Map<'_>, kind: ModelType) -> Result<Family, InputError> {
    never(map, "attention_bias")?;
    never(map, "mlp_bias")?;
    let is_gemma = kind == ModelType::Gemma2;
    Ok(Family {
        is_tied: given(map, "tie_word_embeddings").map_or(Ok(is_gemma), |field| field.flag())?,
        has_qkv_bias: kind == ModelType::Qwen2,
        has_qk_norm: kind == ModelType::Qwen3,
        has_post_norms: is_gemma,
        activation: activation(map, is_gemma)?,
        experts: (kind == ModelType::Mixtral).then(|| experts(map)).transpose()?,
    })
}

/// Reads the activation function; in Gemma 2 `hidden_activation` takes precedence over `hidden_act`.
fn activation(map: &mut Map<'_>, is_gemma: bool) -> Result<Activation, InputError> {
    let [first, second] = ["hidden_activation", "hidden_act"].map(|key| given(map, key));
    let field = if is_gemma { first.or(second) } else { second };
    let default = if is_gemma { Activation::Gelu } else { Activation::Silu };
    field.map_or(Ok(default), |field| field.choice(&ACTIVATIONS))
}

fn experts(map: &mut Map<'_>) -> Result<Experts, InputError> {
    let count = number(map, "num_local_experts")?;
    let active = map.required("num_experts_per_tok")?;
    let expected = || active.unexpected(format!("a number from 1 to num_local_experts={count}"));
    let active = active.whole(1, MOST).map(u64::from).map_err(|_| expected())?;
    if active > count { Err(expected()) } else { Ok(Experts { count, active }) }
}

/// Reads the number of heads of K and V. If Llama or Phi 3 omits it, it equals the number of heads of Q.
fn kv_heads(map: &mut Map<'_>, kind: ModelType, heads: u64) -> Result<u64, InputError> {
    let field = match given(map, "num_key_value_heads") {
        Some(field) => field,
        None if matches!(kind, ModelType::Llama | ModelType::Phi3) => return Ok(heads),
        None => map.required("num_key_value_heads")?,
    };
    let kv = u64::from(field.whole(1, MOST)?);
    if heads.is_multiple_of(kv) {
        return Ok(kv);
    }
    let heads = map.required("num_attention_heads")?;
    Err(heads.unexpected(format!("a multiple of num_key_value_heads={kv}")))
}

/// Reads the head dimension. If the key is missing, it is the hidden dimension divided by the number of heads.
fn head_dim(map: &mut Map<'_>, kind: ModelType, heads: u64) -> Result<u64, InputError> {
    if let Some(field) = given(map, "head_dim") {
        let size = u64::from(field.whole(1, MOST)?);
        let expected = "an even number, since features rotate in pairs";
        return size.is_multiple_of(2).then_some(size).ok_or_else(|| field.unexpected(expected));
    }
    // These families do not derive it from other keys, so it must be given.
    if matches!(kind, ModelType::Gemma2 | ModelType::Qwen3) {
        return number(map, "head_dim");
    }
    let hidden = number(map, "hidden_size")?;
    if hidden.is_multiple_of(2 * heads) {
        return Ok(hidden / heads);
    }
    let expected = format!(
        "a multiple of {}, twice num_attention_heads={heads}, since there is no head_dim",
        2 * heads
    );
    Err(map.required("hidden_size")?.unexpected(expected))
}

/// Returns the value of a key, unless it is missing or `null`.
fn given<'a>(map: &mut Map<'a>, key: &'static str) -> Option<Field<'a>> {
    map.optional(key).filter(|field| !field.is_null())
}

fn number(map: &mut Map<'_>, key: &'static str) -> Result<u64, InputError> {
    map.required(key)?.whole(1, MOST).map(u64::from)
}

/// Rejects a configuration in which the flag is set.
fn never(map: &mut Map<'_>, key: &'static str) -> Result<(), InputError> {
    match given(map, key) {
        Some(field) if field.flag()? => {
            let expected = "false, as only the biases of Qwen 2 are simulated";
            let (expected, found) = (expected.to_owned(), "true".to_owned());
            Err(field.error(InputProblem::Value { expected, found }))
        }
        _ => Ok(()),
    }
}

fn named(map: &mut Map<'_>, file: &str) -> String {
    if let Some(field) = given(map, "_name_or_path")
        && let Ok(name) = field.text("a name")
    {
        return name.to_owned();
    }
    let path = std::path::Path::new(file);
    let stem = path.file_stem().filter(|stem| *stem != "config");
    let folder = path.parent().and_then(std::path::Path::file_name);
    let name = stem.or(folder).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "config".to_owned())
}

#[cfg(test)]
mod tests;

//! Models from Hugging Face configurations, `config.json`.
//!
//! Keys are of three kinds: keys that are read, keys that affect neither time nor memory, and keys whose effect is not
//! simulated. The last kind and unknown keys are listed in [`HfModel::notes`].

mod keys;
mod layers;
mod quantisation;

use cubeyard_runtime::dtype::DType;
use cubeyard_yaml::{Document, Field, InputError, Map, text};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::spec::{Activation, Family, ModelSpec};
use keys::{notes, outer_notes};

/// Model described by a Hugging Face configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HfModel {
    /// Dimensions of the model.
    pub spec: ModelSpec,
    /// Element type of the published weights, if the file states one.
    pub dtype: Option<DType>,
    /// Element type of the published weights of layers, if they are quantised to 8 bits.
    pub weights: Option<DType>,
    /// Keys whose effect is not simulated, one sentence each.
    pub notes: Vec<String>,
}

impl Serialize for HfModel {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (spec, element) = (&self.spec, self.dtype.unwrap_or(DType::F16).size());
        let experts = spec.kinds(u64::MAX).into_iter().find_map(|kind| kind.experts);
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
            "kv_bytes_per_token": spec.cached_values(0) * element,
            "dtype": self.dtype.map(DType::name),
            "weights": self.weights.map(DType::name),
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
    Qwen3Moe,
    Gemma2,
    Gemma3,
    Phi3,
    Granite,
    GptOss,
    Llama4,
}

const TYPES: [(&str, ModelType); 14] = [
    ("llama", ModelType::Llama),
    ("mistral", ModelType::Mistral),
    ("mixtral", ModelType::Mixtral),
    ("qwen2", ModelType::Qwen2),
    ("qwen3", ModelType::Qwen3),
    ("qwen3_moe", ModelType::Qwen3Moe),
    ("gemma2", ModelType::Gemma2),
    ("gemma3", ModelType::Gemma3),
    ("gemma3_text", ModelType::Gemma3),
    ("phi3", ModelType::Phi3),
    ("granite", ModelType::Granite),
    ("gpt_oss", ModelType::GptOss),
    ("llama4", ModelType::Llama4),
    ("llama4_text", ModelType::Llama4),
];
/// Types of the text model below the key `text_config`.
const TEXT_TYPES: [(&str, ModelType); 2] =
    [("gemma3_text", ModelType::Gemma3), ("llama4_text", ModelType::Llama4)];
const DTYPES: [(&str, DType); 3] =
    [("bfloat16", DType::Bf16), ("float16", DType::F16), ("float32", DType::F32)];
const ACTIVATIONS: [(&str, Activation); 3] = [
    ("silu", Activation::Silu),
    ("gelu_pytorch_tanh", Activation::Gelu),
    ("gelu_tanh", Activation::Gelu),
];
/// Families whose head dimension follows from other keys, if it is not given.
const DERIVED: [ModelType; 6] = [
    ModelType::Llama,
    ModelType::Mistral,
    ModelType::Mixtral,
    ModelType::Qwen2,
    ModelType::Phi3,
    ModelType::Granite,
];
/// Numbers of Gemma 3 that configurations may omit.
const GEMMA_3: [(&str, u64); 6] = [
    ("vocab_size", 262_208),
    ("hidden_size", 2304),
    ("intermediate_size", 9216),
    ("num_hidden_layers", 26),
    ("num_attention_heads", 8),
    ("head_dim", 256),
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
        let kind = model_type(&map.required("model_type")?)?;
        let dtype = dtype(&mut map)?;
        if given(&mut map, "text_config").is_none() {
            let mut spec = spec(&mut map, kind, name)?;
            let (weights, note) = quantisation::read(&mut map, &mut spec)?;
            let notes = notes(&mut map, kind).into_iter().chain(note).collect();
            return Ok(Self { spec, dtype, weights, notes });
        }
        let mut inner = map.required("text_config")?.map()?;
        if let Some(field) = given(&mut inner, "model_type") {
            field.choice(&TEXT_TYPES)?;
        }
        let dtype = self::dtype(&mut inner)?.or(dtype);
        let spec = ModelSpec { name: named(&mut map, name), ..spec(&mut inner, kind, name)? };
        let mut notes = notes(&mut inner, kind);
        notes.extend(outer_notes(&mut map));
        Ok(Self { spec, dtype, weights: None, notes })
    }

    /// Returns the model with the element types of activations and of the weights of layers. Types that are not given
    /// are those of the file, or else `f16` and the type of activations. A given type of weights replaces MXFP4.
    #[must_use]
    pub fn with_types(
        mut self,
        dtype: Option<DType>,
        weights: Option<DType>,
    ) -> (Self, [DType; 2]) {
        let dtype = dtype.or(self.dtype).unwrap_or(DType::F16);
        let stored = self.weights.filter(|_| matches!(dtype, DType::F16 | DType::Bf16));
        self.spec.family.has_mxfp4_experts &= weights.is_none();
        let weights = weights.or(stored).unwrap_or(dtype);
        (self, [dtype, weights])
    }
}

impl From<ModelSpec> for HfModel {
    fn from(spec: ModelSpec) -> Self {
        Self { spec, dtype: None, weights: None, notes: Vec::new() }
    }
}

/// Reads the family. Those that are known, but whose attention is not simulated, are refused with the reason.
fn model_type(field: &Field<'_>) -> Result<ModelType, InputError> {
    let name = field.text("the name of a family")?;
    if ["deepseek_v2", "deepseek_v3"].contains(&name) {
        let names = TYPES.map(|(name, _)| name).join(", ");
        let reason = "since latent attention (MLA) is not simulated";
        return Err(field.unexpected(format!("one of {names}, {reason}")));
    }
    field.choice(&TYPES)
}

/// Reads the element type, under its new or its old name.
fn dtype(map: &mut Map<'_>) -> Result<Option<DType>, InputError> {
    let [old, new] = ["torch_dtype", "dtype"].map(|key| given(map, key));
    old.or(new).map(|field| field.choice(&DTYPES)).transpose()
}

fn spec(map: &mut Map<'_>, kind: ModelType, name: &str) -> Result<ModelSpec, InputError> {
    let heads = number_of(map, kind, "num_attention_heads")?;
    let spec = ModelSpec {
        name: named(map, name),
        layers: number_of(map, kind, "num_hidden_layers")?,
        hidden: number_of(map, kind, "hidden_size")?,
        ffn: number_of(map, kind, "intermediate_size")?,
        heads,
        kv_heads: kv_heads(map, kind, heads)?,
        head_dim: head_dim(map, kind, heads)?,
        vocab: number_of(map, kind, "vocab_size")?,
        family: family(map, kind)?,
        others: Vec::new(),
    };
    Ok(spec.of_kinds(&layers::kinds(map, kind, &spec)?))
}

fn family(map: &mut Map<'_>, kind: ModelType) -> Result<Family, InputError> {
    let is_oss = kind == ModelType::GptOss;
    biased(map, "attention_bias", is_oss)?;
    biased(map, "mlp_bias", false)?;
    let is_gemma = matches!(kind, ModelType::Gemma2 | ModelType::Gemma3);
    let has_qk_norm = matches!(kind, ModelType::Qwen3 | ModelType::Qwen3Moe | ModelType::Gemma3);
    Ok(Family {
        is_tied: given(map, "tie_word_embeddings").map_or(Ok(is_gemma), |field| field.flag())?,
        has_qkv_bias: kind == ModelType::Qwen2 || is_oss,
        has_qk_norm,
        has_post_norms: is_gemma,
        activation: activation(map, is_gemma)?,
        has_other_biases: is_oss,
        ..Family::default()
    })
}

/// Reads the activation function; in Gemma `hidden_activation` takes precedence over `hidden_act`.
fn activation(map: &mut Map<'_>, is_gemma: bool) -> Result<Activation, InputError> {
    let [first, second] = ["hidden_activation", "hidden_act"].map(|key| given(map, key));
    let field = if is_gemma { first.or(second) } else { second };
    let default = if is_gemma { Activation::Gelu } else { Activation::Silu };
    field.map_or(Ok(default), |field| field.choice(&ACTIVATIONS))
}

/// Reads the number of heads of K and V. If Llama or Phi 3 omits it, it equals the number of heads of Q.
fn kv_heads(map: &mut Map<'_>, kind: ModelType, heads: u64) -> Result<u64, InputError> {
    let field = match given(map, "num_key_value_heads") {
        Some(field) => field,
        None if matches!(kind, ModelType::Llama | ModelType::Phi3 | ModelType::Granite) => {
            return Ok(heads);
        }
        None if kind == ModelType::Gemma3 => return Ok(4),
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
    // The other families do not derive it from other keys, so it must be given.
    if !DERIVED.contains(&kind) {
        return number_of(map, kind, "head_dim");
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

/// Reads a number. Configurations of Gemma 3 omit those that equal the defaults of its class.
fn number_of(map: &mut Map<'_>, kind: ModelType, key: &'static str) -> Result<u64, InputError> {
    let default = GEMMA_3.into_iter().find(|(known, _)| kind == ModelType::Gemma3 && *known == key);
    match (given(map, key), default) {
        (None, Some((_, default))) => Ok(default),
        _ => number(map, key),
    }
}

fn number(map: &mut Map<'_>, key: &'static str) -> Result<u64, InputError> {
    map.required(key)?.whole(1, MOST).map(u64::from)
}

/// Rejects a configuration whose biases are not those of its family.
fn biased(map: &mut Map<'_>, key: &'static str, expected: bool) -> Result<(), InputError> {
    match given(map, key) {
        Some(field) if field.flag()? != expected => Err(field.unexpected(if expected {
            "true, as in all models of this type"
        } else {
            "false, as only the biases of Qwen 2 and gpt-oss are simulated"
        })),
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

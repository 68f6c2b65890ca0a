//! Kinds of layers of a configuration: windows of attention, and experts.

use cubeyard_yaml::{Field, InputError, Map};

use super::{MOST, ModelType, given, number};
use crate::spec::{Experts, LayerKind, ModelSpec, Window};

/// Names of the attention of a layer, and whether it has a window.
const ATTENTIONS: [(&str, bool); 3] =
    [("full_attention", false), ("sliding_attention", true), ("chunked_attention", true)];
/// Values of a list of flags, one for each layer.
const FLAGS: [(&str, bool); 4] = [("0", false), ("1", true), ("false", false), ("true", true)];

/// Feed-forward part of a layer: inner features, experts, and shared experts.
type Ffn = (u64, Option<Experts>, u64);

/// Returns the kinds of layers, in the order of their first layer. `spec` has the number of layers and the inner features
/// of `intermediate_size`.
pub(super) fn kinds(
    map: &mut Map<'_>,
    kind: ModelType,
    spec: &ModelSpec,
) -> Result<Vec<LayerKind>, InputError> {
    let windows = windows(map, kind, spec.layers)?;
    let ffns = ffns(map, kind, spec)?;
    let of_layer =
        |(window, (ffn, experts, shared))| LayerKind { layers: 1, ffn, experts, shared, window };
    Ok(LayerKind::merged(windows.into_iter().zip(ffns).map(of_layer)))
}

/// Returns the window of each layer.
fn windows(
    map: &mut Map<'_>,
    kind: ModelType,
    layers: u64,
) -> Result<Vec<Option<Window>>, InputError> {
    let window = window(map, kind)?;
    let by_rule = limited(map, kind, layers)?;
    let limited = match given(map, "layer_types") {
        Some(field) => of_layers(&field, "names of attention", layers, &ATTENTIONS)?,
        None => by_rule,
    };
    Ok(limited.into_iter().map(|limited| window.filter(|_| limited)).collect())
}

/// Reads the window of the layers that have one. Qwen uses it only if the configuration enables it.
fn window(map: &mut Map<'_>, kind: ModelType) -> Result<Option<Window>, InputError> {
    use ModelType::{Gemma2, Gemma3, GptOss, Granite, Llama, Llama4, Qwen2, Qwen3, Qwen3Moe};
    let in_use = given(map, "use_sliding_window");
    let is_qwen = matches!(kind, Qwen2 | Qwen3 | Qwen3Moe);
    let in_use = in_use.map_or(Ok(!is_qwen), |field| field.flag())?;
    let (key, default) = match kind {
        Llama4 => ("attention_chunk_size", Some(8192)),
        Gemma2 | Gemma3 => ("sliding_window", Some(4096)),
        GptOss => ("sliding_window", Some(128)),
        _ => ("sliding_window", None),
    };
    let field = map.optional(key);
    if !in_use || matches!(kind, Llama | Granite) || field.as_ref().is_some_and(Field::is_null) {
        return Ok(None);
    }
    let tokens = field.map(|field| field.whole(1, u32::MAX).map(u64::from)).transpose()?;
    let of = if kind == Llama4 { Window::Chunked } else { Window::Sliding };
    Ok(tokens.or(default).map(of))
}

/// Returns for each layer whether it has a window, by the rule of the family.
fn limited(map: &mut Map<'_>, kind: ModelType, layers: u64) -> Result<Vec<bool>, InputError> {
    use ModelType::{Gemma2, Gemma3, GptOss, Llama4, Qwen2, Qwen3};
    let every = |step: u64| (1..=layers).map(|layer| layer % step != 0).collect::<Vec<_>>();
    Ok(match kind {
        Gemma2 | GptOss => every(2),
        Gemma3 => {
            let old = given(map, "_sliding_window_pattern");
            let pattern = given(map, "sliding_window_pattern").or(old);
            every(pattern.map_or(Ok(6), |field| field.whole(1, MOST).map(u64::from))?)
        }
        Llama4 => {
            let step = given(map, "no_rope_layer_interval");
            let step = step.map_or(Ok(4), |field| field.whole(1, MOST).map(u64::from))?;
            match given(map, "no_rope_layers") {
                Some(field) if !field.list("flags")?.is_empty() => {
                    of_layers(&field, "flags, 0 or 1", layers, &FLAGS)?
                }
                _ => every(step),
            }
        }
        Qwen2 | Qwen3 => {
            let full = given(map, "max_window_layers");
            let full = full.map_or(Ok(28), |field| field.whole(0, MOST).map(u64::from))?;
            (0..layers).map(|layer| layer >= full).collect()
        }
        _ => vec![true; usize::try_from(layers).expect("it has an upper limit")],
    })
}

/// Reads a list with a name for each layer.
fn of_layers<T: Copy>(
    field: &Field<'_>,
    of: &str,
    layers: u64,
    names: &[(&str, T)],
) -> Result<Vec<T>, InputError> {
    let list = field.list(of)?;
    if list.len() as u64 != layers {
        return Err(field.unexpected(format!("a list of num_hidden_layers={layers} {of}")));
    }
    list.iter().map(|field| field.choice(names)).collect()
}

/// Returns the feed-forward part of each layer.
fn ffns(map: &mut Map<'_>, kind: ModelType, spec: &ModelSpec) -> Result<Vec<Ffn>, InputError> {
    let dense = (spec.ffn, None, 0);
    let (dense, sparse, has_experts) = match kind {
        ModelType::Mixtral | ModelType::GptOss => {
            let experts = experts(map, "num_local_experts")?;
            (dense, (spec.ffn, Some(experts), 0), vec![true; places(spec)])
        }
        ModelType::Qwen3Moe => {
            let experts = experts(map, "num_experts")?;
            let ffn = number(map, "moe_intermediate_size")?;
            (dense, (ffn, Some(experts), 0), sparse_layers(map, spec.layers)?)
        }
        ModelType::Llama4 => {
            let experts = experts(map, "num_local_experts")?;
            let has_experts = moe_layers(map, spec.layers)?;
            let ffn = number(map, "intermediate_size_mlp")?;
            ((ffn, None, 0), (spec.ffn, Some(experts), 1), has_experts)
        }
        _ => (dense, dense, vec![false; places(spec)]),
    };
    let of = |has_experts| if has_experts { sparse } else { dense };
    Ok(has_experts.into_iter().map(of).collect())
}

fn places(spec: &ModelSpec) -> usize {
    usize::try_from(spec.layers).expect("it has an upper limit")
}

/// Returns for each layer of Qwen 3 whether it has experts.
fn sparse_layers(map: &mut Map<'_>, layers: u64) -> Result<Vec<bool>, InputError> {
    let step = given(map, "decoder_sparse_step");
    let step = step.map_or(Ok(1), |field| field.whole(1, MOST).map(u64::from))?;
    let dense = given(map, "mlp_only_layers").map_or(Ok(Vec::new()), |field| numbers(&field))?;
    let has_experts = |layer: u64| !dense.contains(&layer) && (layer + 1).is_multiple_of(step);
    Ok((0..layers).map(has_experts).collect())
}

/// Returns for each layer of Llama 4 whether it has experts. A step of 1 means all layers.
fn moe_layers(map: &mut Map<'_>, layers: u64) -> Result<Vec<bool>, InputError> {
    let step = given(map, "interleave_moe_layer_step");
    let step = step.map_or(Ok(1), |field| field.whole(1, MOST).map(u64::from))?;
    let sparse = given(map, "moe_layers").map(|field| numbers(&field)).transpose()?;
    let has_experts = |layer: u64| match &sparse {
        Some(sparse) => sparse.contains(&layer),
        None => (layer + 1).is_multiple_of(step),
    };
    Ok((0..layers).map(has_experts).collect())
}

/// Reads a list of layers.
fn numbers(field: &Field<'_>) -> Result<Vec<u64>, InputError> {
    let list = field.list("layers")?;
    list.iter().map(|field| field.whole(0, MOST).map(u64::from)).collect()
}

fn experts(map: &mut Map<'_>, key: &'static str) -> Result<Experts, InputError> {
    let count = number(map, key)?;
    let active = map.required("num_experts_per_tok")?;
    let expected = || active.unexpected(format!("a number from 1 to {key}={count}"));
    let active = active.whole(1, MOST).map(u64::from).map_err(|_| expected())?;
    if active > count { Err(expected()) } else { Ok(Experts { count, active }) }
}

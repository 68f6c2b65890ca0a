//! Keys of a configuration that are not dimensions.

use cubeyard_yaml::{InputError, Map};

use super::{ModelType, given};

/// Keys without effect on time or memory: names, tokens, training, thresholds, position angles.
const WITHOUT_EFFECT: [&str; 33] = [
    "_attn_implementation",
    "architectures",
    "attention_dropout",
    "attn_implementation",
    "auto_map",
    "bos_token_id",
    "cache_implementation",
    "decoder_start_token_id",
    "embd_pdrop",
    "eos_token_id",
    "id2label",
    "initializer_range",
    "is_decoder",
    "label2id",
    "max_position_embeddings",
    "max_window_layers",
    "model_type",
    "original_max_position_embeddings",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pad_token_id",
    "pretraining_tp",
    "query_pre_attn_scalar",
    "resid_pdrop",
    "return_dict",
    "rms_norm_eps",
    "rope_interleaved",
    "rope_theta",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "transformers_version",
    "use_cache",
];

/// Keys whose effect is not simulated, with the assumption made instead.
const NOT_SIMULATED: [(&str, &str); 7] = [
    ("rope_scaling", "angles of positions are read from a table, however they are scaled"),
    ("rope_parameters", "angles of positions are read from a table, however they are scaled"),
    ("partial_rotary_factor", "all features of a head rotate"),
    ("attn_logit_softcapping", "scores are not capped"),
    ("final_logit_softcapping", "logits are not capped"),
    ("quantization_config", "--weights chooses the type of the weights"),
    ("layer_types", "all layers attend to the whole context"),
];

/// Returns a sentence for each key whose effect is not simulated, and for each unknown key.
pub(super) fn notes(map: &mut Map<'_>, kind: ModelType) -> Result<Vec<String>, InputError> {
    let mut notes: Vec<String> = window(map, kind)?.into_iter().collect();
    for (key, instead) in NOT_SIMULATED {
        if given(map, key).is_some() {
            notes.push(format!("{key} is not simulated: {instead}"));
        }
    }
    if given(map, "hidden_activation").is_some() && kind != ModelType::Gemma2 {
        notes.push(
            "hidden_activation is not a key of this model_type: hidden_act counts".to_owned(),
        );
    }
    WITHOUT_EFFECT.iter().for_each(|key| drop(map.optional(key)));
    notes.extend(map.unasked().map(|key| format!("{key} is not a known key, and is not read")));
    Ok(notes)
}

/// Returns the sentence on a sliding window, if one is used; Qwen uses one only if the configuration enables it.
fn window(map: &mut Map<'_>, kind: ModelType) -> Result<Option<String>, InputError> {
    let default = !matches!(kind, ModelType::Qwen2 | ModelType::Qwen3);
    let in_use = given(map, "use_sliding_window").map_or(Ok(default), |field| field.flag())?;
    let Some(field) = given(map, "sliding_window").filter(|_| in_use) else {
        map.optional("sliding_window");
        return Ok(None);
    };
    let length = field.whole(1, u32::MAX)?;
    let layers = if kind == ModelType::Gemma2 { "every second layer" } else { "all layers" };
    Ok(Some(format!(
        "sliding_window={length} of {layers} is not simulated: attention sees the whole context"
    )))
}

//! Keys of a configuration that are not dimensions.

use cubeyard_yaml::{Field, Map};

use super::{ModelType, given};

/// Keys without effect on time or memory: names, tokens, training, thresholds, position angles, constant factors.
const WITHOUT_EFFECT: [&str; 48] = [
    "_attn_implementation",
    "architectures",
    "attention_multiplier",
    "attention_dropout",
    "attn_implementation",
    "auto_map",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "decoder_start_token_id",
    "embd_pdrop",
    "embedding_multiplier",
    "eos_token_id",
    "experts_per_token",
    "id2label",
    "initial_context_length",
    "initializer_range",
    "is_decoder",
    "label2id",
    "logits_scaling",
    "max_position_embeddings",
    "max_window_layers",
    "mlp_only_layers",
    "model_type",
    "norm_topk_prob",
    "original_max_position_embeddings",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pad_token_id",
    "pretraining_tp",
    "query_pre_attn_scalar",
    "resid_pdrop",
    "residual_multiplier",
    "return_dict",
    "rms_norm_eps",
    "rope_interleaved",
    "rope_local_base_freq",
    "rope_theta",
    "router_aux_loss_coef",
    "router_aux_loss",
    "router_jitter_noise",
    "transformers_version",
    "sliding_window_pattern",
    "swiglu_limit",
    "use_bidirectional_attention",
    "use_cache",
    "use_sliding_window",
];
/// Keys beside `text_config` without effect on the text model.
const BESIDE_TEXT: [&str; 13] = [
    "architectures",
    "boi_token_index",
    "boi_token_id",
    "bos_token_id",
    "eoi_token_index",
    "eoi_token_id",
    "eos_token_id",
    "image_token_index",
    "image_token_id",
    "initializer_range",
    "mm_tokens_per_image",
    "tie_word_embeddings",
    "transformers_version",
];

/// Keys whose effect is not simulated, with the assumption made instead.
const NOT_SIMULATED: [(&str, &str); 7] = [
    ("rope_scaling", "angles of positions are read from a table, however they are scaled"),
    ("rope_parameters", "angles of positions are read from a table, however they are scaled"),
    ("partial_rotary_factor", "all features of a head rotate"),
    ("attn_logit_softcapping", "scores are not capped"),
    ("final_logit_softcapping", "logits are not capped"),
    ("use_qk_norm", "heads of Q and K are not normalised"),
    ("attn_temperature_tuning", "Q is not scaled by its position"),
];

/// Returns a sentence for each key whose effect is not simulated, and for each unknown key.
pub(super) fn notes(map: &mut Map<'_>, kind: ModelType) -> Vec<String> {
    let mut notes: Vec<String> = of_family(kind).iter().map(|&note| note.to_owned()).collect();
    for (key, instead) in NOT_SIMULATED {
        let is_off = |field: &Field<'_>| matches!(field.flag(), Ok(false));
        if given(map, key).is_some_and(|field| !is_off(&field)) {
            notes.push(format!("{key} is not simulated: {instead}"));
        }
    }
    let is_gemma = matches!(kind, ModelType::Gemma2 | ModelType::Gemma3);
    if given(map, "hidden_activation").is_some() && !is_gemma {
        notes.push(
            "hidden_activation is not a key of this model_type: hidden_act counts".to_owned(),
        );
    }
    if matches!(kind, ModelType::Llama | ModelType::Granite)
        && given(map, "sliding_window").is_some()
    {
        notes.push(
            "sliding_window is not a key of this model_type: attention sees the whole context"
                .to_owned(),
        );
    }
    WITHOUT_EFFECT.iter().for_each(|key| drop(map.optional(key)));
    notes.extend(map.unasked().map(|key| format!("{key} is not a known key, and is not read")));
    notes
}

/// Returns the sentences on features that all models of a family have.
const fn of_family(kind: ModelType) -> &'static [&'static str] {
    match kind {
        ModelType::GptOss => &[
            "biases of the attention output, the router and the experts are counted, but neither loaded nor added",
            "sinks of heads are counted, but are not part of the softmax",
            "the limits of the gate, swiglu_limit, are not simulated",
        ],
        ModelType::Llama4 => &["layers without rotary positions rotate Q and K like the others"],
        _ => &[],
    }
}

/// Returns a sentence for each unknown key beside `text_config`, and on the model that is left out.
pub(super) fn outer_notes(map: &mut Map<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if given(map, "vision_config").is_some() {
        notes.push("vision_config is not read: only the text model is simulated".to_owned());
    }
    BESIDE_TEXT.iter().for_each(|key| drop(map.optional(key)));
    notes.extend(map.unasked().map(|key| format!("{key} is not a known key, and is not read")));
    notes
}

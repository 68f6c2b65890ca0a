use super::*;

const TINY: &str = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "vocab_size": 99,
"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "x": 0}"#;

fn read(text: &str) -> Result<HfModel, InputError> {
    HfModel::read_bytes("tiny.json", text.as_bytes())
}

/// Returns the text of a configuration.
macro_rules! config {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../testdata/hf/", $name, ".json")).as_slice())
    };
}

/// Published configurations with their numbers of parameters; `test_hf_parameters.py` compares these with
/// `transformers`.
const PUBLISHED: [((&str, &[u8]), u64); 10] = [
    (config!("gemma-2-9b"), 9_241_705_984),
    (config!("llama-3.1-405b"), 405_853_388_800),
    (config!("llama-3.1-70b"), 70_553_706_496),
    (config!("llama-3.1-8b"), 8_030_261_248),
    (config!("llama-3.2-3b"), 3_212_749_824),
    (config!("mistral-7b-v0.3"), 7_248_023_552),
    (config!("mixtral-8x7b"), 46_702_792_704),
    (config!("phi-3-mini"), 3_821_079_552),
    (config!("qwen2.5-7b"), 7_615_616_512),
    (config!("qwen3-32b"), 32_762_123_264),
];

#[test]
fn ten_configurations_have_the_published_number_of_parameters() {
    for ((name, bytes), parameters) in PUBLISHED {
        let model = HfModel::read_bytes(&format!("{name}.json"), bytes).unwrap();
        assert_eq!((model.spec.name.as_str(), model.spec.parameters()), (name, parameters));
        assert_eq!(model.dtype, Some(DType::Bf16), "{name}");
        let unknown = |note: &String| note.contains("not a known key");
        assert!(!model.notes.iter().any(unknown), "{name}: {:?}", model.notes);
    }
}

#[test]
fn errors_name_the_key_the_value_and_what_was_expected() {
    for (from, to, expected) in [
        (
            r#""llama""#,
            r#""lama""#,
            "tiny.json:1: model_type: expected one of llama, mistral, mixtral, qwen2, qwen3, gemma2, phi3, found lama; the nearest is `llama`",
        ),
        (r#""hidden_size": 64, "#, "", "tiny.json:1: expected the key `hidden_size`, found none"),
        (
            r#""hidden_size": 64"#,
            r#""hidden_size": "64""#,
            "tiny.json:1: hidden_size: expected a whole number from 1 to 1048576, found \"64\"",
        ),
        (
            r#""num_attention_heads": 4"#,
            r#""num_attention_heads": 25"#,
            "tiny.json:2: num_attention_heads: expected a multiple of num_key_value_heads=2, found 25",
        ),
        (
            r#""hidden_size": 64"#,
            r#""hidden_size": 66"#,
            "tiny.json:1: hidden_size: expected a multiple of 8, twice num_attention_heads=4, since there is no head_dim, found 66",
        ),
        (
            r#""x": 0"#,
            r#""head_dim": 3"#,
            "tiny.json:2: head_dim: expected an even number, since features rotate in pairs, found 3",
        ),
        (
            r#""x": 0"#,
            r#""attention_bias": true"#,
            "tiny.json:2: attention_bias: expected false, as only the biases of Qwen 2 are simulated, found true",
        ),
        (
            r#""x": 0"#,
            r#""hidden_act": "relu""#,
            "tiny.json:2: hidden_act: expected one of silu, gelu_pytorch_tanh, gelu_tanh, found relu; the nearest is `silu`",
        ),
        (
            r#""llama""#,
            r#""mixtral""#,
            "tiny.json:1: expected the key `num_local_experts`, found none",
        ),
        (r#""llama""#, r#""qwen3""#, "tiny.json:1: expected the key `head_dim`, found none"),
        (
            r#""x": 0"#,
            r#""torch_dtype": "int4""#,
            "tiny.json:2: torch_dtype: expected one of bfloat16, float16, float32, found int4; the nearest is `float16`",
        ),
    ] {
        assert!(TINY.contains(from), "{from}");
        assert_eq!(read(&TINY.replace(from, to)).unwrap_err().to_string(), expected);
    }
    let experts = TINY
        .replace("llama", "mixtral")
        .replace(r#""x": 0"#, r#""num_local_experts": 4, "num_experts_per_tok": 5"#);
    let text = "tiny.json:2: num_experts_per_tok: expected a number from 1 to num_local_experts=4, found 5";
    assert_eq!(read(&experts).unwrap_err().to_string(), text);
}

#[test]
fn keys_that_are_not_simulated_are_told() {
    let notes = |more: &str| read(&TINY.replace(r#""x": 0"#, more)).unwrap().notes;
    assert!(notes(r#""rope_scaling": null, "sliding_window": null"#).is_empty());
    let told =
        notes(r#""rope_scaling": {"factor": 8}, "sliding_window": 512, "attention_chunk": 3"#);
    assert_eq!(
        told,
        [
            "sliding_window=512 of all layers is not simulated: attention sees the whole context",
            "rope_scaling is not simulated: angles of positions are read from a table, however they are scaled",
            "attention_chunk is not a known key, and is not read",
        ]
    );
}

#[test]
fn a_model_is_named_by_its_key_its_file_or_its_folder() {
    let name =
        |file: &str, text: &str| HfModel::read_bytes(file, text.as_bytes()).unwrap().spec.name;
    assert_eq!(name("models/tiny.json", TINY), "tiny");
    assert_eq!(name("models/tiny/config.json", TINY), "tiny");
    assert_eq!(name("config.json", TINY), "config");
    let named = TINY.replace(r#""x": 0"#, r#""_name_or_path": "mine""#);
    assert_eq!(name("config.json", &named), "mine");
}

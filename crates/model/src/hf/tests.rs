use super::*;
use crate::spec::{LayerKind, Window};

const TINY: &str = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "vocab_size": 99,
"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "x": 0}"#;

fn read(text: &str) -> Result<HfModel, InputError> {
    HfModel::read_bytes("tiny.json", text.as_bytes())
}

/// Name and text of a configuration.
type File = (&'static str, &'static [u8]);

/// Returns the text of a configuration.
macro_rules! config {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../testdata/hf/", $name, ".json")).as_slice())
    };
}

/// Published configurations with their numbers of parameters, which `test_hf_parameters.py` compares with
/// `transformers`, and with the bytes that a token adds to the caches.
const PUBLISHED: [(File, u64, u64); 19] = [
    (config!("gemma-2-9b"), 9_241_705_984, 344_064),
    (config!("llama-3.1-405b"), 405_853_388_800, 516_096),
    (config!("llama-3.1-70b"), 70_553_706_496, 327_680),
    (config!("llama-3.1-8b"), 8_030_261_248, 131_072),
    (config!("llama-3.2-3b"), 3_212_749_824, 114_688),
    (config!("mistral-7b-v0.3"), 7_248_023_552, 131_072),
    (config!("mixtral-8x7b"), 46_702_792_704, 131_072),
    (config!("phi-3-mini"), 3_821_079_552, 393_216),
    (config!("qwen2.5-7b"), 7_615_616_512, 57_344),
    (config!("qwen3-32b"), 32_762_123_264, 262_144),
    (config!("gemma-3-12b"), 11_766_034_176, 393_216),
    (config!("gemma-3-27b"), 27_009_346_304, 507_904),
    (config!("gpt-oss-120b"), 116_829_156_672, 73_728),
    (config!("gpt-oss-20b"), 20_914_757_184, 49_152),
    (config!("granite-3.1-8b"), 8_170_848_256, 163_840),
    (config!("llama-4-maverick"), 400_711_848_960, 196_608),
    (config!("llama-4-scout"), 107_769_861_120, 196_608),
    (config!("qwen3-235b-a22b"), 235_093_634_560, 192_512),
    (config!("qwen3-30b-a3b"), 30_532_122_624, 98_304),
];

#[test]
fn configurations_have_the_published_number_of_parameters_and_of_bytes_in_the_cache() {
    for ((name, bytes), parameters, cached) in PUBLISHED {
        let model = HfModel::read_bytes(&format!("{name}.json"), bytes).unwrap();
        assert_eq!((model.spec.name.as_str(), model.spec.parameters()), (name, parameters));
        assert_eq!(model.dtype, Some(DType::Bf16), "{name}");
        assert_eq!(2 * model.spec.cached_values(0), cached, "{name}");
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
            "tiny.json:1: model_type: expected one of llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, gemma2, gemma3, gemma3_text, phi3, granite, gpt_oss, llama4, llama4_text, found lama; the nearest is `llama`",
        ),
        (
            r#""llama""#,
            r#""deepseek_v3""#,
            "tiny.json:1: model_type: expected one of llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, gemma2, gemma3, gemma3_text, phi3, granite, gpt_oss, llama4, llama4_text, since latent attention (MLA) is not simulated, found \"deepseek_v3\"",
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
            "tiny.json:2: attention_bias: expected false, as only the biases of Qwen 2 and gpt-oss are simulated, found true",
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
            "rope_scaling is not simulated: angles of positions are read from a table, however they are scaled",
            "sliding_window is not a key of this model_type: attention sees the whole context",
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

/// Returns the layers, the window and the experts of each kind of layers of a configuration.
fn kinds(name: &str) -> Vec<(u64, Option<Window>, Option<u64>)> {
    let ((_, bytes), ..) = PUBLISHED.into_iter().find(|((known, _), ..)| *known == name).unwrap();
    let kinds = HfModel::read_bytes("x.json", bytes).unwrap().spec.kinds(u64::MAX);
    let of = |kind: &LayerKind| (kind.layers, kind.window, kind.experts.map(|it| it.count));
    kinds.iter().map(of).collect()
}

#[test]
fn layers_have_the_windows_and_experts_of_their_family() {
    let (sliding, chunks) = (|tokens| Some(Window::Sliding(tokens)), Some(Window::Chunked(8192)));
    assert_eq!(kinds("gemma-2-9b"), [(21, sliding(4096), None), (21, None, None)]);
    // Every sixth of 62 layers is full.
    assert_eq!(kinds("gemma-3-27b"), [(52, sliding(1024), None), (10, None, None)]);
    assert_eq!(kinds("gpt-oss-20b"), [(12, sliding(128), Some(32)), (12, None, Some(32))]);
    assert_eq!(kinds("phi-3-mini"), [(32, sliding(2047), None)]);
    assert_eq!(kinds("mistral-7b-v0.3"), [(32, None, None)]);
    assert_eq!(kinds("qwen2.5-7b"), [(28, None, None)]);
    // A step of 1 means experts in all layers, a step of 2 in every second; every fourth layer is full.
    assert_eq!(kinds("llama-4-scout"), [(36, chunks, Some(16)), (12, None, Some(16))]);
    let maverick = [(24, chunks, None), (12, chunks, Some(128)), (12, None, Some(128))];
    assert_eq!(kinds("llama-4-maverick"), maverick);
}

#[test]
fn caches_of_full_windows_do_not_grow() {
    let grows = |name: &str, context| {
        let ((_, bytes), ..) = PUBLISHED.into_iter().find(|((it, _), ..)| *it == name).unwrap();
        2 * HfModel::read_bytes("x.json", bytes).unwrap().spec.cached_values(context)
    };
    assert_eq!([127, 128].map(|context| grows("gpt-oss-120b", context)), [73_728, 36_864]);
    assert_eq!([1023, 1024].map(|context| grows("gemma-3-27b", context)), [507_904, 81_920]);
    assert_eq!(grows("gemma-3-12b", 1024), 65_536);
}

#[test]
fn windows_are_read_where_the_configuration_enables_them() {
    let windows = |kind: &str, more: &str| {
        let text = TINY.replace("llama", kind).replace(r#""x": 0"#, more);
        let kinds = read(&text).map(|model| model.spec.kinds(u64::MAX));
        let of = |kind: &LayerKind| (kind.layers, kind.window.map(Window::tokens));
        kinds
            .map(|kinds| kinds.iter().map(of).collect::<Vec<_>>())
            .map_err(|error| error.to_string())
    };
    let ok = |kinds: &[(u64, Option<u64>)]| Ok(kinds.to_vec());
    assert_eq!(windows("mistral", r#""sliding_window": 512"#), ok(&[(2, Some(512))]));
    assert_eq!(windows("mistral", r#""sliding_window": null"#), ok(&[(2, None)]));
    let types = r#""sliding_window": 512, "layer_types": ["full_attention", "sliding_attention"]"#;
    assert_eq!(windows("mistral", types), ok(&[(1, None), (1, Some(512))]));
    assert_eq!(windows("qwen2", r#""sliding_window": 512"#), ok(&[(2, None)]));
    let used = r#""sliding_window": 512, "use_sliding_window": true, "max_window_layers": 1"#;
    assert_eq!(windows("qwen2", used), ok(&[(1, None), (1, Some(512))]));
    let error = windows("mistral", r#""sliding_window": 512, "layer_types": ["full_attention"]"#);
    let text = "tiny.json:2: layer_types: expected a list of num_hidden_layers=2 names of attention, found a list of 1";
    assert_eq!(error, Err(text.to_owned()));
    let error = windows("mistral", r#""layer_types": ["full_attention", "linear_attention"]"#);
    let text = "tiny.json:2: layer_types[1]: expected one of full_attention, sliding_attention, chunked_attention, \
                found linear_attention; the nearest is `sliding_attention`";
    assert_eq!(error, Err(text.to_owned()));
}

#[test]
fn weights_have_the_types_of_the_file_unless_others_are_given() {
    let read = |more: &str| read(&TINY.replace(r#""x": 0"#, more)).unwrap();
    let fp8 = read(r#""torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8"}"#);
    assert_eq!(fp8.notes.len(), 1, "{:?}", fp8.notes);
    let types = |dtype, weights| fp8.clone().with_types(dtype, weights).1;
    assert_eq!(types(None, None), [DType::Bf16, DType::Fp8E4m3]);
    assert_eq!(types(None, Some(DType::Bf16)), [DType::Bf16, DType::Bf16]);
    assert_eq!(types(Some(DType::F32), None), [DType::F32, DType::F32]);
    assert_eq!(read(r#""y": 0"#).with_types(None, None).1, [DType::F16, DType::F16]);
    let other = read(r#""quantization_config": {"quant_method": "gptq", "bits": 4}"#);
    let note = "quantization_config of the method gptq is not simulated: --weights chooses the type of the weights";
    assert_eq!((other.weights, other.notes), (None, vec![note.to_owned()]));
    let ((_, bytes), ..) =
        PUBLISHED.into_iter().find(|((it, _), ..)| *it == "gpt-oss-20b").unwrap();
    let model = HfModel::read_bytes("x.json", bytes).unwrap();
    let is_packed =
        |weights| model.clone().with_types(None, weights).0.spec.family.has_mxfp4_experts;
    assert_eq!([is_packed(None), is_packed(Some(DType::Bf16))], [true, false]);
}

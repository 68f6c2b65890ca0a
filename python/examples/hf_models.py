"""Time and memory of a model that people have: its configuration, with weights of 16 and of 8 bits."""

import cubeyard

# Keys of a `config.json`; a path of one, or `config.to_dict()` of `transformers`, does as well.
CONFIG = {
    "model_type": "mixtral",
    "hidden_size": 1024,
    "intermediate_size": 3584,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "vocab_size": 32001,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "torch_dtype": "bfloat16",
}

model = cubeyard.model.read(CONFIG)
print(f"{model.parameters:,} parameters, {model.active_experts} of {model.experts} experts for each token")
for weights in ("bf16", "fp8"):
    step = cubeyard.model.step(hf=CONFIG, weights=weights, context=512)
    memory = step.memory_per_pe.weights.most_bytes / 2**20
    print(f"{weights}: {step.total_ns / 1e3:.1f} µs a token, {memory:.2f} MiB of weights in each PE")
print(*step.placement, sep="\n")

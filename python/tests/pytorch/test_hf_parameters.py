"""Parameters of the published configurations, against those that `transformers` counts on the meta device."""

import json
import pathlib

import pytest
import torch
import transformers

import cubeyard

FILES = sorted((pathlib.Path(__file__).parents[3] / "crates/model/testdata/hf").glob("*.json"))


def counted(keys):
    """The number of parameters of a model, whose weights are never allocated; tied ones count once."""
    # Only the text model counts, and weights are counted as numbers, however they are stored.
    keys = {key: value for key, value in keys.get("text_config", keys).items() if key != "quantization_config"}
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**keys))
    return sum(parameter.numel() for parameter in model.parameters())


def test_there_are_nineteen_configurations():
    assert len(FILES) == 19


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_parameters_equal_those_of_transformers(file):
    keys = json.loads(file.read_text())
    assert cubeyard.model.read(file).parameters == counted(keys)


def test_a_configuration_of_transformers_itself_is_read():
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 99}
    keys = transformers.LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2).to_dict()
    assert cubeyard.model.read(keys).parameters == counted(keys)

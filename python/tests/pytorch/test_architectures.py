"""Architectures of transformers train on the device as on the CPU, to the bit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import architectures
import pytest
import transformers
from architectures import ARCHITECTURES

pytestmark = pytest.mark.usefixtures("without_time")

TIED = {
    "gpt2", "gpt_neo", "qwen2", "qwen3", "gemma", "gemma2", "opt", "bloom", "falcon", "mamba", "bert", "roberta", "distilbert",
    "albert", "t5", "bart", "whisper",
}  # fmt: skip
"""Architectures with tied weights, by their documentation."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    transformers.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_there_are_33_architectures() -> None:
    assert len(ARCHITECTURES) == 33 and set(ARCHITECTURES) >= TIED


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_trains_as_on_the_cpu(device: str, name: str) -> None:
    outcome = architectures.compare(ARCHITECTURES[name])
    assert outcome.differences == []
    assert (outcome.tied > 0) == (name in TIED)
    assert len(set(outcome.losses)) == architectures.STEPS, "the steps change something"

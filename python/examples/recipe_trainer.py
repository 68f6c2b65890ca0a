"""The `Trainer` of Hugging Face transformers with a small GPT-2: `recipe_trainer.py [device]`."""

import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import cubeyard.torch.hugging_face


def train(device: str = "ahbm") -> list[float]:
    if device == "ahbm":
        cubeyard.torch.hugging_face.use_device()
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    rows = torch.randint(64, (12, 16))
    data = [{"input_ids": row, "labels": row} for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        given = TrainingArguments(
            folder, per_device_train_batch_size=4, max_steps=3, logging_steps=1, learning_rate=1e-3, save_strategy="no",
            report_to=[], disable_tqdm=True, use_cpu=device == "cpu", seed=0, dataloader_pin_memory=False,
        )  # fmt: skip
        trainer = Trainer(GPT2LMHeadModel(config), given, train_dataset=data)
        assert trainer.model.device.type == device
        trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


if __name__ == "__main__":
    print(*(f"{loss:.6f}" for loss in train(*sys.argv[1:])))

"""A training loop of Hugging Face accelerate: `recipe_accelerate.py [device]`."""

import sys

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import cubeyard.torch.hugging_face


def train(device: str = "ahbm") -> list[float]:
    if device == "ahbm":
        cubeyard.torch.hugging_face.use_device()
    accelerator = Accelerator(cpu=device == "cpu")
    assert accelerator.device.type == device
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = DataLoader(TensorDataset(torch.randn(64, 16), torch.randn(64, 4)), batch_size=16)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    losses = []
    for x, y in data:
        loss = nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(*(f"{loss:.6f}" for loss in train(*sys.argv[1:])))

"""A module of PyTorch Lightning: `recipe_lightning.py [device]`."""

import logging
import sys

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import cubeyard.torch.lightning  # noqa: F401: Lightning knows the device from here on


class Regression(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
        self.losses: list[float] = []

    def training_step(self, batch: list[torch.Tensor], _number: int) -> torch.Tensor:
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def train(device: str = "ahbm") -> list[float]:
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    torch.manual_seed(0)
    model = Regression()
    data = DataLoader(TensorDataset(torch.randn(64, 16), torch.randn(64, 4)), batch_size=16)
    strategy = {"strategy": "ahbm"} if device == "ahbm" else {}
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = pl.Trainer(accelerator=device, devices=1, max_epochs=1, **strategy, **quiet)
    trainer.fit(model, data)
    assert trainer.strategy.root_device.type == device
    return model.losses


if __name__ == "__main__":
    print(*(f"{loss:.6f}" for loss in train(*sys.argv[1:])))

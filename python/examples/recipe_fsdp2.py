"""FSDP2 in the way of large trainers: `torchrun --nproc-per-node 2 recipe_fsdp2.py [device] [backend]`.

The model is made on the meta device, its blocks are sharded and computed in bfloat16, and each rank keeps its shards of the weights. Blocks are
recomputed in the backward pass, and gradients are clipped over all ranks.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import distribute_tensor

WIDTH, LAYERS = 32, 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


def sharded(mesh: dist.DeviceMesh, device: str) -> nn.Module:
    """Returns the model with its weights, in shards of this rank."""
    with torch.device("meta"):
        model = nn.Sequential(*(checkpoint_wrapper(Block()) for _ in range(LAYERS)))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in [*model, model]:
        fully_shard(part, mesh=mesh, mp_policy=policy)
    model.to_empty(device=device)
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            full = torch.ones(weight.shape) if weight.dim() == 1 else nn.init.trunc_normal_(torch.empty(weight.shape), std=0.05)
            weight.copy_(distribute_tensor(full.to(device), weight.device_mesh, weight.placements))
    return model


def main(device: str = "ahbm", backend: str = "ahbm") -> list[float]:
    dist.init_process_group(backend)
    if device != "cpu":
        torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    model = sharded(init_device_mesh(device, (dist.get_world_size(),)), device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(3):
        x = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(100 * step + dist.get_rank())).to(device)
        loss = (model(x) - x.roll(1, -1)).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().float()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
    if dist.get_rank() == 0:
        print(*(f"{loss:.6f}" for loss in losses))
    dist.destroy_process_group()
    return losses


if __name__ == "__main__":
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    os.environ.update(alone if "RANK" not in os.environ else {})  # without torchrun there is one rank
    main(*sys.argv[1:])

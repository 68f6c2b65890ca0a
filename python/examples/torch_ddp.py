"""A data-parallel training script as for any backend: `torchrun --nproc-per-node 2 torch_ddp.py [device] [backend]`.

Nothing in it is ours but the names of the device and of the backend; `cpu gloo` runs the same on PyTorch's own.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main(device: str = "ahbm", backend: str = "ahbm") -> None:
    dist.init_process_group(backend)
    rank = dist.get_rank()
    if device != "cpu":
        torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(256, 32), torch.randn(256, 8))
    sampler = DistributedSampler(data)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=32, sampler=sampler):
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"epoch {epoch}: loss {mean.item() / dist.get_world_size():.7f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    os.environ.update(alone if "RANK" not in os.environ else {})  # without torchrun there is one rank
    main(*sys.argv[1:])

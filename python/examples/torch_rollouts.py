"""The weights of a trainer lie in a pool, which rests during rollouts: its memory serves the rollouts, its addresses stay."""

# %% Memory that grows: a paused pool returns its granules. This is set before PyTorch is loaded.
import os

os.environ.setdefault("CUBEYARD_ALLOC_CONF", "preset:grow")
os.environ.setdefault("CUBEYARD_DEVICE_MEMORY", "256MiB")

import torch

MIB = 1 << 20


def rollout(mebibytes: int) -> None:
    """Uses as much memory as a rollout would, for its cache of keys and values."""
    torch.zeros(mebibytes * MIB, dtype=torch.uint8, device="ahbm")


# %% A model of 64 MiB, and the state of its optimizer, in a pool.
pool = torch.ahbm.MemPool("weights")
with torch.ahbm.use_mem_pool(pool):
    model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048, bias=False) for _ in range(4))).to("ahbm")
    momentum = [torch.zeros_like(weight) for weight in model.parameters()]
tensors = [*model.parameters(), *momentum]
pointers = [tensor.data_ptr() for tensor in tensors]
print(f"weights and optimizer: {pool.memory_stats()['allocated_bytes.all.current'] // MIB} MiB")

# %% A rollout that needs the whole device does not fit beside them.
try:
    rollout(200)
except torch.OutOfMemoryError:
    print("a rollout of 200 MiB does not fit")

# %% While the pool rests, it does. The contents are lost, so a copy stays on the host.
host = [tensor.detach().cpu() for tensor in tensors]
print(f"paused: {pool.pause() // MIB} MiB returned")
rollout(200)
print(f"resumed: {pool.resume() // MIB} MiB")

# %% The same tensors at the same addresses: views, buckets and captured graphs remain valid.
with torch.no_grad():
    for tensor, saved in zip(tensors, host, strict=True):
        tensor.copy_(saved)
assert [tensor.data_ptr() for tensor in tensors] == pointers
assert all(torch.equal(tensor.cpu(), saved) for tensor, saved in zip(tensors, host, strict=True))
print("addresses and contents are as before")

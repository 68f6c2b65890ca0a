"""A GPT trained on 1, 2 and 4 ranks, and the share of the communication that backward operators hide.

    python torch_ddp_overlap.py [--sharded [--no-prefetch]] [--ranks 1 2 4] [--trace ddp.pftrace] [--picture ddp.svg]

Each rank is a process with a device and the same batch size. `DistributedDataParallel` reduces the gradients of a bucket
while the next ones are computed; with `--sharded`, FSDP2 also gathers the weights of a block while another one computes.
A world's step is compared with the parts: the operators of one rank, and collectives that run one after the other.
"""

import argparse
import os
import pickle
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import cubeyard.torch.distributed as dist

LETTERS = 65


@dataclass
class Shape:
    """Sizes of a model and its batch; by default a small GPT over the letters of a text."""

    layers: int = 6
    heads: int = 6
    width: int = 384
    context: int = 128
    batch: int = 1


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, width = shape.heads, shape.width
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(LETTERS, shape.width), nn.Embedding(shape.context, shape.width)
        self.blocks = nn.Sequential(*(Block(shape) for _ in range(shape.layers)))
        self.norm, self.head = nn.LayerNorm(shape.width), nn.Linear(shape.width, LETTERS, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        places = torch.arange(letters.shape[1], device=letters.device)
        return self.head(self.norm(self.blocks(self.tokens(letters) + self.places(places))))


# %% Training: one step of each rank, with the timeline of the last one.
def made(shape: Shape, sharded: bool, bucket_mb: float, prefetch: bool = True, policy: Any = None) -> nn.Module:
    torch.manual_seed(0)
    model = GPT(shape).to("ahbm")
    if not sharded:
        return DistributedDataParallel(model, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)
    policy = policy or MixedPrecisionPolicy()
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    if prefetch:
        for block, following in zip(model.blocks, model.blocks[1:], strict=False):
            block.set_modules_to_forward_prefetch([following])
    return fully_shard(model, mp_policy=policy)


def loss_of(model: nn.Module, shape: Shape, rank: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rank)
    rows = torch.randint(LETTERS, (shape.batch, shape.context + 1), generator=generator).to("ahbm")
    return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def steps(shape: Shape, rank: int, sharded: bool, bucket_mb: float, *given: Any) -> tuple[Any, float, float]:
    """Returns the timeline of the last step on all ranks, with its begin and end in nanoseconds of this rank."""
    model = made(shape, sharded, bucket_mb, *given)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(3):  # PyTorch arranges the buckets after the first step
        torch.ahbm.synchronize()
        begin = torch.ahbm.clock()
        with torch.ahbm.record_timeline() as timeline:
            loss_of(model, shape, rank).backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.ahbm.synchronize()
    return dist.gather_timeline(timeline), begin, torch.ahbm.clock()


def worker(rank: int, ranks: int, folder: str, given: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    dist.register()
    dist.init_process_group("ahbm", rank=rank, world_size=ranks, init_method=f"file://{folder}/store")
    torch.ahbm.set_device(rank)
    shape, *others = given
    found = steps(shape, rank, *others)
    dist.destroy_process_group()
    if rank == 0:
        Path(folder, "found").write_bytes(pickle.dumps(found))


def world(ranks: int, *given: Any) -> "Step":
    """Returns the last step of a world whose ranks are processes."""
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(worker, (ranks, folder, given), ranks, start_method="spawn")
        return Step(ranks, *pickle.loads(Path(folder, "found").read_bytes()))


# %% Figures: what rank 0 did in the step.
@dataclass
class Step:
    """Step of a world, in nanoseconds of simulated time."""

    ranks: int
    timeline: Any
    begin: float
    end: float

    def spans(self, *kinds: str) -> list[Any]:
        return [span for span in self.timeline.spans if span.track.startswith("rank 0: ") and span.kind in kinds]

    @property
    def time(self) -> float:
        return self.end - self.begin

    @property
    def compute(self) -> float:
        """Sum of the operators' times, and of copies to the device."""
        return sum(span.duration_ns for span in self.spans("operator", "copy"))

    @property
    def communication(self) -> float:
        return sum(span.duration_ns for span in self.spans("collective"))

    @property
    def hidden(self) -> float:
        """Share of the communication that takes no time of the step, because the device works meanwhile."""
        return 1 - (self.time - self.compute) / self.communication if self.communication else 1.0


def expected(alone: Step, step: Step) -> float:
    """Returns the time of a data-parallel step, from its parts.

    The operators come from the run of one rank. A bucket is reduced once it is ready and the previous one is reduced. What comes
    after the backward pass waits for the last one.
    """
    ready = [span.begin_ns - alone.begin for span in alone.spans("collective")]
    last = 0.0
    for begin, span in zip(ready, step.spans("collective"), strict=True):
        last = max(begin, last) + span.duration_ns
    return alone.time + max(0.0, last - max(span.end_ns for span in alone.spans("collective")) + alone.begin)


def table(found: list[Step], sharded: bool) -> None:
    has_parts = not sharded and found[0].ranks == 1
    print("ranks   step µs   operators   collectives   hidden   at least   at most" + "   parts" * has_parts)
    for step in found:
        least, most = max(step.compute, step.communication), step.compute + step.communication
        row = f"{step.ranks:5} {step.time / 1000:9.2f} {step.compute / 1000:11.2f} {step.communication / 1000:13.2f} {step.hidden:8.1%}"
        row += f" {least / 1000:10.2f} {most / 1000:9.2f}"
        print(f"{row} {expected(found[0], step) / 1000:7.2f}" if has_parts else row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4], help="sizes of the worlds (1 2 4)")
    parser.add_argument("--sharded", action="store_true", help="FSDP2 instead of DistributedDataParallel")
    parser.add_argument("--no-prefetch", action="store_true", help="FSDP2 gathers the weights of a block when it begins")
    parser.add_argument("--bucket-mb", type=float, default=4.0, help="MiB of a bucket of gradients (4)")
    parser.add_argument("--trace", help="file for ui.perfetto.dev, of the last world")
    parser.add_argument("--picture", help="SVG file, of the last world")
    for name, size in vars(Shape()).items():
        parser.add_argument(f"--{name}", type=int, default=size, help=f"{name} of the model ({size})")
    given = parser.parse_args()
    os.environ.setdefault("CUBEYARD_SIPS", str(max(given.ranks)))
    shape = Shape(**{name: getattr(given, name) for name in vars(Shape())})
    found = [world(ranks, shape, given.sharded, given.bucket_mb, not given.no_prefetch) for ranks in given.ranks]
    table(found, given.sharded)
    if given.trace:
        print(f"written: {found[-1].timeline.trace(given.trace).name}")
    if given.picture:
        Path(given.picture).write_text(found[-1].timeline.draw(), encoding="utf-8")


if __name__ == "__main__":
    main()

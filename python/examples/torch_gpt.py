"""A small GPT learns a text in ordinary PyTorch: only the name of the device says where."""

# %% The model: embeddings, two blocks with causal attention, and a head over the characters.
import sys

import torch
from torch import nn
from torch.nn import functional as F

TEXT = "the allocator gives every tensor a block, and takes it back when the last of its views is gone. " * 8
LETTERS = sorted(set(TEXT))
CONTEXT, WIDTH, HEADS = 32, 64, 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(len(LETTERS), WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(Block(), Block(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(LETTERS)))

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        return self.blocks(self.tokens(letters) + self.places(torch.arange(letters.shape[1], device=letters.device)))


# %% The training: nothing here knows the device but by its name.
def train(device: str, steps: int = 50) -> list[float]:
    torch.manual_seed(0)
    data = torch.tensor([LETTERS.index(letter) for letter in TEXT])
    model = GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        starts = torch.randint(len(data) - CONTEXT, (16,))
        rows = torch.stack([data[start : start + CONTEXT + 1] for start in starts]).to(device)
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else "ahbm"
    losses = train(where)
    print(f"{where}: loss {losses[0]:.4f} at first, {losses[-1]:.4f} after {len(losses)} steps")
    if where == "ahbm":
        print(f"at most {torch.ahbm.max_memory_allocated() / 2**20:.1f} MiB of device memory at a time")

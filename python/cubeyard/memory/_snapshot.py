"""Snapshots of an allocator."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast


@dataclass(frozen=True)
class Snapshot:
    """The state of an allocator at one moment, in the form that PyTorch's memory viewer reads.

    `cubeyard.replay` replays it, `python -m torch.cuda._memory_viz` and https://pytorch.org/memory_viz show it.
    """

    pickled: bytes = field(repr=False)
    """The snapshot as a pickle of plain data."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the snapshot as `torch.cuda.memory._snapshot()` does."""
        return cast("dict[str, Any]", pickle.loads(self.pickled))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the snapshot to a file, as `torch.cuda.memory._dump_snapshot()` does."""
        Path(path).write_bytes(self.pickled)

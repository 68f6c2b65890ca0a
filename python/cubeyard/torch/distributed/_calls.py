"""Calls from a process group to the machine."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cubeyard.errors import InputError
from cubeyard.torch import _kineto, _timeline
from cubeyard.torch._alias import on_host
from cubeyard.torch.distributed._ranks import Rank
from cubeyard.torch.distributed._types import check_alike, reduction, reduction_type, travel_type
from cubeyard.torch.distributed._work import AhbmWork, Joined

__all__ = ["Calls", "devices", "listed"]

ALIGNMENT = 64
SKIPPED = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep)


class Calls(dist.ProcessGroup):
    """Process group whose calls the machine performs."""

    def __init__(self, rank: Rank, name: str, members: tuple[int, ...], store: Any, timeout: timedelta) -> None:
        super().__init__(members.index(rank.number), len(members))
        self.ahbm_rank = rank
        self.members = members
        self.store = store
        self.seconds = timeout.total_seconds()
        self.label = name
        self.description = "undefined"
        self.is_open = True
        self.batch: list[AhbmWork] | None = None
        self.sequence = 0
        rank.groups += 1
        self._register_anchor()

    def _register_anchor(self) -> None:
        """Gives the group a C++ backend, which PyTorch's call recorder requires from 2.14 on."""
        kind = dist.ProcessGroup.BackendType.CUSTOM
        try:
            self.anchor = _Anchor(self.rank(), self.size())
        except TypeError:
            return
        self._set_default_backend(kind)
        for device in devices():
            self._register_backend(device, kind, self.anchor)

    def _joined(self, works: list[AhbmWork]) -> Any:
        if self.batch is not None:
            self.batch += works
        return works[0] if len(works) == 1 else Joined(works)

    def _gather(
        self, outputs: Sequence[Tensor], tensor: Tensor, opts: Any, name: str = "all_gather", root: int = 0
    ) -> AhbmWork:
        kind, width = travel_type(tensor)
        if len(outputs) > 1:
            check_alike(name, [tensor, *outputs])
        return self._call(name, [tensor], list(outputs), kind, tensor.numel() * width, opts, root=root)

    def _reduce(self, name: str, given: Any, output: Tensor, count: int, opts: Any, root: int = 0) -> AhbmWork:
        op, factor = reduction(opts)
        kind, op = reduction_type(name, op, output)
        inputs = given if isinstance(given, list) else [given]
        is_target = name != "reduce" or self.rank() == root
        outputs = [output] if is_target else []
        return self._call(name, inputs, outputs, kind, count, opts, root, op=op, factor=factor, held=[output])

    def _split(self, tensor: Tensor, splits: Sequence[int]) -> list[int]:
        if splits:
            rows = math.prod(tensor.shape[1:])
            if len(splits) != self.size() or sum(splits) != tensor.shape[0]:
                raise InputError(
                    f"all_to_all: splits {list(splits)}: expected {self.size()} numbers that sum to {tensor.shape[0]}, "
                    f"the first dimension of {list(tensor.shape)}"
                )
            return [rows * split for split in splits]
        if tensor.numel() % self.size():
            raise InputError(f"all_to_all: {tensor.numel()} elements: expected a multiple of the {self.size()} ranks")
        return [tensor.numel() // self.size()] * self.size()

    def _exchange(
        self, outputs: list[Tensor], inputs: list[Tensor], received: list[int], sent: list[int], opts: Any
    ) -> AhbmWork:
        kind, width = travel_type(outputs[0])
        sizes = ([size * width for size in sent], [size * width for size in received])
        # A rank does not know whether all parts of other ranks have equal sizes, so each call states its sizes.
        return self._call("all_to_all", inputs, outputs, kind, 0, opts, splits=sizes)

    def _call(
        self,
        name: str,
        inputs: list[Tensor],
        outputs: list[Tensor],
        kind: str,
        count: int,
        opts: Any,
        root: int = 0,
        *,
        op: str = "",
        tag: int = 0,
        splits: tuple[list[int], list[int]] = ((), ()),  # type: ignore[assignment]
        factor: Any = None,
        held: list[Tensor] | None = None,
    ) -> AhbmWork:
        """Copies the inputs to the staging memory and posts a call. Its completion copies the outputs back."""
        rank, seconds = self.ahbm_rank, _timeout(opts, self.seconds)
        self.sequence += 1
        shown = held or outputs or inputs
        given, taken = (sum(t.numel() * t.element_size() for t in tensors) for tensors in (inputs, outputs))
        start_of_output = 0 if _is_in_place(name) else -(-given // ALIGNMENT) * ALIGNMENT
        total = max(given, start_of_output + taken)
        staging = rank.link.stage(total) if total else None
        _copy_in(staging, inputs, factor)
        device = shown[0].device if shown else None
        operator = _kineto.operator_of_thread()
        ready = rank.clock.now(device)
        rank.clock.touch(ready)
        work = AhbmWork(rank, name, shown, seconds)
        fields = {
            "rank": rank.number,
            "group": self.label,
            "members": self.members,
            "name": name,
            "dtype": kind,
            "count": count,
            "op": op,
            "root": root,
            "tag": tag,
            "splits": (tuple(splits[0]), tuple(splits[1])),
            "ready_ps": ready,
            "timeout": seconds,
            "at": _line(),
            "elements": sum(t.numel() for t in shown),
        }

        def done(answer: Any) -> None:
            if not answer.error:
                span = (answer.start_ps, answer.end_ps)
                _timeline.note_collective(name, rank.number, self.label, span, _number(device), operator)
            work.complete(answer, lambda: _copy_out(staging, outputs, start_of_output))
            if staging is not None:
                rank.link.release(staging)

        rank.link.post(fields, staging, (0, given, start_of_output, taken), done)
        return work


class _Anchor(torch._C._distributed_c10d.Backend):
    """Backend without calls. The group handles all calls itself."""

    def getBackendName(self) -> str:
        """Returns the name of the backend, `ahbm`."""
        return "ahbm"


def _number(device: torch.device | None) -> int:
    """Returns the number of the device of tensors, under which a trace shows their work; 0 for tensors of the host."""
    return 0 if device is None or device.index is None else device.index


def devices() -> list[torch.device]:
    names = dist.Backend.backend_capability["ahbm"]
    return [torch.device(name) for name in names if name == "cpu" or hasattr(torch, name)]


def _is_in_place(name: str) -> bool:
    return name in {"all_reduce", "reduce", "broadcast"}


def _copy_in(staging: Any, tensors: list[Tensor], factor: Any) -> None:
    offset = 0
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        if size:
            target = _view(staging, offset, size, tensor)
            target.copy_(on_host(tensor.detach()))
            if factor is not None:
                target.mul_(on_host(factor).to(target.dtype) if isinstance(factor, Tensor) else factor)
        offset += size


def _copy_out(staging: Any, tensors: list[Tensor], offset: int) -> None:
    with torch.no_grad():
        for tensor in tensors:
            size = tensor.numel() * tensor.element_size()
            if size:
                on_host(tensor.detach()).copy_(_view(staging, offset, size, tensor))
            offset += size


def _view(staging: Any, offset: int, size: int, tensor: Tensor) -> Tensor:
    held = torch.from_numpy(staging.bytes[offset : offset + size])
    if tensor.dtype == torch.bool or offset % tensor.element_size() == 0:
        return held.view(tensor.dtype).view(tensor.shape)
    raise AssertionError("tensors of one call have one type")


def _timeout(opts: Any, seconds: float) -> float:
    given = getattr(opts, "timeout", None)
    return given.total_seconds() if given is not None and given.total_seconds() > 0 else seconds


def listed(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _line() -> str:
    """Returns the file and line of the nearest caller outside PyTorch and this package."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(SKIPPED):
        frame = frame.f_back
    if frame is None:
        return "a backward pass" if torch._C._current_graph_task_id() != -1 else "a thread of PyTorch"
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"

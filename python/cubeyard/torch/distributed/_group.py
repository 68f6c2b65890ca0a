"""Process groups of the backend: PyTorch's calls as calls of the machine."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from cubeyard._world import numbers
from cubeyard.errors import InputError
from cubeyard.torch.distributed._alias import on_host
from cubeyard.torch.distributed._ranks import Rank
from cubeyard.torch.distributed._work import AhbmWork, Joined

__all__ = ["AhbmGroup"]

Tensor = torch.Tensor

TYPES = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.bool: "bool",
}
BITS = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.BAND: "band",
    dist.ReduceOp.BOR: "bor",
    dist.ReduceOp.BXOR: "bxor",
}
# Reductions of truth values, as PyTorch's other backends have them.
OF_BOOLS = {"sum": "bor", "max": "bor", "prod": "band", "min": "band"}
ALIGNMENT = 64
SKIPPED = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep)


class AhbmGroup(dist.ProcessGroup):
    """A process group, whose ranks are SIPs."""

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

    # ---- What PyTorch asks about a group ----

    def getBackendName(self) -> str:
        """Returns `ahbm`."""
        return "ahbm"

    def name(self) -> str:
        """Returns `ahbm`."""
        return "ahbm"

    def _get_backend_name(self) -> str:
        return "ahbm"

    def getGroupName(self) -> str:
        """Returns the name by which PyTorch knows the group."""
        return self.label

    def setGroupName(self, name: str) -> None:
        """Names the group, which its maker has named already."""
        self.label = name

    def getGroupDesc(self) -> str:
        """Returns the description of the group."""
        return self.description

    def setGroupDesc(self, description: str) -> None:
        """Describes the group."""
        self.description = description

    def _get_backend(self, device: Any) -> AhbmGroup:
        return self

    get_backend = _get_backend

    @property
    def _device_types(self) -> list[torch.device]:
        return _devices()

    @property
    def supports_splitting(self) -> bool:
        """Whether `split_group` works."""
        return True

    @property
    def supports_coalescing(self) -> bool:
        """Whether calls can be made together."""
        return True

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return self.sequence

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets how long later calls wait for others."""
        self.seconds = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def eager_connect_single_device(self, device: Any) -> None:
        """Does nothing: channels are there from the beginning."""

    def perform_nocolor_split(self, device: Any) -> None:
        """Does nothing: groups of other ranks need no call of this one."""

    def shutdown(self) -> None:
        """Gives the group up; with the last one the rank leaves its world."""
        if self.is_open:
            self.is_open = False
            self.ahbm_rank.groups -= 1
            if self.ahbm_rank.groups == 0:
                self.ahbm_rank.leave()

    def abort(self) -> None:
        """Ends the world: calls of all ranks fail."""
        self.ahbm_rank.link.lose("has aborted its process group")
        self.shutdown()

    def split_group(
        self,
        ranks: list[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Any = None,
    ) -> AhbmGroup | None:
        """Returns a group of some of the ranks of this one, or None if this rank is not among them."""
        if self.rank() not in ranks:
            return None
        members = tuple(self.members[place] for place in ranks)
        name = group_name or f"{self.label}/{'-'.join(map(str, members))}"
        group = AhbmGroup(self.ahbm_rank, name, members, self.store, timeout or timedelta(seconds=self.seconds))
        group._set_group_name(name)
        group._set_group_desc(group_desc or "undefined")
        return group

    def _register_anchor(self) -> None:
        """Gives the group a backend in C++, which PyTorch's recorder of calls asks for; versions before it have none."""
        kind = dist.ProcessGroup.BackendType.CUSTOM
        try:
            self.anchor = _Anchor(self.rank(), self.size())
        except TypeError:
            return
        self._set_default_backend(kind)
        for device in _devices():
            self._register_backend(device, kind, self.anchor)

    # ---- Collectives ----

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Any:
        """Replaces every rank's tensors by their combination."""
        return self._joined([self._reduce("all_reduce", t, t, t.numel(), opts) for t in _listed(tensors)])

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Any:
        """Replaces several tensors of every rank by their combinations."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: Any, opts: Any) -> Any:
        """Replaces the root's tensors by their combination."""
        return self._joined([self._reduce("reduce", t, t, t.numel(), opts, opts.rootRank) for t in _listed(tensors)])

    def broadcast(self, tensors: Any, opts: Any) -> Any:
        """Replaces every rank's tensors by the root's."""
        works = []
        for tensor in _listed(tensors):
            kind, width = _type(tensor)
            is_root = self.rank() == opts.rootRank
            works.append(
                self._call(
                    "broadcast",
                    [tensor] if is_root else [],
                    [] if is_root else [tensor],
                    kind,
                    tensor.numel() * width,
                    opts,
                    root=opts.rootRank,
                    held=[tensor],
                )
            )
        return self._joined(works)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Sets each list of outputs to the inputs of all ranks."""
        works = [self._gather(out, into, opts) for out, into in zip(outputs, _listed(inputs), strict=True)]
        return self._joined(works)

    allgather_coalesced = allgather

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        """Sets an output to the inputs of all ranks, one after the other."""
        _check_size("all_gather", "output", output, input.numel() * self.size())
        return self._joined([self._gather([output], input, opts)])

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        """Sets several outputs to the inputs of all ranks."""
        return self._joined([self._gather([out], into, opts) for out, into in zip(outputs, inputs, strict=True)])

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        """Sets each list of outputs of the root to the inputs of all ranks."""
        works = []
        for place, tensor in enumerate(_listed(inputs)):
            to = outputs[place] if self.rank() == opts.rootRank else []
            works.append(self._gather(to, tensor, opts, "gather", opts.rootRank))
        return self._joined(works)

    def gather_single(self, output: Tensor, input: Tensor, opts: Any) -> Any:
        """Sets the output of the root to the inputs of all ranks, one after the other."""
        to = [output] if self.rank() == opts.rootRank else []
        return self._joined([self._gather(to, input, opts, "gather", opts.rootRank)])

    gather_into_tensor = gather_single

    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        """Sets every rank's output to its part of the root's inputs."""
        works = []
        for place, tensor in enumerate(_listed(outputs)):
            kind, width = _type(tensor)
            given = list(inputs[place]) if self.rank() == opts.rootRank else []
            _check_alike("scatter", [tensor, *given])
            count = tensor.numel() * width
            works.append(self._call("scatter", given, [tensor], kind, count, opts, root=opts.rootRank))
        return self._joined(works)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Sets every rank's output to its part of the combined inputs."""
        works = []
        for out, given in zip(_listed(outputs), inputs, strict=True):
            _check_alike("reduce_scatter", [out, *given])
            works.append(self._reduce("reduce_scatter", list(given), out, out.numel(), opts))
        return self._joined(works)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        """Sets every rank's output to its part of the combined input."""
        _check_size("reduce_scatter", "input", input, output.numel() * self.size())
        return self._joined([self._reduce("reduce_scatter", input, output, output.numel(), opts)])

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        """Sets several outputs to this rank's parts of the combined inputs."""
        pairs = zip(outputs, inputs, strict=True)
        return self._joined([self._reduce("reduce_scatter", into, out, out.numel(), opts) for out, into in pairs])

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        """Sets each output to what the rank of its place has for this one."""
        sent, received = ([tensor.numel() for tensor in tensors] for tensors in (inputs, outputs))
        return self._joined([self._exchange(list(outputs), list(inputs), received, sent, opts)])

    def all_to_all_single(
        self, output: Tensor, input: Tensor, output_splits: list[int], input_splits: list[int], opts: Any = None
    ) -> Any:
        """Sets the parts of an output to what each rank has for this one."""
        sent, received = (
            self._split(tensor, splits) for tensor, splits in ((input, input_splits), (output, output_splits))
        )
        return self._joined([self._exchange([output], [input], received, sent, opts)])

    alltoall_base = all_to_all_single

    def barrier(self, opts: Any = None) -> Any:
        """Waits for all ranks, also in simulated time."""
        return self._joined([self._call("barrier", [], [], "u8", 0, opts)])

    # ---- Messages ----

    def send(self, tensors: Any, destination: int, tag: int = 0) -> Any:
        """Sends a tensor to a rank that receives it."""
        (tensor,) = _listed(tensors)
        kind, width = _type(tensor)
        return self._joined([self._call("send", [tensor], [], kind, tensor.numel() * width, None, destination, tag=tag)])

    def recv(self, tensors: Any, source: int, tag: int = 0) -> Any:
        """Receives a tensor that a rank sends."""
        (tensor,) = _listed(tensors)
        kind, width = _type(tensor)
        return self._joined([self._call("recv", [], [tensor], kind, tensor.numel() * width, None, source, tag=tag)])

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """Receives a tensor that any rank sends."""
        return self.recv(tensors, -1, tag)

    # ---- Calls that are made together ----

    def _start_coalescing(self, device: Any = None) -> None:
        self.batch = []

    def _end_coalescing(self, device: Any = None) -> Joined:
        works, self.batch = self.batch or [], None
        return Joined(works)

    start_coalescing = _start_coalescing
    end_coalescing = _end_coalescing

    # ---- How a call is made ----

    def _joined(self, works: list[AhbmWork]) -> Any:
        if self.batch is not None:
            self.batch += works
        return works[0] if len(works) == 1 else Joined(works)

    def _gather(
        self, outputs: Sequence[Tensor], tensor: Tensor, opts: Any, name: str = "all_gather", root: int = 0
    ) -> AhbmWork:
        kind, width = _type(tensor)
        if len(outputs) > 1:
            _check_alike(name, [tensor, *outputs])
        return self._call(name, [tensor], list(outputs), kind, tensor.numel() * width, opts, root=root)

    def _reduce(self, name: str, given: Any, output: Tensor, count: int, opts: Any, root: int = 0) -> AhbmWork:
        op, factor = _reduction(opts)
        if output.dtype not in TYPES:
            known = ", ".join(str(dtype) for dtype in TYPES)
            raise InputError(f"{name} of {output.dtype}: expected one of {known}")
        kind = TYPES[output.dtype]
        op = OF_BOOLS.get(op, op) if kind == "bool" else op
        if not numbers.suits(op, kind):
            raise InputError(f"{name} {op} of {output.dtype}: the reduction is not defined for this type")
        inputs = given if isinstance(given, list) else [given]
        is_target = name != "reduce" or self.rank() == root
        return self._call(
            name, inputs, [output] if is_target else [], kind, count, opts, root=root, op=op, factor=factor, held=[output]
        )

    def _split(self, tensor: Tensor, splits: Sequence[int]) -> list[int]:
        if splits:
            rows = math.prod(tensor.shape[1:])
            if len(splits) != self.size() or sum(splits) != tensor.shape[0]:
                raise InputError(
                    f"all_to_all: splits {list(splits)}: expected {self.size()} that sum to {tensor.shape[0]}, "
                    f"the first dimension of {list(tensor.shape)}"
                )
            return [rows * split for split in splits]
        if tensor.numel() % self.size():
            raise InputError(f"all_to_all: {tensor.numel()} elements: expected a multiple of {self.size()}, the ranks")
        return [tensor.numel() // self.size()] * self.size()

    def _exchange(
        self, outputs: list[Tensor], inputs: list[Tensor], received: list[int], sent: list[int], opts: Any
    ) -> AhbmWork:
        kind, width = _type(outputs[0])
        sizes = ([size * width for size in sent], [size * width for size in received])
        # A rank does not know whether the parts of others are all alike, so calls name their parts.
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
        """Copies the inputs to where the machine reads them, and makes a call; its end copies the outputs back."""
        rank, seconds = self.ahbm_rank, _timeout(opts, self.seconds)
        self.sequence += 1
        shown = held or outputs or inputs
        given, taken = (sum(t.numel() * t.element_size() for t in tensors) for tensors in (inputs, outputs))
        start_of_output = 0 if _is_in_place(name) else -(-given // ALIGNMENT) * ALIGNMENT
        total = max(given, start_of_output + taken)
        staging = rank.link.stage(total) if total else None
        _copy_in(staging, inputs, factor)
        device = shown[0].device if shown else None
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
            work.complete(answer, lambda: _copy_out(staging, outputs, start_of_output))
            if staging is not None:
                rank.link.release(staging)

        rank.link.post(fields, staging, (0, given, start_of_output, taken), done)
        return work


class _Anchor(torch._C._distributed_c10d.Backend):
    """A backend that nobody calls: the group has all calls itself."""

    def getBackendName(self) -> str:
        """Returns `ahbm`."""
        return "ahbm"


def _devices() -> list[torch.device]:
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


def _type(tensor: Tensor) -> tuple[str, int]:
    """Returns the type as which elements travel, and how many of these each has."""
    if tensor.dtype in TYPES:
        return TYPES[tensor.dtype], 1
    size = tensor.element_size()
    return (BITS[size], 1) if size in BITS else ("u64", size // 8)


def _reduction(opts: Any) -> tuple[str, Any]:
    """Returns the name of a reduction, and the factor of `PREMUL_SUM`."""
    given = dist.ReduceOp.SUM if opts is None else opts.reduceOp
    for op, name in OPS.items():
        if given == op:
            return name, None
    if given == dist.ReduceOp.PREMUL_SUM:
        factor = given.factor if hasattr(given, "factor") else given.__getstate__()[1]
        return "sum", factor
    raise InputError(f"{given}: expected one of {', '.join(str(op) for op in OPS)} and PREMUL_SUM")


def _timeout(opts: Any, seconds: float) -> float:
    given = getattr(opts, "timeout", None)
    return given.total_seconds() if given is not None and given.total_seconds() > 0 else seconds


def _listed(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _check_size(name: str, which: str, tensor: Tensor, expected: int) -> None:
    if tensor.numel() != expected:
        raise InputError(f"{name}: the {which} has {tensor.numel()} elements: expected {expected}")


def _check_alike(name: str, tensors: list[Tensor]) -> None:
    first = tensors[0]
    for tensor in tensors:
        if tensor.numel() != first.numel() or tensor.dtype != first.dtype:
            raise InputError(
                f"{name}: {tensor.dtype}{list(tensor.shape)} beside {first.dtype}{list(first.shape)}: expected tensors "
                "of one size and type"
            )


def _line() -> str:
    """Returns file and line of the caller outside of PyTorch and of this package."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(SKIPPED):
        frame = frame.f_back
    if frame is None:
        return "a backward pass" if torch._C._current_graph_task_id() != -1 else "a thread of PyTorch"
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"

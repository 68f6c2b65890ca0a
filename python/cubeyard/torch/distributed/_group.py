"""Process groups of the backend: the calls and queries of PyTorch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
from torch import Tensor

from cubeyard.torch.distributed._calls import Calls, devices, listed
from cubeyard.torch.distributed._types import check_alike, check_size, travel_type
from cubeyard.torch.distributed._work import Joined

__all__ = ["AhbmGroup"]


class AhbmGroup(Calls):
    """Process group whose ranks are SIPs."""

    # ---- Queries of PyTorch ----

    def getBackendName(self) -> str:
        """Returns the name of the backend, `ahbm`."""
        return "ahbm"

    def name(self) -> str:
        """Returns the name of the backend, `ahbm`."""
        return "ahbm"

    def _get_backend_name(self) -> str:
        return "ahbm"

    def getGroupName(self) -> str:
        """Returns PyTorch's name of the group."""
        return self.label

    def setGroupName(self, name: str) -> None:
        """Changes the name of the group."""
        self.label = name

    def getGroupDesc(self) -> str:
        """Returns the description of the group."""
        return self.description

    def setGroupDesc(self, description: str) -> None:
        """Sets the description of the group."""
        self.description = description

    def _get_backend(self, device: Any) -> AhbmGroup:
        return self

    get_backend = _get_backend

    @property
    def _device_types(self) -> list[torch.device]:
        return devices()

    @property
    def supports_splitting(self) -> bool:
        """Whether `split_group` is supported."""
        return True

    @property
    def supports_coalescing(self) -> bool:
        """Whether calls can be coalesced."""
        return True

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return self.sequence

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the timeout of later calls."""
        self.seconds = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def eager_connect_single_device(self, device: Any) -> None:
        """Does nothing, because the channels already exist."""

    def perform_nocolor_split(self, device: Any) -> None:
        """Does nothing. Groups of other ranks need no call from this rank."""

    def shutdown(self) -> None:
        """Closes the group. Closing the last group makes the rank leave its world."""
        if self.is_open:
            self.is_open = False
            self.ahbm_rank.groups -= 1
            if self.ahbm_rank.groups == 0:
                self.ahbm_rank.leave()

    def abort(self) -> None:
        """Ends the world. The calls of all ranks fail."""
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
        """Returns a group of some of this group's ranks, or None if this rank is not a member."""
        if self.rank() not in ranks:
            return None
        members = tuple(self.members[place] for place in ranks)
        name = group_name or f"{self.label}/{'-'.join(map(str, members))}"
        group = AhbmGroup(self.ahbm_rank, name, members, self.store, timeout or timedelta(seconds=self.seconds))
        group._set_group_name(name)
        group._set_group_desc(group_desc or "undefined")
        return group

    # ---- Collectives ----

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Any:
        """Replaces the tensors of every rank with their reduction."""
        return self._joined([self._reduce("all_reduce", t, t, t.numel(), opts) for t in listed(tensors)])

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Any:
        """Replaces several tensors of every rank with their reductions."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: Any, opts: Any) -> Any:
        """Replaces the root's tensors with their reduction."""
        return self._joined([self._reduce("reduce", t, t, t.numel(), opts, opts.rootRank) for t in listed(tensors)])

    def broadcast(self, tensors: Any, opts: Any) -> Any:
        """Replaces the tensors of every rank with the root's tensors."""
        works = []
        for tensor in listed(tensors):
            kind, width = travel_type(tensor)
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
        works = [self._gather(out, into, opts) for out, into in zip(outputs, listed(inputs), strict=True)]
        return self._joined(works)

    allgather_coalesced = allgather

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        """Sets the output to the concatenated inputs of all ranks."""
        check_size("all_gather", "output", output, input.numel() * self.size())
        return self._joined([self._gather([output], input, opts)])

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        """Sets several outputs to the concatenated inputs of all ranks."""
        return self._joined([self._gather([out], into, opts) for out, into in zip(outputs, inputs, strict=True)])

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        """Sets each list of outputs on the root to the inputs of all ranks."""
        works = []
        for place, tensor in enumerate(listed(inputs)):
            to = outputs[place] if self.rank() == opts.rootRank else []
            works.append(self._gather(to, tensor, opts, "gather", opts.rootRank))
        return self._joined(works)

    def gather_single(self, output: Tensor, input: Tensor, opts: Any) -> Any:
        """Sets the output on the root to the concatenated inputs of all ranks."""
        to = [output] if self.rank() == opts.rootRank else []
        return self._joined([self._gather(to, input, opts, "gather", opts.rootRank)])

    gather_into_tensor = gather_single

    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        """Sets the output of every rank to its part of the root's inputs."""
        works = []
        for place, tensor in enumerate(listed(outputs)):
            kind, width = travel_type(tensor)
            given = list(inputs[place]) if self.rank() == opts.rootRank else []
            check_alike("scatter", [tensor, *given])
            count = tensor.numel() * width
            works.append(self._call("scatter", given, [tensor], kind, count, opts, root=opts.rootRank))
        return self._joined(works)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Sets the output of every rank to its part of the reduced inputs."""
        works = []
        for out, given in zip(listed(outputs), inputs, strict=True):
            check_alike("reduce_scatter", [out, *given])
            works.append(self._reduce("reduce_scatter", list(given), out, out.numel(), opts))
        return self._joined(works)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        """Sets the output of every rank to its part of the reduced input."""
        check_size("reduce_scatter", "input", input, output.numel() * self.size())
        return self._joined([self._reduce("reduce_scatter", input, output, output.numel(), opts)])

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        """Sets several outputs to this rank's parts of the reduced inputs."""
        pairs = zip(outputs, inputs, strict=True)
        return self._joined([self._reduce("reduce_scatter", into, out, out.numel(), opts) for out, into in pairs])

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        """Sets output `i` to the part that rank `i` sends to this rank."""
        sent, received = ([tensor.numel() for tensor in tensors] for tensors in (inputs, outputs))
        return self._joined([self._exchange(list(outputs), list(inputs), received, sent, opts)])

    def all_to_all_single(
        self, output: Tensor, input: Tensor, output_splits: list[int], input_splits: list[int], opts: Any = None
    ) -> Any:
        """Sets the parts of an output to the parts that the ranks send to this rank."""
        sent, received = (
            self._split(tensor, splits) for tensor, splits in ((input, input_splits), (output, output_splits))
        )
        return self._joined([self._exchange([output], [input], received, sent, opts)])

    alltoall_base = all_to_all_single

    def barrier(self, opts: Any = None) -> Any:
        """Waits for all ranks, in simulated time as well."""
        return self._joined([self._call("barrier", [], [], "u8", 0, opts)])

    # ---- Messages ----

    def send(self, tensors: Any, destination: int, tag: int = 0) -> Any:
        """Sends a tensor to a rank, which must receive it."""
        (tensor,) = listed(tensors)
        kind, width = travel_type(tensor)
        count = tensor.numel() * width
        return self._joined([self._call("send", [tensor], [], kind, count, None, destination, tag=tag)])

    def recv(self, tensors: Any, source: int, tag: int = 0) -> Any:
        """Receives a tensor from a rank."""
        (tensor,) = listed(tensors)
        kind, width = travel_type(tensor)
        count = tensor.numel() * width
        return self._joined([self._call("recv", [], [tensor], kind, count, None, source, tag=tag)])

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """Receives a tensor from any rank."""
        return self.recv(tensors, -1, tag)

    # ---- Coalesced calls ----

    def _start_coalescing(self, device: Any = None) -> None:
        self.batch = []

    def _end_coalescing(self, device: Any = None) -> Joined:
        works, self.batch = self.batch or [], None
        return Joined(works)

    start_coalescing = _start_coalescing
    end_coalescing = _end_coalescing

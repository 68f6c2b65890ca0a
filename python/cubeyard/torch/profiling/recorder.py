"""Recorder of a run: takes the time and the memory of each operator that PyTorch dispatches."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, UnsupportedOperatorException
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from cubeyard import _native
from cubeyard.errors import InputError, OutOfMemory
from cubeyard.torch import _costs, _loader
from cubeyard.torch._timeline import TimelineSpan
from cubeyard.torch.operators import Cost, cost
from cubeyard.torch.profiling.arguments import arguments_of, device_tensors, dtypes_of, named, shapes_of, tensors_of
from cubeyard.torch.profiling.charges import Links, copy_cost, launched
from cubeyard.torch.profiling.described import described, is_free
from cubeyard.torch.profiling.memory import DataMemory, Memory, ShapeMemory, shortage
from cubeyard.torch.profiling.modules import Modules
from cubeyard.torch.profiling.records import Operation, Site

__all__ = ["Recorder"]

_ASKED = {torch.ops.prim.device.default, torch.ops.prim.layout.default}
"""Questions about a tensor, which do no work."""
_COPY = torch.ops.aten.copy_.default
"""The copy that all others end in."""
_WHOLE = {
    torch.ops.aten.convolution.default, torch.ops.aten._convolution.default, torch.ops.aten.convolution_backward.default,
    torch.ops.aten._grouped_mm.default, torch.ops.aten.repeat.default,
}  # fmt: skip
"""Operators without a key of the CPU that are not computed by others here: without data, PyTorch knows their results only."""
_LIFTS = {torch.ops.aten.lift_fresh.default, torch.ops.aten.lift.default, torch.ops.aten.lift_fresh_copy.default}
"""Operators by which `torch.tensor` makes its tensor, from one with data, into one without."""


@dataclass
class _Call:
    """Operator that is running."""

    name: str
    site: Site
    arguments: tuple[Any, ...]
    given: list[torch.Tensor]
    """Tensors of the device among the arguments."""
    has_copied: bool = False
    """Whether a copy over PCIe took time within it. The operator then takes none."""

    def text(self) -> tuple[str, str]:
        """Returns the shapes and the types of its tensors."""
        return shapes_of(self.arguments), dtypes_of(self.given)


class _Running(threading.local):
    """Operator that the program has called in this thread. It may call others."""

    def __init__(self) -> None:
        self.call: _Call | None = None


class Recorder(TorchDispatchMode):
    """Mode that records the operators of a block.

    Args:
        data: Whether tensors have data.
    """

    supports_higher_order_operators = True

    def __init__(self, data: bool, capacity: int) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.memory: Memory = DataMemory(self.now) if data else ShapeMemory(self.now, capacity)
        self.modules = Modules(self._seen)
        self.stepped: Callable[[], None] = lambda: None
        self._data = data
        self._thread = _Running()
        self._links = Links()
        self._expands: dict[Any, Any] = {}
        self._calls: dict[Any, Any] = {}
        self._handles: list[Any] = []

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled functions run as they do without the recorder; their kernels are on the timeline."""
        return True

    def now(self) -> tuple[str, Site]:
        """Returns the name and the place of the operator that is running in this thread."""
        call = self._thread.call
        return ("", self.modules.site()) if call is None else (call.name, call.site)

    def begin(self) -> None:
        """Registers the hooks of optimizers, and begins to track modules and memory."""
        self.modules.begin()
        self.memory.begin()
        self._handles = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
            register_module_parameter_registration_hook(lambda _module, _name, parameter: self.mark_parameter(parameter)),
        ]

    def end(self) -> None:
        """Removes the hooks, and ends the tracking."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.modules.end()
        self.memory.end()

    def noted(self, span: TimelineSpan) -> None:
        """Adds other work on the timeline: launches, collectives and sleeps."""
        if span.kind not in ("operator", "copy"):
            self._submitted(span, None)

    def charged(self, number: int, device: int, stream: int, begin: int, end: int, moved: int) -> None:
        """Adds an operator or copy of tensors with data, which the shim has given its time."""
        name, spent = _costs.counted(number)
        kind = "copy" if spent is None else "operator"
        span = TimelineSpan(kind, name, f"{_loader.name}:{device} stream {stream}", begin, end)
        self._submitted(span, copy_cost(moved, end - begin) if spent is None else spent)

    def _submitted(self, span: TimelineSpan, spent: Cost | None) -> None:
        call = self._thread.call
        site, text = (self.modules.site(), ("", "")) if call is None else (call.site, call.text())
        self._add(Operation(span.name, span.kind, span.track, span.begin_ps, span.end_ps, site, text[0], spent, text[1]))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _ASKED:
            return func(*args, **kwargs)
        key = _known(self._expands, func, _expanded)
        if key is not None:
            return self._by_parts(self._expands, func, key, args, kwargs)
        outer, name = self._thread.call, _name(func)
        arguments = arguments_of(func, args, kwargs)
        given = device_tensors(arguments)
        call = outer or _Call(name, self.modules.site(), arguments, given)
        if not self._data and func not in _LIFTS:
            _check(name, call.site, given)
        self._thread.call = call
        try:
            results = self._computed(func, args, kwargs)
            self._record(func, arguments, given, results, call if outer is None else None)
        except DataDependentOutputException as error:
            raise _needs_data(name, call.site) from error
        except UnsupportedOperatorException as error:
            raise _needs_shapes(name, call.site) from error
        finally:
            self._thread.call = outer
        return results

    def _computed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Computes an operator. Without data, one that calls others takes the memory and the copies of those."""
        if self._data:
            return func(*args, **kwargs)
        key = _known(self._calls, func, _composed)
        # PyTorch computes tensors whose values it knows on the device, too. Only the recorder adds their time.
        former = _native.torch_is_timed()
        _native.torch_set_timed(False)
        try:
            return func(*args, **kwargs) if key is None else self._by_parts(self._calls, func, key, args, kwargs)
        finally:
            _native.torch_set_timed(former)

    def _by_parts(self, known: dict[Any, Any], func: Any, key: Any, args: Any, kwargs: Any) -> Any:
        """Computes an operator by others."""
        with self:
            results = func._op_dk(key, *args, **kwargs)
        if any(tensor.device.type == "meta" for tensor in tensors_of(results)):
            # Its kernel makes the result from the parts of a tensor, without those of a tensor without data.
            known[func] = None
            return self.__torch_dispatch__(func, (), args, kwargs) if known is self._expands else func(*args, **kwargs)
        return results

    def _record(self, func: Any, arguments: tuple[Any, ...], given: list[torch.Tensor], results: Any, call: _Call | None) -> None:
        """Adds the memory of an operator and, without data, its time. `call` is that of the program; None within another."""
        made = device_tensors(results)
        held = given + made
        if not held:
            return
        device = held[0].device.index or 0
        try:
            self.memory.after(made)
        except OutOfMemory as error:
            raise torch.OutOfMemoryError(shortage(error, self.memory.logs[device])) from error
        if self._data:
            return
        if func is _COPY:
            self._copied(arguments)
        if call is not None and not call.has_copied and not is_free(func):
            found = cost(call.name, *described(func, arguments, results))
            if found is not None:
                self._submitted(launched(device, call.name, found.ps), found)

    def _copied(self, arguments: tuple[Any, ...]) -> None:
        """Adds a copy between the host and a device, or between devices, of tensors without data."""
        target, source = arguments[:2]
        copied = self._links.copy(source, target, waits=not named(_COPY, arguments, "non_blocking"))
        if copied is not None and self._thread.call is not None:
            self._thread.call.has_copied = True
            self._submitted(copied[0], copy_cost(copied[1], copied[0].end_ps - copied[0].begin_ps))

    def _add(self, operation: Operation) -> None:
        with self.memory.lock:
            self.operations.append(operation)

    def mark_parameter(self, parameter: Any) -> None:
        """Notes that a tensor is a parameter."""
        self._mark(parameter, "parameter")

    def _seen(self, module: torch.nn.Module) -> None:
        for parameter in module._parameters.values():
            self._mark(parameter, "parameter")
        for buffer in module._buffers.values():
            self._mark(buffer, "buffer")

    def _before_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self.modules.optimizing += 1
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._mark(parameter, "parameter")
                self._mark(parameter.grad, "gradient")

    def _after_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self.modules.optimizing -= 1
        for state in optimizer.state.values():
            for value in state.values() if isinstance(state, dict) else ():
                self._mark(value, "optimizer state")
        self.stepped()

    def _mark(self, value: Any, kind: str) -> None:
        if isinstance(value, torch.Tensor) and value.device.type == _loader.name:
            self.memory.mark(value, kind)


@functools.cache
def _name(func: Any) -> str:
    """Returns the name of an operator as `cost` expects it.

    >>> _name(torch.ops.aten.add.Tensor)
    'aten::add.Tensor'
    """
    schema = getattr(func, "_schema", None)
    if schema is None:
        return str(func)
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def _known(answers: dict[Any, Any], func: Any, ask: Callable[[Any], Any]) -> Any:
    """Returns the answer about an operator, which is asked for once."""
    if func not in answers:
        answers[func] = ask(func)
    return answers[func]


def _expanded(func: Any) -> Any:
    """Returns the key under which others stand for an operator; None if it is one operation of the device."""
    if not isinstance(func, torch._ops.OpOverload) or func.is_view or _has(func, "PrivateUse1"):
        return None
    return _composite(func)


def _composed(func: Any) -> Any:
    """Returns the key under which the device computes one operation by others; None if it has a kernel of its own."""
    if not isinstance(func, torch._ops.OpOverload) or func.is_view or func in {_COPY, *_WHOLE} or _has(func, "CPU"):
        return None
    return _composite(func)


def _composite(func: Any) -> Any:
    keys = [torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.CompositeExplicitAutograd]
    return next((key for key in keys if _has(func, key)), None)


def _has(func: Any, key: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key))


def _check(name: str, site: Site, tensors: list[torch.Tensor]) -> None:
    """Raises InputError for a tensor of the device that has data."""
    for tensor in tensors:
        if not isinstance(tensor, FakeTensor):
            place = f"{site.line}: " if site.line else ""
            raise InputError(
                f"{place}{name} has a tensor of {tuple(tensor.shape)} with data, which was made outside of "
                "simulate(data=False); make it inside the block, or use simulate(data=True)"
            )


def _needs_data(name: str, site: Site) -> InputError:
    place = f"{site.line}: " if site.line else ""
    return InputError(
        f"{place}{name} needs the value of a tensor, which a run without data does not have; "
        "use simulate(data=True), or leave this line out"
    )


def _needs_shapes(name: str, site: Site) -> InputError:
    place = f"{site.line}: " if site.line else ""
    return InputError(
        f"{place}{name} has no function for the shapes of its results (torch.library.register_fake), which a run without "
        "data needs; use simulate(data=True)"
    )

"""Modules that are running, in forward and in backward.

In forward, calls of all modules keep a stack for each thread. Every operator of the forward has created its node of the
autograd graph when it is dispatched, and nodes are numbered. So the number of the node that runs in backward gives the
module and the line of the forward. Sums of a parameter's gradient come from the module that has used the parameter.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from cubeyard.torch.profiling.records import Site
from cubeyard.torch.profiling.sites import Lines

__all__ = ["Modules"]


class _Thread(threading.local):
    """Modules that are running in this thread, each with the backward node that called it, if any."""

    def __init__(self) -> None:
        self.paths: list[tuple[tuple[str, ...], Any]] = []
        self.modules: list[torch.nn.Module] = []
        self.last = Site()


class Modules:
    """Tracker of the modules that are running. It is active between `begin` and `end`.

    Args:
        seen: Called with each module before its forward.
    """

    def __init__(self, seen: Callable[[torch.nn.Module], None]) -> None:
        self._seen = seen
        self._lines = Lines()
        self._thread = _Thread()
        self._nodes: dict[int, Site] = {}
        self._names: weakref.WeakKeyDictionary[torch.nn.Module, dict[int, str]] = weakref.WeakKeyDictionary()
        self._parameters = WeakIdKeyDictionary()
        self._former: Any = None
        self.optimizing = 0

    def begin(self) -> None:
        """Begins to track calls of modules.

        Hooks would not do: graphs of `torch.compile` are guarded by them, so each run would compile its models again.
        """
        former = self._former = torch.nn.Module.__call__

        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            # A graph that is compiled in the run keeps this function.
            if torch.compiler.is_compiling() or self._former is None:
                return former(module, *args, **kwargs)
            self._enter(module)
            try:
                return former(module, *args, **kwargs)
            finally:
                self._leave(module)

        torch.nn.Module.__call__ = call

    def end(self) -> None:
        """Ends the tracking."""
        torch.nn.Module.__call__ = self._former
        self._former = None

    def site(self) -> Site:
        """Returns the place of the operator that is being dispatched in this thread."""
        node = torch._C._current_autograd_node()
        running = self._thread.paths
        if node is not None and (not running or running[-1][1] is None):
            return self._of_node(node)
        path = running[-1][0] if running else ()
        phase = "backward" if node is not None else "optimizer" if self.optimizing else "forward"
        site = Site(path, self._lines.current(), phase)
        if node is None:
            # Nodes of other threads, as in a recomputation, have numbers of their own and are not kept.
            self._nodes.setdefault(torch._C._autograd._get_sequence_nr() - 1, site)
        return site

    def _of_node(self, node: Any) -> Site:
        """Returns the place of the forward whose backward is running."""
        variable = getattr(node, "variable", None)
        if variable is not None and variable in self._parameters:
            return Site(self._parameters[variable], self._thread.last.line, "backward")
        found = self._nodes.get(node._sequence_nr())
        if found is not None:
            self._thread.last = Site(found.modules, found.line, "backward")
        return Site(self._thread.last.modules, self._thread.last.line, "backward")

    def _enter(self, module: torch.nn.Module) -> None:
        running = self._thread
        parent = running.modules[-1] if running.modules else None
        path = (*(running.paths[-1][0] if running.paths else ()), self._name(parent, module))
        for parameter in module._parameters.values():
            if parameter is not None:
                self._parameters.setdefault(parameter, path)
        self._seen(module)
        running.modules.append(module)
        running.paths.append((path, torch._C._current_autograd_node()))

    def _leave(self, module: torch.nn.Module) -> None:
        running = self._thread
        if running.modules and running.modules[-1] is module:
            running.modules.pop()
            running.paths.pop()

    def _name(self, parent: torch.nn.Module | None, module: torch.nn.Module) -> str:
        """Returns the name of a module in its parent; the name of its class for one that is not there."""
        if parent is None:
            return type(module).__name__
        if parent not in self._names:
            self._names[parent] = {id(child): name for name, child in parent.named_modules() if name}
        return self._names[parent].get(id(module), type(module).__name__)

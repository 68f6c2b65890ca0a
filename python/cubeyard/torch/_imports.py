"""Hooks that run after a PyTorch module is loaded, for modules that `import torch` must not load."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Action = Callable[[ModuleType], None]


def after(name: str, action: Action) -> None:
    """Calls a function with a module: at once if the module is loaded, else after its import.

    Args:
        name: Full name of the module.
        action: The function. Its argument is the executed module.
    """
    if loaded := sys.modules.get(name):
        action(loaded)
    else:
        sys.meta_path.insert(0, _Finder(name, action))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module as Python's file finder does, with a loader that calls the function afterwards."""

    def __init__(self, name: str, action: Action) -> None:
        self.name, self.action = name, action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec


class _Loader(importlib.abc.Loader):
    """Loader that calls the function after executing the module."""

    def __init__(self, loader: Any, finder: _Finder) -> None:
        self.loader, self.finder = loader, finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        self.finder.action(module)

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the wrapped loader, such as the source."""
        return getattr(self.loader, name)

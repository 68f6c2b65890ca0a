"""Ray as an executor."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from cubeyard.errors import CubeyardError

__all__ = ["RayExecutor"]


class RayExecutor(Executor):
    """Runs calls as tasks of Ray: on the cluster to which `ray.init` has connected, else on one of this host.

    A task whose worker dies is tried again by Ray; its exception is raised when Ray gives up.

    Args:
        retries: Number of times that a task is tried again.

    Raises:
        CubeyardError: Ray is not installed.
    """

    def __init__(self, retries: int = 3) -> None:
        try:
            self._ray = importlib.import_module("ray")
        except ImportError as error:
            raise CubeyardError("RayExecutor needs Ray: pip install 'cubeyard[ray]'") from error
        self._starts = not self._ray.is_initialized()
        if self._starts:
            self._ray.init(log_to_driver=False)
        self._retries = retries

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Submits a call as a task."""
        task = self._ray.remote(function).options(max_retries=self._retries)
        future: Future[Any] = task.remote(*arguments, **named).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends Ray, if this executor has started it."""
        if self._starts:
            self._ray.shutdown()

"""Posted calls and their completion."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from cubeyard.collectives.world.machine import Answer
from cubeyard.errors import DistributedError
from cubeyard.torch.distributed._ranks import Rank

__all__ = ["AhbmWork", "Joined"]


class _Future(torch.futures.Future):
    """Future whose `wait` joins the rank's clock."""

    work: Any = None

    def wait(self) -> Any:
        found = super().wait()
        self.work.join()
        return found


class AhbmWork(dist.Work):
    """Posted call. A thread completes it when the machine has answered."""

    def __init__(self, rank: Rank, name: str, outputs: list[Any], timeout: float) -> None:
        super().__init__()
        self.rank = rank
        self.name = name
        self.outputs = outputs
        self.seconds = timeout
        self.device = outputs[0].device if outputs else torch.device("cpu")
        self.done = threading.Event()
        self.error: Exception | None = None
        self.answer = Answer()
        self.future: _Future | None = None
        self.lock = threading.Lock()

    def complete(self, answer: Answer, take: Callable[[], None]) -> None:
        """Records the outcome. Called once, on any thread."""
        try:
            if answer.error:
                raise dist.DistBackendError(f"ahbm: {self.name}: {answer.error}")
            take()
        except Exception as error:
            self.error = error
        self.answer = answer
        with self.lock:
            self.done.set()
            future = self.future
        if future is not None:
            self._settle(future)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until every participating rank has made the call and it is done. Joins the rank's clock."""
        self._await(timeout)
        self.join()
        return True

    def _await(self, timeout: timedelta | None = None) -> None:
        seconds = timeout.total_seconds() if timeout else 0.0
        try:
            self.rank.link.wait(self.done, seconds or self.seconds, self.name)
        except DistributedError as error:
            raise dist.DistBackendError(f"ahbm: {error}") from None
        if self.error is not None:
            raise self.error

    def join(self) -> None:
        """Delays the rank's later work until the end of the call."""
        self.rank.clock.join(self.answer.end_ps, self.device)

    def is_completed(self) -> bool:
        """Returns whether the call has succeeded or failed."""
        return self.done.is_set()

    def is_success(self) -> bool:
        """Returns whether the call has succeeded."""
        return self.done.is_set() and self.error is None

    def exception(self) -> Exception | None:
        """Returns the error, or None."""
        return self.error

    def result(self) -> list[Any]:
        """Returns the written tensors."""
        return self.outputs

    def source_rank(self) -> int:
        """Returns the group rank of the sender of a received message."""
        return self.answer.source

    def _source_rank(self) -> int:
        return self.answer.source

    def synchronize(self) -> None:
        """Waits for the call."""
        self.wait()

    def get_future(self) -> torch.futures.Future[Any]:
        """Returns a future of the tensors. If made in a backward pass, the end of the pass joins the rank's clock."""
        with self.lock:
            if self.future is None:
                self.future = _Future()
                self.future.work = self
                is_done = self.done.is_set()
            else:
                return self.future
        if is_done:
            self._settle(self.future)
        if torch._C._current_graph_task_id() != -1:
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)
        return self.future

    def _settle(self, future: _Future) -> None:
        if self.error is not None:
            future.set_exception(self.error)
        else:
            future.set_result(self.outputs)

    def _end_backward(self) -> None:
        self.done.wait()
        if self.error is None:
            self.join()


class Joined(dist.Work):
    """Several calls to wait for together."""

    def __init__(self, works: list[AhbmWork]) -> None:
        super().__init__()
        self.works = works

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for all calls."""
        return all([work.wait(timeout) for work in self.works])

    def is_completed(self) -> bool:
        """Returns whether all calls are done."""
        return all(work.is_completed() for work in self.works)

    def is_success(self) -> bool:
        """Returns whether all calls have succeeded."""
        return all(work.is_success() for work in self.works)

    def exception(self) -> Exception | None:
        """Returns the first error, or None."""
        return next((work.error for work in self.works if work.error is not None), None)

    def result(self) -> list[Any]:
        """Returns the tensors of all calls."""
        return [tensor for work in self.works for tensor in work.outputs]

    def synchronize(self) -> None:
        """Waits for all calls."""
        self.wait()

    def get_future(self) -> torch.futures.Future[Any]:
        """Returns a future of the tensors of all calls."""
        if not self.works:
            future: torch.futures.Future[Any] = torch.futures.Future()
            future.set_result([])
            return future
        futures = [work.get_future() for work in self.works]
        return torch.futures.collect_all(futures).then(lambda _: self.result())

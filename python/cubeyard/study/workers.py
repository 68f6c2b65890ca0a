"""Executors of sweeps, with recovery from dead workers."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cubeyard._base.progress import tqdm
from cubeyard.errors import CubeyardError, InputError

if TYPE_CHECKING:
    from cubeyard.study.sweep import Job

__all__ = ["RayExecutor", "Workers"]

WINDOW = 1024
"""Maximum number of configurations submitted to an executor at a time."""

TRIES = 2
"""Number of broken pools in which a configuration may have been running before it is run alone."""

DIED = "BrokenProcessPool: the worker process died every time it ran this configuration"


def perform(job: Job) -> str:
    """Runs a configuration on a worker."""
    return job.run()


def _ready() -> None:
    """Does nothing. Its completion shows that a worker has started."""


def _end_with_parent() -> None:
    """Ends this worker when its parent process is gone, for any reason."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Workers:
    """Runs configurations on an executor and yields their records in order of completion."""

    def __init__(self, executor: Executor | None, count: int, told: Callable[[int], None]) -> None:
        self._given, self._count, self._told = executor, count, told
        self._own: ProcessPoolExecutor | None = None

    @staticmethod
    def of(
        executor: Executor | None,
        workers: int | None,
        progress: bool | Callable[[int, int], None] | None,
        wanted: int,
    ) -> Workers:
        """Makes workers on an executor, or on local processes without one.

        Raises:
            InputError: The executor has no `submit`, or the number of workers is less than 1.
        """
        if executor is not None and not hasattr(executor, "submit"):
            raise InputError(f"executor={executor!r}: expected an executor of concurrent.futures")
        if workers is not None and (not isinstance(workers, int) or workers < 1):
            raise InputError(f"workers={workers!r}: expected a whole number, 1 or more")
        return Workers(executor, workers or _cores(), _teller(progress, wanted))

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._own is not None:
            self._own.shutdown(wait=error is None, cancel_futures=True)
        self._told(-1)

    def each(self, jobs: Iterable[Job]) -> Iterator[str]:
        """Yields the record of each configuration as it completes. Reports progress after the caller has taken it."""
        rest = {job.key: job for job in jobs}
        broken = dict.fromkeys(rest, 0)
        while rest:
            suspect = next((job for key, job in rest.items() if broken[key] >= TRIES), None)
            lost: list[tuple[Job, str]] = []
            for key, line in self._batch([suspect] if suspect else list(rest.values()), lost):
                del rest[key]
                yield line
                self._told(1)
            for job, _ in lost:
                broken[job.key] += 1
            if suspect and lost:
                # It ran alone, so it is the cause of the worker's death.
                del rest[suspect.key]
                yield suspect.failed(lost[0][1])
                self._told(1)

    def _batch(self, jobs: Sequence[Job], lost: list[tuple[Job, str]]) -> Iterator[tuple[str, str]]:
        """Runs configurations until all are done or the pool breaks. `lost` receives those without a record, with the reason."""
        pool, waiting = self._pool(), deque(jobs)
        window = WINDOW if self._given is not None else 2 * self._count
        under_way: dict[Future[str], Job] = {}
        while waiting or under_way:
            try:
                while waiting and len(under_way) < window:
                    under_way[pool.submit(perform, waiting[0])] = waiting[0]
                    waiting.popleft()
            except BrokenExecutor as error:
                self._renew(error)
                lost += [(job, DIED) for job in under_way.values()]
                return
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                job = under_way.pop(future)
                line, reason = self._outcome(job, future)
                if line is None:
                    lost.append((job, reason))
                else:
                    yield job.key, line

    def _outcome(self, job: Job, future: Future[str]) -> tuple[str | None, str]:
        """Returns the record of a configuration, or None and the reason for running it again."""
        try:
            return future.result(), ""
        except BrokenExecutor as error:
            self._renew(error)
            return None, DIED
        except Exception as error:
            # A configuration never raises, so the error comes from the executor. Dask's KilledWorker is final. Other errors
            # occur when a worker dies while its results are fetched.
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            return (job.failed(reason) if type(error).__name__ == "KilledWorker" else None), reason

    def _renew(self, error: BrokenExecutor) -> None:
        """Drops a pool that broke.

        Raises:
            CubeyardError: The caller's own executor broke.
        """
        if self._given is not None:
            text = "the executor broke, e.g. because a worker was killed; records are kept; repeat the call to continue"
            raise CubeyardError(f"executor: {text}: {error}") from error
        self._own = None

    def _pool(self) -> Executor:
        if self._given is not None:
            return self._given
        if self._own is None:
            # Spawned processes inherit no lock of this process.
            spawn = multiprocessing.get_context("spawn")
            self._own = ProcessPoolExecutor(self._count, mp_context=spawn, initializer=_end_with_parent)
            try:
                self._own.submit(_ready).result()
            except BrokenExecutor as error:
                help = "a script that sweeps needs `if __name__ == \"__main__\":` around the call"
                raise CubeyardError(f"worker processes cannot start; {help}") from error
        return self._own


def _cores() -> int:
    """Returns the number of cores available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _teller(wanted: bool | Callable[[int, int], None] | None, total: int) -> Callable[[int], None]:
    """Returns a progress callback that takes the number of new results, or -1 at the end."""
    if callable(wanted):
        return _counted(wanted, total)
    make = tqdm(wanted)
    if make is None:
        return lambda count: None
    bar = make(total=total, unit="run")
    return lambda count: bar.close() if count < 0 else bar.update(count)


def _counted(told: Callable[[int, int], None], total: int) -> Callable[[int], None]:
    done = 0

    def count(more: int) -> None:
        nonlocal done
        if more > 0:
            done += more
            told(done, total)

    return count


class RayExecutor(Executor):
    """Executor that runs calls as Ray tasks, on the cluster that `ray.init` has connected to, or else on this host.

    Ray retries a task whose worker dies. When Ray gives up, the task's future raises the exception.

    Args:
        retries: Maximum number of retries per task.

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
        """Submits a call as a Ray task."""
        task = self._ray.remote(function).options(max_retries=self._retries)
        future: Future[Any] = task.remote(*arguments, **named).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shuts Ray down, if this executor has started it."""
        if self._starts:
            self._ray.shutdown()

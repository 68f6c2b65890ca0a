"""Progress of long calls, shown by tqdm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cubeyard.errors import CubeyardError

__all__ = ["Progress", "shown"]

Progress = Callable[[int, int, str], None]
"""Called with the number of parts that are done, of all parts, and the name of the next."""


@contextmanager
def shown(progress: bool) -> Iterator[Progress | None]:
    """Gives a callback that moves a bar of tqdm, or None if `progress` is false.

    Raises:
        CubeyardError: tqdm is not installed.
    """
    if not progress:
        yield None
        return
    with _bar() as bar:

        def move(done: int, of: int, name: str) -> None:
            bar.total = of
            bar.set_postfix_str(name, refresh=False)
            bar.update(done - bar.n)

        yield move
        bar.update((bar.total or 0) - bar.n)


def _bar() -> Any:
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise CubeyardError("progress=True needs tqdm: pip install tqdm") from error
    return tqdm()

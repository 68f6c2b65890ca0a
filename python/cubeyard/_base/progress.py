"""Progress bars for long calls, drawn by tqdm."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cubeyard.errors import CubeyardError

__all__ = ["Progress", "shown", "tqdm"]

Progress = Callable[[int, int, str], None]
"""Callback that receives the number of finished parts, the total, and the name of the next part."""


@contextmanager
def shown(progress: bool) -> Iterator[Progress | None]:
    """Yields a callback that advances a tqdm bar, or None if `progress` is false.

    Raises:
        CubeyardError: tqdm is not installed.
    """
    make = tqdm(bool(progress))
    if make is None:
        yield None
        return
    with make() as bar:

        def move(done: int, of: int, name: str) -> None:
            bar.total = of
            bar.set_postfix_str(name, refresh=False)
            bar.update(done - bar.n)

        yield move
        bar.update((bar.total or 0) - bar.n)


def tqdm(wanted: bool | None) -> Any:
    """Returns the tqdm class, or None if no bar is wanted.

    Args:
        wanted: Whether to show a bar. With None, one is shown if standard error is a terminal and tqdm is installed.

    Raises:
        CubeyardError: A bar is wanted, but tqdm is not installed.
    """
    if wanted is False or (wanted is None and not (sys.stderr is not None and sys.stderr.isatty())):
        return None
    try:
        return importlib.import_module("tqdm.auto").tqdm
    except ImportError as error:
        if wanted:
            raise CubeyardError("progress=True needs tqdm: pip install tqdm") from error
        return None

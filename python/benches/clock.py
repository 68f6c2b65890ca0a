"""Times of the processor, which a busy machine disturbs less than those of a clock on the wall."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def least(act: Callable[[], Any], times: int = 7) -> float:
    """Returns the least of several durations, in seconds."""
    durations = []
    for _ in range(times):
        start = time.process_time()
        act()
        durations.append(time.process_time() - start)
    return min(durations)

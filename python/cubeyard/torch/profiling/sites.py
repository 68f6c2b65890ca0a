"""Lines of the user's program: the innermost frame that is not PyTorch's or this package's."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import CodeType, FrameType

import torch

__all__ = ["Lines"]

_PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep
_TORCH = str(Path(torch.__file__).resolve().parent) + os.sep
_STANDARD = str(Path(os.__file__).resolve().parent) + os.sep
_SITE = os.sep + "site-packages" + os.sep
_TRITON = f"{_SITE}triton{os.sep}"


def _generated() -> str:
    """Returns the folder of the code that `torch.compile` generates."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return os.path.realpath(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or default_cache_dir())


class Lines:
    """Finder of the line that an operation comes from. Whether a function counts is decided once for each."""

    def __init__(self) -> None:
        self._files: dict[CodeType, str | None] = {}
        self._left_out = (_TORCH, _PACKAGE, _generated(), "<frozen")

    def current(self) -> str:
        """Returns the innermost line of the model's or the user's code as `file:line`; empty if there is none."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            name = self._files[code] if code in self._files else self._file(code)
            if name is not None:
                return f"{name}:{frame.f_lineno}"
            frame = frame.f_back
        return ""

    def _file(self, code: CodeType) -> str | None:
        """Returns the short name of a function's file, or None for functions that are not the user's."""
        path = code.co_filename
        if not path.startswith("<"):
            # An environment that is reached through a link has its files under another name.
            path = os.path.realpath(path)
        self._files[code] = name = None if path.startswith(self._left_out) else _short(path)
        return name


def _short(path: str) -> str | None:
    """Returns the name of a file of the user or of a model; None for Triton and the standard library.

    >>> _short("/home/user/model.py"), _short("<string>"), _short(os.__file__)
    ('model.py', '<string>', None)
    """
    if _TRITON in path or (path.startswith(_STANDARD) and _SITE not in path):
        return None
    return Path(path).name if not path.startswith("<") else path

"""Licences of the libraries linked into the package; `python -m cubeyard.licences` prints them."""

from __future__ import annotations

from cubeyard import _native

__all__ = ["text"]


def text() -> str:
    """Returns the names, versions and licences of all linked libraries.

    >>> "pyo3 " in text()
    True
    """
    return _native.licences()


if __name__ == "__main__":
    print(text(), end="")

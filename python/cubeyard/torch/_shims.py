"""Shims as files: the seal at the end of each, and the shims that the package includes.

A seal names the shim and has a digest, so that a damaged file, or one under the name of another, is exposed before it is
loaded. A wheel may include one shim for each minor version of PyTorch: patch releases keep the ABI, and a shim does not use
Python's.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from cubeyard.errors import TorchDeviceError

SHIPPED = Path(__file__).parent / "shims"
"""Folder of the shims included in the package."""

SEAL = b"cubeyard shim "
"""Marker between a shim's library and its seal. Loaders ignore the bytes after the library."""

_RELEASE = re.compile(r"\d+\.\d+\.\d+(\+\w[\w.]*)?")
"""Versions of PyTorch that are no development builds: "2.15.0+cu130", but not "2.15.0a0+git1234"."""

_NAME = re.compile(r"torch-(?P<minor>\d+\.\d+)-(?P<machine>\w+)-cxx11abi(?P<abi>[01])-(?P<fingerprint>[0-9a-f]+)\.so")


@dataclass(frozen=True)
class Label:
    """Properties of PyTorch, the computer and the sources for which a shim is compiled."""

    minor: str
    """Version of PyTorch without the patch number, such as "2.15"."""
    machine: str
    """Processor architecture, such as "x86_64"."""
    cxx11_abi: bool
    """Whether PyTorch was compiled with the new ABI of the C++ library."""
    fingerprint: str
    """Hash of all inputs of the compilation apart from PyTorch."""

    @property
    def name(self) -> str:
        """File name of the shim in a package."""
        return f"torch-{self.minor}-{self.machine}-cxx11abi{int(self.cxx11_abi)}-{self.fingerprint}.so"

    @staticmethod
    def parse(name: str) -> Label | None:
        """Returns the label with a file name, or `None` for the name of another file."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        return Label(found["minor"], found["machine"], found["abi"] == "1", found["fingerprint"])


def seal(library: Path, label: Label) -> None:
    """Appends the seal to a library and makes the file writable only by its owner."""
    text = SEAL + label.name.encode() + b" sha256 "
    digest = hashlib.sha256(library.read_bytes() + text).hexdigest()
    with open(library, "ab") as out:
        out.write(text + digest.encode())
    library.chmod(0o755)


def sealed_name(shim: Path) -> str | None:
    """Returns the name in the seal, or `None` if the file is incomplete or changed. Loading a truncated library would kill
    the process."""
    contents = shim.read_bytes()
    library, found, seal = contents.rpartition(SEAL)
    name, separator, digest = seal.partition(b" sha256 ")
    expected = hashlib.sha256(library + found + name + separator).hexdigest().encode()
    return name.decode(errors="replace") if found and digest == expected else None


def included(label: Label, version: str) -> Path | None:
    """Returns the path of the package's shim with a label, if it can be used with a version of PyTorch.

    Raises:
        TorchDeviceError: The file is damaged, or is another shim.
    """
    path = SHIPPED / label.name
    if _RELEASE.fullmatch(version) is None or not path.exists():
        return None
    name = sealed_name(path)
    if name == label.name:
        return path
    fault = "is damaged" if name is None else f"is {name} under another name"
    raise TorchDeviceError(
        f"the compiled device {path} of this package {fault}. Install the package again, such as "
        "pip install --force-reinstall cubeyard"
    )


def refusal(label: Label, version: str) -> str:
    """Returns the reason why no shim of the package has been taken; empty if the package has none for any PyTorch."""
    labels = [found for path in _files() if (found := Label.parse(path.name))]
    if not labels:
        return ""
    alike = [found for found in labels if found.minor == label.minor]
    if not alike:
        minors = ", ".join(sorted({found.minor for found in labels}, key=lambda minor: [*map(int, minor.split("."))]))
        return f"this package has the compiled device for torch {minors}, not for {version}"
    prefix = f"this package has the compiled device for torch {label.minor}"
    if _RELEASE.fullmatch(version) is None:
        return f"{prefix}, not for its development version {version}"
    if label.machine not in {found.machine for found in alike}:
        return f"{prefix} on {alike[0].machine}, not on {label.machine}"
    alike = [found for found in alike if found.machine == label.machine]
    if label.cxx11_abi not in {found.cxx11_abi for found in alike}:
        return f"{prefix} with _GLIBCXX_USE_CXX11_ABI={int(alike[0].cxx11_abi)}, not {int(label.cxx11_abi)}"
    return f"{prefix}, but of other sources than those of this package"


def _files() -> list[Path]:
    return sorted(SHIPPED.iterdir()) if SHIPPED.is_dir() else []

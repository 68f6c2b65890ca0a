"""Channels between PEs. The definitions are in `cubeyard.tensors.channels`."""

from __future__ import annotations

from cubeyard.tensors.channels import Channels, connect, ring

__all__ = ["Channels", "connect", "ring"]

"""Channels between PEs; they are defined in `cubeyard.tensors.channels`."""

from __future__ import annotations

from cubeyard.tensors.channels import Channels, connect, ring

__all__ = ["Channels", "connect", "ring"]

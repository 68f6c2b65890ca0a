"""Prints of a running kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from cubeyard.triton._elements import SIZES, is_float, unsigned
from cubeyard.triton._frame import Builder, Flow, Frame, Step, lowers
from cubeyard.triton._ir import Operation, Type
from cubeyard.triton._memory import known
from cubeyard.triton._values import array_of

__all__: list[str] = []


@lowers("tt.print")
def printed(build: Builder, operation: Operation) -> Step:
    """Lowers a print: a line on the host for each element, with its program and its index. Without data nothing is printed."""
    operands = [(one, build.types[one]) for one in operation.operands]
    signed, as_hex = operation.attributes.get("isSigned", []), bool(operation.attributes.get("hex"))
    text = operation.attributes.get("message", "").encode().decode("unicode_escape")

    def flow(frame: Frame) -> Flow:
        if not frame.live:
            frame.note("print", "tl.device_print prints nothing without data")
            return
        where = f"pid ({', '.join(map(str, frame.pid))})"
        if not operands:
            print(f"{where} idx (){text}", flush=True)
        for number, (operand, of) in enumerate(operands):
            value = yield from known(frame.env[operand])
            name = f"{text}(operand {number}) " if len(operands) > 1 else text
            is_signed = number >= len(signed) or bool(signed[number])
            for line in _lines(np.broadcast_to(array_of(value), of.shape), of, is_signed, as_hex):
                print(f"{where} {line[0]}{name}{line[1]}", flush=True)

    return flow


def _lines(elements: Any, of: Type, signed: bool, as_hex: bool) -> list[tuple[str, str]]:
    """Returns the index and the number of each element as text."""
    found = []
    for index in np.ndindex(elements.shape):
        found.append((f"idx ({', '.join(map(str, index))})", _number(elements[index].item(), of.element, signed, as_hex)))
    return found


def _number(value: Any, element: str, signed: bool, as_hex: bool) -> str:
    if is_float(element):
        return f"{value:f}"
    if as_hex or element == "ptr":
        return f"0x{unsigned(int(value), element):0{2 * SIZES[element]}x}"
    return str(int(value) if signed else unsigned(int(value), element))

"""Placements: the same parts as NumPy's splits and as the command."""

import json
import subprocess
import sys

import numpy as np
import pytest

from cubeyard import Placement
from cubeyard.errors import InputError
from stamps import unstamped


def parts(length, split, axis, count):
    """The ranges of an axis that `np.array_split` gives."""
    if split != axis:
        return [range(length)] * count
    portions = np.array_split(np.arange(length), count)
    return [range(part[0], part[-1] + 1) if len(part) else range(0) for part in portions]


@pytest.mark.parametrize("cube", ["replicate", "row_wise", "column_wise"])
@pytest.mark.parametrize("pe", ["replicate", "row_wise", "column_wise"])
def test_shards_are_those_of_numpy(cube, pe):
    rows, columns = 70, 130
    layout = Placement(cube=cube, pe=pe, cubes=4, pes=3).layout((rows, columns), "i8")
    found = {shard.pe: (shard.rows, shard.columns) for shard in layout.shards}
    for c in range(4):
        of_rows = parts(rows, cube, "row_wise", 4)[c]
        of_columns = parts(columns, cube, "column_wise", 4)[c]
        for p in range(3):
            inner_rows = parts(len(of_rows), pe, "row_wise", 3)[p]
            inner_columns = parts(len(of_columns), pe, "column_wise", 3)[p]
            assert found[f"sip0.cube{c}.pe{p}"] == (
                of_rows[inner_rows.start : inner_rows.stop],
                of_columns[inner_columns.start : inner_columns.stop],
            )
    assert sum(shard.nbytes for shard in layout.shards) == layout.copies * layout.nbytes == layout.copies * 9100


def test_a_layout_is_what_the_command_prints():
    options = "--shape 256x64 --dtype f16 --cube row_wise --pe column_wise --pes 2".split()
    command = [sys.executable, "-m", "cubeyard", "placement", *options]
    layout = Placement(cube="row_wise", pe="column_wise", pes=2).layout((256, 64), "f16")
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert str(layout) == text
    plain = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=True).stdout
    assert layout.to_dict() == unstamped(json.loads(plain))
    assert repr(layout) == "Layout(32 shards, 1 copies, 32768 bytes)"


def test_placements_are_values():
    assert Placement() == Placement(sips=[0])
    assert hash(Placement(sips=[0, 1])) == hash(Placement(sips=(0, 1)))
    assert Placement(sips=1).sips == (1,)


def test_pictures_are_drawn():
    rows = Placement(cube="row_wise", pe="row_wise")
    assert rows.draw().startswith("<svg")
    assert "4096x4096 f16" in rows._repr_html_()
    assert rows.layout(8)._repr_html_().count("<svg") == 1
    assert "the placement needs 99 cubes" in Placement(cubes=99)._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"cube": "rows"}, "cube='rows': expected one of replicate, row_wise, column_wise"),
        ({"pe": None}, "pe=None"),
        ({"cubes": -1}, "cubes=-1: expected a whole number from 0"),
        ({"pes": 1.5}, "pes=1.5"),
        ({"sips": ["a"]}, "sips='a'"),
        ({"sips": (2**40,)}, "sips=1099511627776"),
    ],
)
def test_wrong_arguments_are_named(arguments, expected):
    with pytest.raises(InputError, match=expected):
        Placement(**arguments)


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        (Placement(cubes=0), "at least one cube"),
        (Placement(pes=9), "the placement needs 9 PEs, but the machine has 8"),
        (Placement(sips=()), "at least one SIP"),
        (Placement(sips=(0, 0)), "sip0 is named twice"),
        (Placement(sips=(999,)), "sips: .*999"),
    ],
)
def test_placements_that_do_not_fit_are_refused(placement, expected):
    with pytest.raises(InputError, match=expected):
        placement.layout((4, 4))

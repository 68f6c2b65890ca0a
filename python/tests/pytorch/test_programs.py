"""Programs and launches: the RFC's execution pipeline from Python, up to the device."""

from __future__ import annotations

import struct

import pytest
import torch

from cubeyard.errors import ClosedError, InputError


def test_a_binary_takes_memory_until_it_is_unloaded() -> None:
    before = torch.ahbm.memory_allocated()
    with torch.ahbm.load_program(bytes(1000), parameters=2) as program:
        assert program.size == 1000 and program.parameters == 2 and program.device == torch.device("ahbm:0")
        assert program.address.offset % 128 == 0
        assert torch.ahbm.memory_allocated() == before + 1024
    assert torch.ahbm.memory_allocated() == before
    with pytest.raises(ClosedError, match="the program was unloaded"):
        program.launch()
    program = torch.ahbm.load_program(bytearray(b"x"), parameters=0, device=1)
    assert program.device == torch.device("ahbm:1")
    del program
    assert torch.ahbm.memory_allocated() == before


def test_operands_are_the_tensors_through_the_segment_table() -> None:
    x = torch.arange(1024, dtype=torch.float32, device="ahbm")
    y = torch.empty(3, 5, dtype=torch.float64, device="ahbm")
    program = torch.ahbm.load_program(b"binary", parameters=4)
    with program.launch(x, x[100:200], y[1:, 2:4], x.view(32, 32).t()) as launch:
        whole, part, window, turned = launch.operands
        assert whole.size == 4096 and (part.flat - whole.flat, part.size) == (400, 400)
        assert part.offset - whole.offset == 400 and part.segment == whole.segment
        assert window.size == (1 * 5 + 1 + 1) * 8, "from the first element to the last"
        assert turned == whole, "the same elements in another order"
        table = launch.segment_table
        for operand in launch.operands:
            assert operand.flat == table[operand.segment].base + operand.offset
        assert launch.program == program.address
        assert launch.corrections == b"".join(struct.pack("<QQ", one.flat, one.size) for one in launch.operands)
        assert launch.corrections_address.offset % 128 == 0
        assert launch.stream == torch.ahbm.current_stream()


def test_pointers_of_tensors_and_flat_addresses_have_one_distance() -> None:
    tensors = [torch.empty(100 * (index + 1), device="ahbm") for index in range(3)]
    program = torch.ahbm.load_program(b"binary", parameters=3)
    with program.launch(*tensors) as launch:
        distances = {tensor.data_ptr() - one.flat for tensor, one in zip(tensors, launch.operands, strict=True)}
    assert len(distances) == 1


def test_tiles_stay_in_the_region_and_move_the_offset() -> None:
    x = torch.empty(4096, dtype=torch.uint8, device="ahbm")
    with torch.ahbm.load_program(b"binary", parameters=1).launch(x) as launch:
        (whole,) = launch.operands
        tiles = launch.tiles(0, tile_bytes=1024)
        assert [(one.segment, one.offset - whole.offset, one.flat - whole.flat, one.size) for one in tiles] == [
            (whole.segment, start, start, 1024) for start in (0, 1024, 2048, 3072)
        ]
        assert [one.flat - whole.flat for one in launch.tiles(0, 512, stride=1536)] == [0, 1536, 3072]
        for wrong in ((1, 1024), (0, 8192)):
            with pytest.raises(InputError):
                launch.tiles(*wrong)
        with pytest.raises(InputError, match="tile_bytes is 0"):
            launch.tiles(0, 0)
        with pytest.raises(InputError, match="stride is -1"):
            launch.tiles(0, 1, -1)
    with pytest.raises(ClosedError, match="the launch has ended"):
        launch.tiles(0, 1024)


def test_a_launch_keeps_what_it_uses() -> None:
    before = torch.ahbm.memory_stats()["active_bytes.all.current"]
    x = torch.empty(1 << 20, dtype=torch.uint8, device="ahbm")
    program = torch.ahbm.load_program(bytes(1 << 12), parameters=1)
    launch = program.launch(x)
    del x
    program.unload()
    active = torch.ahbm.memory_stats()["active_bytes.all.current"]
    assert active >= before + (1 << 20) + (1 << 12), "freed and unloaded, but in use"
    launch.close()
    assert torch.ahbm.memory_stats()["active_bytes.all.current"] == before


def test_wait_waits_for_the_stream_and_ends_the_launch() -> None:
    stream = torch.ahbm.Stream()
    x = torch.empty(128, device="ahbm")
    launch = torch.ahbm.load_program(b"binary", parameters=1).launch(x, stream=stream)
    with torch.ahbm.stream(stream):
        torch.ahbm._sleep(300)
    start = torch.ahbm.clock()
    launch.wait()
    assert torch.ahbm.clock() == start + 300
    with pytest.raises(ClosedError):
        launch.operands  # noqa: B018


def test_what_cannot_be_launched_is_named() -> None:
    x = torch.empty(128, device="ahbm")
    program = torch.ahbm.load_program(b"binary", parameters=1)
    for operand, text in [
        (torch.empty(3), "operand 0 is on 'cpu': expected 'ahbm:0'"),
        (torch.empty(3, device="ahbm:1"), "operand 0 is on 'ahbm:1': expected 'ahbm:0'"),
        (torch.empty(0, device="ahbm"), "operand 0 has no elements"),
        (x[5:5], "operand 0 has no elements"),
        ([1, 2], r"operand 0 is \[1, 2\]: expected a tensor"),
    ]:
        with pytest.raises(InputError, match=text):
            program.launch(operand)
    with pytest.raises(InputError, match="takes 1 operands?, and 2"):
        program.launch(x, x)
    with pytest.raises(InputError, match="stream is"):
        program.launch(x, stream=torch.ahbm.Stream(1))
    for given in ({"binary": b"", "parameters": 1}, {"binary": "text", "parameters": 1}):
        with pytest.raises(InputError, match="binary is"):
            torch.ahbm.load_program(**given)
    for parameters in (-1, True, 1.0):
        with pytest.raises(InputError, match="parameters is"):
            torch.ahbm.load_program(b"x", parameters=parameters)

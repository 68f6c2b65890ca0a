"""The SpyreAllocator RFC, as PyTorch sees it: its types, workflows, edge cases, debugging, and the answers to its questions.

The allocator itself is tested in crates/memory/tests/it/rfc.rs. Each test here is a process with a device of its own, with
small regions where it fills them.
"""

from __future__ import annotations

import re
import textwrap

import pytest
from conftest import Script

PRELUDE = """
from cubeyard.torch import _device
native, MIB = _device._native_device(0), 1 << 20

def place(tensor):
    '''The address of a tensor as the RFC has it: the region's id, and the offset in it.'''
    with torch.ahbm.load_program(b"binary", parameters=1) as program, program.launch(tensor) as launch:
        [operand] = launch.operands
        return launch.segment_table[operand.segment].region_id, operand.offset

def regions():
    return [(region["size"], region["free"], region["blocks"]) for region in native.regions()]

def bytes_(count):
    return torch.empty(count, dtype=torch.uint8, device="ahbm")

def refused(count):
    try:
        bytes_(count)
    except torch.OutOfMemoryError as error:
        return str(error)
    raise AssertionError("it was served")
"""

SMALL = {"CUBEYARD_ALLOC_CONF": "fallback_sizes:[8MiB;4MiB;2MiB],max_regions:3", "CUBEYARD_DEVICE_MEMORY": "18MiB"}
"""Regions of 8, 8 and 2 MiB: the third is of the last size that is tried."""

MODES = pytest.mark.parametrize("mode", ["PF", "VF"])


def run(script: Script, text: str, **variables: str | None) -> str:
    """Runs a program after the functions above; returns what it prints."""
    done = script(PRELUDE + textwrap.dedent(text), **{"FLEX_DEVICE": "PF", **variables})
    return done.stdout + done.stderr


# ---- VirtualAddress ---------------------------------------------------------------------------


def test_in_pf_mode_a_region_is_named_by_its_physical_address(script: Script) -> None:
    run(
        script,
        """
        region, offset = place(bytes_(1))
        assert native.describe()["mode"] == "PF" and (region, offset) == (native.regions()[0]["id"], 0)
        assert region >= 1 << 34, "a physical address of HBM"
        """,
    )


def test_in_vf_mode_a_region_is_named_by_its_index_in_the_table(script: Script) -> None:
    run(
        script,
        """
        assert native.describe()["mode"] == "VF"
        first, second = bytes_(7 * MIB), bytes_(7 * MIB)
        assert [place(first), place(second)] == [(0, 0), (1, 0)]
        assert len(native.segment_table()) == 16, "entries of the firmware's table"
        """,
        FLEX_DEVICE="VF", **SMALL,
    )  # fmt: skip


def test_a_mode_that_is_none_is_named(script: Script) -> None:
    text = script(
        """
        try:
            torch.empty(1, device="ahbm")
        except Exception as error:
            print(error)
        """,
        FLEX_DEVICE="XF",
    ).stdout
    assert "FLEX_DEVICE: `XF`: expected PF or VF" in text


@MODES
def test_addresses_and_sizes_are_multiples_of_128_bytes(script: Script, mode: str) -> None:
    run(
        script,
        """
        kept, at = [], 0
        for count in (1, 127, 128, 129, 1000, 4096, 4097):
            kept.append(bytes_(count))
            assert place(kept[-1])[1] == at, (count, place(kept[-1]), at)
            at += (count + 127) // 128 * 128
        assert torch.ahbm.memory_allocated() == at
        """,
        FLEX_DEVICE=mode,
    )


# ---- SpyreAllocator, SharedOwnerCtx, DataPtr --------------------------------------------------


def test_a_data_pointer_owns_one_block_of_its_device(script: Script) -> None:
    run(
        script,
        """
        one, two = torch.empty(1000, device="ahbm:0"), torch.empty(1000, device="ahbm:1")
        slot, key, device, offset, size = torch.ops.ahbm._block(one)
        assert (device, offset, size) == (0, 0, 4000) and torch.ops.ahbm._block(two)[2] == 1
        assert torch.ops.ahbm._block(one[10:]) == [slot, key, 0, 40, 4000], "a view is of the same block"
        assert torch.ops.ahbm._block(torch.empty(1000, device="ahbm:0"))[:2] != [slot, key]
        assert one.untyped_storage().data_ptr() == one.data_ptr() != 0
        """,
    )


def test_no_bytes_are_no_block(script: Script) -> None:
    run(
        script,
        """
        empty = torch.empty(0, 5, device="ahbm:1")
        assert empty.data_ptr() == 0 and empty.device == torch.device("ahbm:1") and torch.ops.ahbm._block(empty) == []
        assert torch.ahbm.memory_stats(1)["allocation.all.allocated"] == 0 and (empty + 1).shape == (0, 5)
        """,
    )


def test_one_allocator_serves_all_of_pytorch(script: Script) -> None:
    run(
        script,
        """
        import threading
        kept = [torch.ones(1000, device="ahbm")]
        thread = threading.Thread(target=lambda: kept.append(kept[0] * 2))
        thread.start(); thread.join()
        leaf = torch.ones(1000, device="ahbm", requires_grad=True)
        (leaf * 2).sum().backward()
        raw = torch.ahbm.caching_allocator_alloc(4000)
        assert torch.ahbm.memory_allocated() == 5 * 4096, "two tensors, a leaf and its gradient, and raw memory"
        assert len(native.regions()) == 1
        torch.ahbm.caching_allocator_delete(raw)
        del kept, leaf
        assert torch.ahbm.memory_allocated() == 0
        """,
    )


def test_the_deleter_tells_the_profiler_and_frees_on_any_thread(script: Script) -> None:
    run(
        script,
        """
        import threading
        from torch.profiler import ProfilerActivity, profile
        held = [bytes_(1000), bytes_(2000)]
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as told:
            held.pop()
        sizes = [event.nbytes() for event in told.profiler.kineto_results.events() if event.name() == "[memory]"]
        assert sizes == [-2048] and torch.ahbm.memory_allocated() == 1024
        thread = threading.Thread(target=held.clear)
        thread.start(); thread.join()
        assert torch.ahbm.memory_allocated() == 0
        """,
    )


# ---- Workflows --------------------------------------------------------------------------------


@MODES
def test_workflow_1_the_first_tensor_acquires_a_region_and_splits_it(script: Script, mode: str) -> None:
    run(
        script,
        """
        assert regions() == [] and not native.regions_locked, "nothing is acquired before the first tensor"
        tensor = torch.empty(250, device="ahbm")
        assert regions() == [(8 * MIB, 8 * MIB - 1024, 1)]
        assert place(tensor) == (native.regions()[0]["id"], 0)
        """,
        FLEX_DEVICE=mode, **SMALL,
    )  # fmt: skip


def test_workflow_1_smaller_regions_are_tried_where_there_is_no_room(script: Script) -> None:
    lines = run(
        script,
        """
        tensor = bytes_(1)
        assert regions() == [(4 << 30, (4 << 30) - 128, 1)]
        """,
        CUBEYARD_DEVICE_MEMORY="5GiB", CUBEYARD_ALLOC_CONF="fallback_sizes:[12GiB;8GiB;4GiB]", TORCH_SPYRE_ALLOC_DEBUG="1",
    )  # fmt: skip
    assert lines.count("region refused") == 2 and "size=4294967296 level=2" in lines


@MODES
def test_workflow_2_later_tensors_share_the_region_and_differ_in_the_offset(script: Script, mode: str) -> None:
    run(
        script,
        """
        kept = [bytes_(1000) for _ in range(10)]
        places = [place(tensor) for tensor in kept]
        assert len({region for region, _offset in places}) == 1
        assert [offset for _region, offset in places] == list(range(0, 10240, 1024))
        assert regions() == [(8 * MIB, 8 * MIB - 10240, 10)]
        big = bytes_(8 * MIB - 10240 + 1)
        assert place(big)[1] == 0 and place(big)[0] != places[0][0], "what does not fit gets another region"
        """,
        FLEX_DEVICE=mode, **SMALL,
    )  # fmt: skip


@MODES
def test_workflow_3_a_freed_block_joins_its_free_neighbours(script: Script, mode: str) -> None:
    run(
        script,
        """
        kept = {name: bytes_(1024) for name in "abcde"}
        def blocks():
            [segment] = torch.ahbm.memory._snapshot(0)["segments"]
            return [(block["state"] == "inactive", block["size"]) for block in segment["blocks"]]
        rest = (True, 8 * MIB - 5 * 1024)
        del kept["b"]
        assert blocks() == [(False, 1024), (True, 1024), *[(False, 1024)] * 3, rest]
        del kept["d"]
        del kept["c"]
        assert blocks() == [(False, 1024), (True, 3072), (False, 1024), rest], "three became one"
        again = bytes_(3072)
        assert place(again)[1] == 1024, "which serves what none of the three could"
        del kept, again
        assert blocks() == [(True, 8 * MIB)]
        """,
        FLEX_DEVICE=mode, **SMALL,
    )  # fmt: skip


@MODES
def test_workflow_4_regions_are_locked_when_no_more_can_be_had(script: Script, mode: str) -> None:
    run(
        script,
        """
        kept = [bytes_(7 * MIB), bytes_(7 * MIB)]
        assert not native.regions_locked
        kept.append(bytes_(3 * MIB // 2))
        assert [size for size, _free, _blocks in regions()] == [8 * MIB, 8 * MIB, 2 * MIB], "the last size that is tried"
        text = refused(3 * MIB)
        assert native.regions_locked and "no more regions are acquired" in text, text
        small = bytes_(MIB // 2)
        assert len(regions()) == 3, "what fits is still served"
        del kept
        assert place(bytes_(8 * MIB))[1] == 0, "and what was freed"
        """,
        FLEX_DEVICE=mode, **SMALL,
    )  # fmt: skip


# ---- Testing: edges of torch-spyre ------------------------------------------------------------


def test_a_tensor_can_span_all_of_a_region(script: Script) -> None:
    run(
        script,
        """
        whole = bytes_(8 * MIB)
        whole.fill_(7)
        assert regions() == [(8 * MIB, 0, 1)]
        most = bytes_(8 * MIB - 128)
        end = bytes_(128)
        assert place(end) == (place(most)[0], 8 * MIB - 128) and regions()[1] == (8 * MIB, 0, 2)
        most.fill_(3); end.fill_(5)
        assert [set(tensor.tolist()) for tensor in (whole, most, end)] == [{7}, {3}, {5}], "none overlaps"
        """,
        **SMALL,
    )


def test_many_small_tensors_fill_a_region_to_the_last_block(script: Script) -> None:
    run(
        script,
        """
        import random
        count = 2 * MIB // 128
        kept = [torch.full((1,), float(number), device="ahbm") for number in range(count)]
        assert regions() == [(2 * MIB, 0, count)]
        assert all(int(tensor.item()) == number for number, tensor in enumerate(kept))
        random.Random(1).shuffle(kept)
        while kept:
            kept.pop()
        assert regions() == [(2 * MIB, 2 * MIB, 0)] and native.regions()[0]["largest_free"] == 2 * MIB
        """,
        CUBEYARD_ALLOC_CONF="fallback_sizes:[2MiB],max_regions:1",
    )


def test_all_regions_locked_every_tensor_ends_in_success_or_a_clean_error(script: Script) -> None:
    run(
        script,
        """
        import gc, random
        gc.freeze()  # The collector runs whenever memory has run out: it need not look at all of PyTorch.
        random, kept, served, failed = random.Random(2), [], 0, 0
        for _ in range(600):
            if kept and random.random() < 0.4:
                kept.pop(random.randrange(len(kept)))
            count = random.choice([1, 1000, 100_000, MIB, 4 * MIB])
            try:
                kept.append(bytes_(count).fill_(len(kept) % 251)); served += 1
            except torch.OutOfMemoryError:
                failed += 1
        assert native.regions_locked and len(regions()) == 3 and served > 100 and failed > 20, (served, failed)
        stats = torch.ahbm.memory_stats()
        assert stats["num_ooms"] == failed and stats["allocation.all.current"] == len(kept)
        assert sum(size - free for size, free, _blocks in regions()) == stats["allocated_bytes.all.current"]
        kept.clear()
        assert [free for _size, free, _blocks in regions()] == [8 * MIB, 8 * MIB, 2 * MIB]
        """,
        **SMALL,
    )


@MODES
def test_programs_are_loaded_beside_tensors_through_the_segment_table(script: Script, mode: str) -> None:
    run(
        script,
        """
        first = torch.arange(1000, device="ahbm", dtype=torch.int32)
        program = torch.ahbm.load_program(bytes(range(256)) * 4, parameters=2)
        second = bytes_(8 * MIB - 4096)
        held = torch.ahbm.memory_allocated()
        assert held == 4096 + 1024 + second.nbytes, "the binary counts as memory of the device"
        with program.launch(first, second) as launch:
            table = [entry for entry in launch.segment_table if entry]
            assert [entry.region_id for entry in table] == [region["id"] for region in native.regions()]
            assert [entry.size for entry in table] == [8 * MIB, 8 * MIB]
            for tensor, operand in zip((first, second), launch.operands):
                assert (table[operand.segment].region_id, operand.offset) == place(tensor)
                assert operand.flat == table[operand.segment].base + operand.offset and operand.size == tensor.nbytes
            assert (launch.program.region_id, launch.program.offset) == (table[0].region_id, 4096)
            words = [int.from_bytes(launch.corrections[at : at + 8], "little") for at in range(0, 32, 8)]
            assert words == [value for operand in launch.operands for value in (operand.flat, operand.size)]
            tiles = launch.tiles(1, tile_bytes=MIB)
            assert {tile.segment for tile in tiles} == {launch.operands[1].segment}
            assert [tile.offset - launch.operands[1].offset for tile in tiles] == [number * MIB for number in range(7)]
        program.unload()
        assert torch.ahbm.memory_allocated() == held - 1024
        """,
        FLEX_DEVICE=mode, **SMALL,
    )  # fmt: skip


def test_out_of_memory_when_locked_says_what_is_free_and_recovers(script: Script) -> None:
    run(
        script,
        """
        kept = [bytes_(7 * MIB), bytes_(7 * MIB), bytes_(3 * MIB // 2)]
        text = refused(2 * MIB)
        for part in ("wanted 2.00 MiB (2097152 B", "free 2.50 MiB, longest free range 1.00 MiB, in 3 regions",
                     "no more regions are acquired", "memory is fragmented"):
            assert part in text, text
        assert [tensor.numel() for tensor in kept] == [7 * MIB, 7 * MIB, 3 * MIB // 2], "live tensors stay"
        text = refused(9 * MIB)
        assert "no region can ever hold it" in text, text
        kept.pop(0)
        assert bytes_(5 * MIB).numel() == 5 * MIB
        assert torch.ahbm.memory_stats()["num_ooms"] == 2
        """,
        **SMALL,
    )


# ---- Debugging --------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["TORCH_SPYRE_ALLOC_DEBUG", "TORCH_SPYRE_DEBUG"])
def test_debugging_tells_every_region_block_and_free(script: Script, variable: str) -> None:
    lines = run(
        script,
        """
        first, second = bytes_(1000), bytes_(2000)
        del first, second
        """,
        **{variable: "1"}, **SMALL,
    )  # fmt: skip
    assert re.search(r"region acquired region=0x4\w+ size=8388608 level=0", lines)
    assigned = r"block assigned region=\S+ offset=0 size=1024 requested=1000 kind=\"tensor\" region_free=8387584"
    assert re.search(assigned, lines)
    assert re.search(r"block assigned region=\S+ offset=1024 size=2048 requested=2000", lines)
    freed = r"block freed region=\S+ offset=1024 size=2048 joined_below=1024 joined_above=8385536 region_free=8388608"
    assert re.search(freed, lines)


def test_without_debugging_nothing_is_told(script: Script) -> None:
    none = {"TORCH_SPYRE_ALLOC_DEBUG": None, "TORCH_SPYRE_DEBUG": None}
    assert run(script, "first = bytes_(1000)", **none) == ""
    assert run(script, "first = bytes_(1000)", TORCH_SPYRE_ALLOC_DEBUG="0", TORCH_SPYRE_DEBUG="0") == ""


# ---- The answers to its questions -------------------------------------------------------------


def test_question_1_free_regions_are_returned_on_request(script: Script) -> None:
    run(
        script,
        """
        tensor, kept = bytes_(7 * MIB), bytes_(7 * MIB)
        del tensor
        assert torch.ahbm.memory_reserved() == 16 * MIB, "not by themselves"
        torch.accelerator.empty_cache()
        assert torch.ahbm.memory_reserved() == 8 * MIB and torch.ahbm.get_memory_info() == (10 * MIB, 18 * MIB)
        again = bytes_(7 * MIB)
        assert torch.ahbm.memory_reserved() == 16 * MIB, "and may be acquired again"
        """,
        **SMALL,
    )


def test_question_2_threads_allocate_and_free_at_a_time(script: Script) -> None:
    run(
        script,
        """
        import threading
        def work(number):
            kept = []
            for step in range(500):
                kept.append(torch.full((step % 100 + 1,), float(number), device="ahbm"))
                if step % 3 == 0:
                    kept.pop(0)
            wrong.extend(tensor for tensor in kept if not (tensor == number).all().item())
        wrong, threads = [], [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not wrong, "tensors overlap"
        del threads, wrong
        assert torch.ahbm.memory_allocated() == 0
        """,
    )


def test_question_3_sizes_are_settings(script: Script) -> None:
    run(
        script,
        """
        kept = [bytes_(MIB), bytes_(MIB), bytes_(MIB)]
        assert [size for size, _free, _blocks in regions()] == [2 * MIB, 2 * MIB]
        assert "max_regions reached, which is 2" in refused(2 * MIB)
        """,
        CUBEYARD_ALLOC_CONF="fallback_sizes:[2MiB],max_regions:2",
    )
    done = script(
        """
        try:
            torch.empty(1, device="ahbm")
        except Exception as error:
            print(error)
        """,
        CUBEYARD_ALLOC_CONF="regions:7",
    )
    assert "CUBEYARD_ALLOC_CONF: unknown key `regions`; the keys are fallback_sizes, max_regions" in done.stdout


def test_question_4_callbacks_run_under_pressure_and_may_free(script: Script) -> None:
    run(
        script,
        """
        cache, told = [bytes_(7 * MIB), bytes_(7 * MIB)], []
        torch.ahbm.on_pressure(lambda report: (told.append(report), cache.clear()))
        big = bytes_(8 * MIB)
        assert len(told) == 1 and not cache and told[0].details["requested"] == 8 * MIB
        """,
        **SMALL,
    )


def test_question_5_tensors_are_not_moved_and_regions_can_grow_instead(script: Script) -> None:
    fragments = """
        kept = [bytes_(MIB) for _ in range(8)]
        pointers = [tensor.data_ptr() for tensor in kept]
        del kept[::2], pointers[::2]
        assert [tensor.data_ptr() for tensor in kept] == pointers
        """
    run(
        script,
        fragments + "assert 'memory is fragmented' in refused(2 * MIB)\n",
        CUBEYARD_ALLOC_CONF="fallback_sizes:[8MiB],max_regions:1", CUBEYARD_DEVICE_MEMORY="8MiB",
    )  # fmt: skip
    run(
        script,
        fragments
        + """
        big = bytes_(2 * MIB)
        assert torch.ahbm.memory_allocated() == 6 * MIB and [tensor.data_ptr() for tensor in kept] == pointers
        """,
        CUBEYARD_ALLOC_CONF="growth:recycle(1GiB)", CUBEYARD_DEVICE_MEMORY="16MiB",
    )  # fmt: skip


def test_question_6_every_device_has_an_allocator(script: Script) -> None:
    run(
        script,
        """
        tensors = [torch.empty(MIB, dtype=torch.uint8, device=f"ahbm:{index}") for index in range(4)]
        assert torch.ahbm.device_count() == 4
        natives = [_device._native_device(index) for index in range(4)]
        assert all(len(one.regions()) == 1 for one in natives)
        assert len({tensor.data_ptr() for tensor in tensors}) == 4
        del tensors[2]
        assert [torch.ahbm.memory_allocated(index) for index in range(4)] == [MIB, MIB, 0, MIB]
        """,
        CUBEYARD_SIPS="4",
    )


def test_question_7_programs_can_have_regions_of_their_own(script: Script) -> None:
    run(
        script,
        """
        tensor, program = bytes_(1000), torch.ahbm.load_program(b"binary", parameters=1)
        assert program.address.region_id != place(tensor)[0] and program.address.offset == 0
        assert len(regions()) == 2
        """,
        CUBEYARD_ALLOC_CONF="fallback_sizes:[8MiB],own_regions:[program]",
    )


def test_question_8_a_device_refuses_a_region_without_an_error(script: Script) -> None:
    lines = run(
        script,
        """
        kept = bytes_(MIB)
        assert torch.ahbm.memory_stats()["num_ooms"] == 0 and regions()[0][0] == 2 * MIB
        """,
        CUBEYARD_ALLOC_CONF="fallback_sizes:[8MiB;4MiB;2MiB]", CUBEYARD_DEVICE_MEMORY="3MiB", TORCH_SPYRE_ALLOC_DEBUG="1",
    )  # fmt: skip
    assert lines.count("region refused") == 2


def test_question_9_an_address_is_two_numbers_and_keeps_nothing(script: Script) -> None:
    run(
        script,
        """
        program = torch.ahbm.load_program(b"binary", parameters=0)
        address = program.address
        assert (address.region_id, address.offset) == (native.regions()[0]["id"], 0)
        program.unload()
        torch.ahbm.empty_cache()
        assert regions() == [] and hash(address) == hash(type(address)(address.region_id, address.offset))
        """,
    )


def test_question_10_regions_can_be_acquired_at_the_start(script: Script) -> None:
    run(
        script,
        """
        tensor = bytes_(1)
        assert [(size, blocks) for size, _free, blocks in regions()] == [(4 * MIB, 1), (4 * MIB, 0), (4 * MIB, 0)]
        """,
        CUBEYARD_ALLOC_CONF="fallback_sizes:[4MiB],acquire:eager(3)",
    )

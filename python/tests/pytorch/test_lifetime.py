"""Lives and ends of tensors: frees from every thread, exits, forks, pressure, limits, and compiled code."""

from __future__ import annotations

import gc
import queue
import textwrap
import threading
from typing import Any

import pytest
import torch
from conftest import Script

MIB = 1 << 20


def test_tensors_are_freed_by_threads_that_did_not_make_them(device: str) -> None:
    before = torch.ahbm.memory_allocated()
    handed: queue.Queue[Any] = queue.Queue(64)

    def make(number: int) -> None:
        for step in range(500):
            handed.put(torch.full((step % 50 + 1,), float(number), device=f"ahbm:{number % 2}"))
        handed.put(None)

    def drop() -> None:
        while (tensor := handed.get()) is not None:
            del tensor

    threads = [threading.Thread(target=make, args=(number,)) for number in range(3)]
    threads += [threading.Thread(target=drop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.ahbm.memory_allocated() == before


def test_tensors_are_freed_when_a_thread_ends(device: str) -> None:
    local = threading.local()

    def work() -> None:
        local.tensor = torch.ones(1000, device=device)

    before = torch.ahbm.memory_allocated()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    gc.collect()
    assert torch.ahbm.memory_allocated() == before


def test_backward_frees_on_the_threads_of_autograd(device: str) -> None:
    before = torch.ahbm.memory_allocated()
    for _ in range(20):
        leaf = torch.randn(100, 100, device=device, requires_grad=True)
        (leaf @ leaf).tanh().sum().backward()
    del leaf
    assert torch.ahbm.memory_allocated() == before


# ---- Exits ------------------------------------------------------------------------------------

EXITS = {
    "in globals": "kept = [torch.ones(1000, device='ahbm:0'), torch.ones(1000, device='ahbm:1')]",
    "in a graph of autograd": """
        leaf = torch.ones(1000, device="ahbm", requires_grad=True)
        graph = (leaf * 2).exp().sum()
        """,
    "in a thread that never ends": """
        import threading
        ready, never = threading.Event(), threading.Event()
        def work():
            kept = torch.ones(100, device="ahbm") + 1
            ready.set()
            never.wait()
        threading.Thread(target=work, daemon=True).start()
        ready.wait()
        """,
    "in a thread that is joined at the end": """
        import threading, time
        def work():
            kept = torch.ones(100, device="ahbm")
            time.sleep(0.3)
            assert kept.sum().item() == 100
        threading.Thread(target=work).start()
        """,
    "in modules and cycles": """
        import sys
        class Holder: pass
        sys.held = Holder()
        sys.held.itself, sys.held.tensor = sys.held, torch.ones(10, device="ahbm")
        """,
    "in functions that run at the end": """
        import atexit
        atexit.register(lambda tensor: print(tensor.sum().item()), torch.ones(3, device="ahbm"))
        """,
    "pinned, on streams that are busy": """
        stream = torch.Stream("ahbm")
        with stream:
            torch.ahbm._sleep(1e9)
            kept = torch.ones(1000, pin_memory=True).to("ahbm", non_blocking=True)
            kept.record_stream(stream)
        """,
    "programs and launches": """
        tensor = torch.ones(3, device="ahbm")
        program = torch.ahbm.load_program(b"binary", parameters=1)
        launch = program.launch(tensor)
        """,
}


@pytest.mark.parametrize("where", EXITS)
def test_a_process_ends_with_live_tensors(script: Script, where: str) -> None:
    done = script("import gc\ngc.unfreeze()\n" + textwrap.dedent(EXITS[where]))
    assert "Traceback" not in done.stderr and "Fatal" not in done.stderr


def test_a_process_ends_by_sys_exit_and_by_an_exception(script: Script) -> None:
    script("kept = torch.ones(3, device='ahbm'); import sys; sys.exit(3)", status=3, anew=True)
    done = script("kept = torch.ones(3, device='ahbm'); raise SystemError('told')", status=1, anew=True)
    assert done.stderr.rstrip().endswith("SystemError: told")


def test_a_deleter_runs_after_the_interpreter_is_gone(script: Script) -> None:
    # A capsule of DLPack that nobody takes is freed by C code, here by a function that the C library runs at its end.
    script(
        """
        import ctypes
        tensor = torch.ones(1000, device="ahbm")
        capsule = torch.utils.dlpack.to_dlpack(tensor)
        del tensor
        find, rename = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_SetName
        find.restype, find.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
        managed = find(capsule, b"dltensor")
        name = b"used_dltensor"
        rename(capsule, name)
        # The deleter comes after the tensor, which has 48 bytes, and its context.
        deleter = ctypes.c_void_p.from_address(managed + 56).value
        at_exit = ctypes.CDLL(None).__cxa_atexit
        at_exit.argtypes = [ctypes.c_void_p] * 3
        assert at_exit(deleter, managed, None) == 0 and torch.ahbm.memory_allocated() == 4096
        """,
        anew=True,
    )


# ---- Forks ------------------------------------------------------------------------------------


def test_a_child_of_a_fork_is_refused_and_its_parent_goes_on(script: Script) -> None:
    done = script(
        """
        import gc, os
        kept = torch.ones(1000, device="ahbm")
        child = os.fork()
        if child == 0:
            for use in (lambda: torch.ones(3, device="ahbm"), lambda: kept + 1, kept.cpu, kept.sum):
                try:
                    use()
                    print("used")
                except RuntimeError as error:
                    print(error)
            del kept
            gc.collect()
            print(torch.ones(3).sum().item(), torch.ahbm.is_available(), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert kept.sum().item() == 1000 and torch.ahbm.memory_allocated() == 4096
        more = torch.ones(10, device="ahbm")
        del kept, more
        assert torch.ahbm.memory_allocated() == 0
        """,
        anew=True,
    )
    *refusals, last = done.stdout.splitlines()
    assert len(refusals) == 4 and all("fork" in line for line in refusals), done.stdout
    assert last == "3.0 False"


def test_a_child_of_a_fork_ends_quietly(script: Script) -> None:
    done = script(
        """
        import os, sys
        kept = [torch.ones(1000, device="ahbm"), torch.ones(10, pin_memory=True)]
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0 and kept[0].sum().item() == 1000
        """,
        anew=True,
    )
    assert done.stderr == ""


def test_forked_workers_load_data_of_the_host(script: Script) -> None:
    script(
        """
        import torch.multiprocessing as processes
        kept = torch.ones(3, device="ahbm")
        def square(number):
            return torch.tensor([float(number)]).square()
        with processes.get_context("fork").Pool(2) as pool:
            assert [value.item() for value in pool.map(square, range(5))] == [0.0, 1.0, 4.0, 9.0, 16.0]
        assert kept.sum().item() == 3
        """,
        anew=True,
    )


def test_spawned_processes_have_devices_of_their_own(script: Script, tmp_path: Any) -> None:
    script(
        """
        import torch.multiprocessing as processes
        def work(rank, place):
            import cubeyard.torch
            assert torch.ahbm.memory_allocated() == 0
            torch.save(torch.full((3,), float(rank), device="ahbm").cpu(), f"{place}/{rank}")
        if __name__ == "__main__":
            import sys
            kept = torch.ones(3, device="ahbm")
            processes.spawn(work, (sys.argv[1],), nprocs=2)
            assert [torch.load(f"{sys.argv[1]}/{rank}").sum().item() for rank in range(2)] == [0.0, 3.0]
        """,
        str(tmp_path),
        anew=True,
    )


# ---- Pressure ---------------------------------------------------------------------------------

FULL = {"CUBEYARD_DEVICE_MEMORY": "16MiB", "CUBEYARD_ALLOC_CONF": "fallback_sizes:[16MiB]"}


def test_cycles_that_fill_memory_are_collected(script: Script) -> None:
    script(
        """
        import gc
        gc.disable()
        class Node: pass
        for step in range(40):
            node = Node()
            node.itself, node.tensor = node, torch.empty(1 << 20, dtype=torch.uint8, device="ahbm")
        stats = torch.ahbm.memory_stats()
        assert stats["allocation.all.allocated"] == 40 and stats["num_ooms"] == 0 and stats["num_alloc_retries"] >= 2
        """,
        **FULL,
    )


def test_four_threads_under_pressure_do_not_wait_for_each_other(script: Script) -> None:
    script(
        """
        import gc, threading
        gc.disable()
        gc.freeze()
        class Node: pass
        served, refused = [0] * 4, [0] * 4
        def work(number):
            for step in range(60):
                node = Node()
                node.itself = node
                try:
                    node.tensor = torch.full((1 << 20,), number, dtype=torch.uint8, device="ahbm")
                    assert int(node.tensor[step].item()) == number
                    served[number] += 1
                except torch.OutOfMemoryError:
                    refused[number] += 1
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join(60)
        assert not any(thread.is_alive() for thread in threads), "a deadlock"
        assert all(served[number] + refused[number] == 60 for number in range(4)) and sum(served) > 200, (served, refused)
        assert torch.ahbm.memory_stats()["num_alloc_retries"] > 5
        """,
        **FULL,
    )


def test_memory_that_is_in_use_is_refused_with_a_report(script: Script) -> None:
    done = script(
        """
        kept = []
        try:
            while True:
                kept.append(torch.empty(1 << 20, dtype=torch.uint8, device="ahbm"))
        except torch.OutOfMemoryError as error:
            print(error)
        assert len(kept) == 16
        kept.pop()
        kept.append(torch.empty(1 << 20, dtype=torch.uint8, device="ahbm"))
        """,
        **FULL,
    )
    for part in ("out of memory: wanted 1.00 MiB", "free 0 B", "16.00 MiB", "memory is full", "CUBEYARD_DEVICE_MEMORY"):
        assert part in done.stdout, part


# ---- Limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "total", "bound"),
    [
        ("64MiB", 64 * MIB, "CUBEYARD_DEVICE_MEMORY, 64.00 MiB"),
        ("1TiB", None, "the HBM of a SIP"),
        ("10%", None, "10 % of the host's memory"),
        (None, None, "50 % of the host's memory"),
    ],
)
def test_the_capacity_says_what_bounds_it(script: Script, memory: str | None, total: int | None, bound: str) -> None:
    done = script(
        """
        properties = torch.ahbm.get_device_properties()
        assert torch.ahbm.get_memory_info()[1] == properties.total_memory
        print(properties.total_memory, properties.bounded_by)
        """,
        CUBEYARD_DEVICE_MEMORY=memory,
    )
    number, text = done.stdout.split(" ", 1)
    assert text.startswith(bound) and (total is None or int(number) == total)


def test_a_capacity_that_cannot_be_is_named(script: Script) -> None:
    done = script(
        """
        try:
            torch.empty(1, device="ahbm")
        except Exception as error:
            print(error)
        """,
        CUBEYARD_DEVICE_MEMORY="much",
    )
    assert "CUBEYARD_DEVICE_MEMORY: `much`: expected a size such as 8GiB" in done.stdout


def test_a_process_can_be_limited_to_a_part_of_a_device(script: Script) -> None:
    script(
        """
        torch.ahbm.set_per_process_memory_fraction(0.5)
        assert torch.ahbm.get_per_process_memory_fraction() == 0.5
        kept = [torch.empty(1 << 20, dtype=torch.uint8, device="ahbm") for _ in range(8)]
        try:
            torch.empty(1 << 20, dtype=torch.uint8, device="ahbm")
            raise AssertionError("it was served")
        except torch.OutOfMemoryError as error:
            assert "free 0 B, longest free range 0 B, in 2 regions" in str(error), error
        torch.ahbm.set_per_process_memory_fraction(1.0)
        torch.ahbm.empty_cache()  # Regions that were locked may be acquired again.
        kept.append(torch.empty(1 << 20, dtype=torch.uint8, device="ahbm"))
        """,
        CUBEYARD_DEVICE_MEMORY="16MiB",
        CUBEYARD_ALLOC_CONF="fallback_sizes:[4MiB]",
    )


# ---- Compiled code ----------------------------------------------------------------------------


def test_compiled_training_steps_leave_nothing(device: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1)).to(device)
    rows = torch.randn(4, 8, device=device)

    def step() -> torch.Tensor:
        return model(rows).square().mean()

    compiled = torch.compile(step, backend="aot_eager")
    expected = torch.autograd.grad(step(), list(model.parameters()))
    held = None
    for number in range(6):
        found = torch.autograd.grad(compiled(), list(model.parameters()))
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
        if number == 1:
            held = torch.ahbm.memory_allocated()
    assert torch.ahbm.memory_allocated() == held
    torch._dynamo.reset()


def test_the_threads_of_autograd_end_before_the_interpreter(script: Script) -> None:
    """Now and then a program that ended right after `backward` aborted with "terminate called without an active
    exception": the autograd thread of the device still had objects of Python to release when the interpreter ended."""
    script(
        """
        import atexit, pathlib
        def threads():
            names = [file.read_text() for file in pathlib.Path("/proc/self/task").glob("*/comm")]
            return [name for name in names if name.startswith("pt_autograd")]
        leaf = torch.ones(1000, device="ahbm", requires_grad=True)
        (leaf * 2).sum().backward()
        assert threads()
        atexit._run_exitfuncs()
        assert not threads()
        """
    )

"""Memory of the device: who gets it, who gives it back, and on which thread."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
import torch
from conftest import Script

from cubeyard import _native


def allocated(index: int = 0) -> int:
    return torch.accelerator.memory_allocated(index)


def allocations() -> int:
    return torch.accelerator.memory_stats()["allocation.all.allocated"]


def test_the_last_view_gives_the_block_back(device: str) -> None:
    before = allocated()
    whole = torch.arange(1000.0, device=device)
    assert allocated() == before + 4096
    part = whole[10:20].view(2, 5).t()
    del whole
    assert allocated() == before + 4096
    assert part.cpu().tolist() == torch.arange(10.0, 20).view(2, 5).t().tolist()
    del part
    assert allocated() == before


def test_no_bytes_are_a_null_pointer_of_their_device(device: str) -> None:
    before = allocations()
    empty = torch.empty(0, 3, device="ahbm:1")
    assert (empty.data_ptr(), empty.device.index, empty.untyped_storage().device.index) == (0, 1, 1)
    assert allocations() == before
    assert torch.ops.ahbm._block(empty) == []


def test_a_block_is_named_with_the_place_of_the_first_element(device: str) -> None:
    whole = torch.zeros(100, dtype=torch.int16, device="ahbm:1")
    slot, key, index, offset, size = torch.ops.ahbm._block(whole)
    assert (index, offset, size) == (1, 0, 200)
    assert torch.ops.ahbm._block(whole[7:]) == [slot, key, 1, 14, 200]
    with pytest.raises(RuntimeError, match="Tensor is on device cpu: expected a tensor of device ahbm"):
        torch.ops.ahbm._block(torch.zeros(1))


@pytest.mark.parametrize("offset", [1, 3, 127, 129, 300])
def test_storage_offsets_need_not_be_multiples_of_the_granule(device: str, offset: int) -> None:
    bytes_ = torch.arange(1000, device=device).to(torch.uint8)
    part = bytes_[offset:]
    assert part.data_ptr() == bytes_.data_ptr() + offset
    expected = torch.arange(1000).to(torch.uint8)
    assert torch.equal((part + 1).cpu(), expected[offset:] + 1)
    part[0] = 255
    expected[offset] = 255
    assert torch.equal(bytes_.cpu(), expected)


def test_tensors_are_freed_on_any_thread(device: str) -> None:
    before = allocated()
    rounds, threads = 500, 4
    here = [[torch.ones(index + 1, device=device) for index in range(rounds)] for _ in range(threads)]
    there: list[list[torch.Tensor]] = [[] for _ in range(threads)]

    def work(own: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        for index in range(rounds):
            made.append(own.pop() + index)

    workers = [threading.Thread(target=work, args=pair) for pair in zip(here, there, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    # The last tensor of a list, of `rounds` elements, is the first to be taken.
    assert [made[0].sum().item() for made in there] == [rounds] * threads
    assert [made[-1].item() for made in there] == [rounds] * threads
    del there, here
    assert allocated() == before


def test_a_thread_that_ends_leaves_its_tensors_to_others(device: str) -> None:
    made: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: made.append(torch.ones(3, device=device)))
    thread.start()
    thread.join()
    assert made.pop().tolist() == [1, 1, 1]


def test_a_child_of_a_fork_frees_nothing_of_its_parent(script: Script) -> None:
    done = script(
        """
        import os, torch
        x = torch.ones(1000, device="ahbm")
        pinned = torch.ones(1000).pin_memory()
        before = torch.accelerator.memory_allocated()
        child = os.fork()
        if child == 0:
            del x, pinned
            try:
                torch.empty(1, device="ahbm")
            except RuntimeError as error:
                os._exit(0 if "fork" in str(error) else 3)
            os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert torch.accelerator.memory_allocated() == before
        assert (x + pinned.to("ahbm")).sum().item() == 2000
        print("parent goes on")
        """,
        anew=True,
    )
    assert done.stdout == "parent goes on\n"


def test_a_process_ends_with_tensors_alive(script: Script) -> None:
    done = script(
        """
        import sys, torch
        x = torch.ones(5, device="ahbm", requires_grad=True)
        torch.kept = (x * 2).sum()
        sys.modules["kept"] = x
        x.grad = torch.ones(5, device="ahbm")
        x.cycle = x
        print("end")
        """,
        anew=True,
    )
    assert (done.stdout, done.stderr) == ("end\n", "")


def test_a_stray_access_of_the_host_faults(script: Script) -> None:
    script(
        """
        import ctypes, torch
        ctypes.string_at(torch.ones(3, device="ahbm").data_ptr(), 1)
        """,
        status=-11,
    )


def test_out_of_memory_is_told_with_the_report_and_leaves_the_device_usable(device: str) -> None:
    before = torch.accelerator.memory_stats()["num_ooms"]
    with pytest.raises(torch.OutOfMemoryError, match=r"out of memory: wanted 16\.00 TiB"):
        torch.empty(1 << 44, dtype=torch.uint8, device=device)
    assert torch.accelerator.memory_stats()["num_ooms"] == before + 1
    assert torch.ones(3, device=device).sum().item() == 3


def test_figures_are_those_of_the_allocator(device: str) -> None:
    kept = [torch.ones(size, device=device) for size in (1, 1000, 1 << 20)]
    ours = _native.TorchDevice(0).statistics()
    theirs = torch.accelerator.memory_stats(0)
    common = set(ours) & set(theirs)
    assert len(common) >= 9 * 3 * 4 + 5, sorted(common)
    assert {key: theirs[key] for key in common} == {key: ours[key] for key in common}
    assert theirs["allocated_bytes.all.current"] >= (1 << 22) + 4096
    del kept


def test_peaks_and_sums_are_reset(device: str) -> None:
    torch.ones(1 << 20, device=device)
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.reset_accumulated_memory_stats()
    stats = torch.accelerator.memory_stats()
    assert stats["allocated_bytes.all.peak"] == stats["allocated_bytes.all.current"]
    assert stats["allocation.all.allocated"] == 0
    torch.ones(1 << 20, device=device)
    stats = torch.accelerator.memory_stats()
    assert stats["allocated_bytes.all.peak"] == stats["allocated_bytes.all.current"] + (4 << 20)


def test_empty_cache_gives_free_regions_back(device: str) -> None:
    torch.accelerator.empty_cache()
    free, total = torch.accelerator.get_memory_info(1)
    held = torch.ones(1 << 20, device="ahbm:1")
    assert torch.accelerator.get_memory_info(1)[0] < free
    del held
    torch.accelerator.empty_cache()
    assert torch.accelerator.get_memory_info(1) == (free, total)


def test_empty_cache_waits_for_work_that_uses_freed_memory(device: str) -> None:
    torch.accelerator.empty_cache()
    before = torch.accelerator.get_memory_info(1)
    held, stream = torch.ones(1 << 20, device="ahbm:1"), torch.Stream("ahbm:1")
    with stream:
        torch.ops.ahbm._sleep(10**9)
    held.record_stream(stream)
    del held
    assert not stream.query()
    torch.accelerator.empty_cache()
    assert stream.query() and torch.accelerator.get_memory_info(1) == before


def test_a_storage_grows_and_keeps_what_it_has(device: str) -> None:
    tensor = torch.arange(10, device=device)
    tensor.resize_(20, 30)
    assert tensor.view(-1)[:10].tolist() == list(range(10))
    assert torch.ops.ahbm._block(tensor)[4] == 20 * 30 * 8
    pointer = tensor.data_ptr()
    tensor.resize_(3)
    assert (tensor.data_ptr(), tensor.tolist()) == (pointer, [0, 1, 2])
    storage = tensor.untyped_storage()
    storage.resize_(16)
    assert (storage.nbytes(), tensor[:2].tolist()) == (16, [0, 1])
    storage.resize_(0)
    assert (storage.nbytes(), storage.data_ptr(), storage.device.type) == (0, 0, "ahbm")


def test_the_profiler_sees_each_block_come_and_go(device: str) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        tensor = torch.ones(1000, device=device)
        del tensor
    privateuse1 = torch._C._autograd.DeviceType.PrivateUse1
    events = profile.profiler.kineto_results.events()
    sizes = [event.nbytes() for event in events if event.name() == "[memory]" and event.device_type() == privateuse1]
    assert sizes == [4096, -4096]


RAW = """
#include <c10/core/Allocator.h>
#include <cstring>

// 0 if all holds, else the number of what does not.
extern "C" __attribute__((visibility("default"))) int check(unsigned long distance) {
  c10::Allocator* allocator = c10::GetAllocator(c10::DeviceType::PrivateUse1);
  if (allocator->raw_deleter() == nullptr) return 1;
  char* raw = static_cast<char*>(allocator->raw_allocate(1000));
  std::memset(raw + distance, 7, 1000);
  {
    c10::DataPtr copy = allocator->clone(raw, 1000);
    if (copy.get() == raw || copy.device().type() != c10::DeviceType::PrivateUse1) return 2;
    if (static_cast<char*>(copy.get())[distance + 999] != 7) return 3;
    if (copy.get_deleter() != allocator->raw_deleter() || !allocator->is_simple_data_ptr(copy)) return 4;
  }
  allocator->raw_deallocate(raw);
  c10::DataPtr nothing = allocator->allocate(0);
  if (nothing.get() != nullptr || !nothing.device().has_index()) return 5;
  allocator->raw_deallocate(allocator->raw_allocate(0));
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="the test is a program in C++")
def test_the_raw_interface_of_allocators_works(device: str, tmp_path: Path) -> None:
    before = allocated()
    folder = Path(torch.__file__).parent
    source, library = tmp_path / "raw.cpp", tmp_path / "raw.so"
    source.write_text(RAW)
    command = ["g++", "-std=c++20", "-shared", "-fPIC", f"-I{folder / 'include'}", str(source), "-o", str(library)]
    subprocess.run([*command, f"-L{folder / 'lib'}", "-lc10"], check=True, timeout=100)
    assert ctypes.CDLL(str(library)).check(ctypes.c_ulong(distance())) == 0
    assert allocated() == before


def distance() -> int:
    """Returns the distance from a pointer of the device to the same byte for the host."""

    class Space(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in ("base", "span", "distance", "devices")]

    space = Space()
    assert ctypes.CDLL(_native.__file__).cubeyard_torch_get_space(ctypes.byref(space)) == 0
    return space.distance


def test_bytes_are_back_after_many_steps(device: str) -> None:
    before = allocated()
    weight = torch.ones(8, 8, device=device, requires_grad=True)
    for _ in itertools.repeat(None, 300):
        (torch.ones(4, 8, device=device) @ weight).relu().sum().backward()
        weight.grad = None
    del weight
    assert allocated() == before

"""Contexts: life and death of their memory, threads, forks, and wrong arguments."""

import gc
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import cubeyard
from cubeyard import Context, Placement
from cubeyard.errors import BusyError, ClosedError, InputError, NoDataError, OutOfMemory

ROWS = Placement(cube="row_wise", pe="row_wise")
# HBM of a PE of the default machine: 48 GiB over 8 PEs.
SLICE = 6 << 30


@pytest.fixture
def context():
    with Context() as context:
        yield context


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_dropping_a_tensor_gives_its_memory_back_at_once(context):
    tensor = context.zeros((256, 64)).to(ROWS)
    stats = context.memory_stats()
    assert (stats.tensors, stats.used, stats.virtual_used) == (1, 256 * 64 * 4, 256 * 64 * 4)
    assert len(stats.pes) == 128
    assert all(pe.used == 512 and pe.used + pe.free == SLICE for pe in stats.pes)
    assert not context.is_pristine
    del tensor
    assert context.memory_stats().used == 0
    assert context.is_pristine


def test_a_view_keeps_the_memory_of_its_tensor(context):
    tensor = context.ones((8, 4)).to(Placement.one())
    row = tensor[3]
    del tensor
    assert context.memory_stats().tensors == 1
    assert row.numpy().tolist() == [1, 1, 1, 1]
    del row
    assert context.is_pristine


def test_leaving_a_with_block_frees_and_closes():
    with Context() as context:
        tensor = context.zeros(16).to(Placement.one())
    assert context.memory_stats().used == 0
    assert tensor.shape == (16,)
    with pytest.raises(ClosedError, match="the context is closed"):
        tensor.numpy()
    with pytest.raises(ClosedError):
        context.zeros(4)
    with pytest.raises(ClosedError):
        tensor.to(Placement())


def test_a_with_block_that_fails_frees_too():
    kept = []
    with pytest.raises(ZeroDivisionError), Context() as context:
        kept.append(context.zeros(16).to(Placement.one()))
        raise ZeroDivisionError
    assert context.memory_stats().used == 0
    kept.clear()
    assert context.is_pristine


def test_closing_reports_what_was_left_once():
    context = Context()
    tensor = context.zeros((2, 3), "f16").to(Placement.one())
    report = context.close()
    assert report.tensors == ("a tensor of 2x3 f16 on 1 PEs, 12 bytes",)
    assert not report.is_clean
    assert str(report) == report.tensors[0]
    assert context.close().is_clean
    del tensor
    assert str(context.close()) == "nothing was left"


def test_a_tensor_outlives_the_name_of_its_context():
    tensor = Context().arange(5).to(Placement.one())
    gc.collect()
    assert tensor.numpy().tolist() == [0, 1, 2, 3, 4]
    assert tensor.context.memory_stats().tensors == 1


def test_transfers_take_simulated_time(context):
    assert (context.now, context.now_ps) == (0.0, 0)
    tensor = context.zeros((256, 64)).to(ROWS)
    deployed = context.now_ps
    tensor.numpy()
    assert 0 < tensor.mapping_latency * 1000 < deployed < context.now_ps
    assert context.now == context.now_ps / 1000
    context.synchronize()


def test_a_thousand_tensors_leave_nothing_behind(context):
    array = np.ones((256, 256), np.float32)

    def make(count):
        for _ in range(count):
            assert context.from_numpy(array).to(Placement(pe="row_wise", cubes=1))[3].nbytes == 1024

    make(100)
    before = resident_bytes()
    make(1000)
    gc.collect()
    grown = resident_bytes() - before
    assert context.memory_stats().tensors == 0
    assert context._native.objects() == 0
    assert context.is_pristine
    # A thousand leaked arrays were 250 MiB.
    assert grown < 24 << 20, grown


def test_contexts_leave_nothing_behind():
    def make(count):
        for _ in range(count):
            with Context() as context:
                context.zeros((256, 64)).to(ROWS)

    make(3)
    before = resident_bytes()
    make(15)
    gc.collect()
    assert resident_bytes() - before < 24 << 20


def test_an_exhausted_memory_gives_its_numbers_and_takes_nothing(context):
    small = context.zeros(1024, "u8").to(Placement.one())
    big = context.empty(SLICE, "u8")
    with pytest.raises(OutOfMemory, match="sip0.cube0.pe0") as caught:
        big.to(Placement.one())
    assert isinstance(caught.value, MemoryError)
    details = caught.value.details
    assert (details["requested"], details["capacity"]) == (SLICE, SLICE)
    assert details["free"] == details["largest_free"] == SLICE - 1024
    assert context.memory_stats().used == 1024
    del small
    assert big.to(Placement.one()).nbytes == SLICE


def test_without_data_there_are_times_but_no_values():
    array = np.ones((256, 64), np.float32)
    with Context(data=False) as quiet, Context() as context:
        tensor = quiet.from_numpy(array).to(ROWS)
        with pytest.raises(NoDataError, match="create it with data"):
            tensor.numpy()
        other = context.from_numpy(array).to(ROWS)
        other.numpy()
        assert quiet.now_ps == context.now_ps
        assert quiet.from_numpy(array).numpy()[0, 0] == 1.0
        assert tensor.read_from("sip0.cube0.pe0", 0, 64).values is None


def test_addresses_are_as_wanted():
    with Context(addressing="physical") as context:
        assert context.zeros(8).to(ROWS).va_base is None
        assert context.memory_stats().virtual_used == 0
    with Context() as context:
        assert context.zeros(8).to(ROWS).va_base == 1 << 51
    with Context(virtual_base=4 << 30) as context:
        assert context.zeros(8).to(ROWS).va_base == 4 << 30


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"addressing": "flat"}, "addressing='flat': expected 'virtual' or 'physical'"),
        ({"data": 1}, "data=1: expected True or False"),
        ({"virtual_base": -1}, "virtual_base=-1: expected a whole number"),
        ({"virtual_base": "4GiB"}, "virtual_base='4GiB': expected a whole number"),
        ({"topology": "no/such.yaml"}, "no/such.yaml"),
        ({"topology": 7}, "topology"),
    ],
)
def test_wrong_arguments_of_a_context_are_named(arguments, expected):
    with pytest.raises(InputError, match=expected):
        Context(**arguments)


def test_a_topology_is_read_from_a_file(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text("hbm:\n  chanel_bandwidth_gbs: 64\n")
    with pytest.raises(InputError, match=r"two.yaml:2:.*chanel_bandwidth_gbs"):
        Context(path)
    path.write_text("sips:\n  count: 1\n")
    with Context(path) as context, pytest.raises(InputError, match="there is no sip1"):
        context.zeros(4).to(Placement.one(1))


def test_an_unaligned_virtual_base_is_refused():
    with Context(virtual_base=12345) as context, pytest.raises(InputError, match="12345|0x3039"):
        context.zeros(4).to(Placement.one())


def test_a_tensor_of_another_context_is_refused(context):
    @cubeyard.jit
    def nothing(x, tl):
        pass

    with Context() as other:
        # Both contexts have an object of the same number.
        mine, foreign = (of.zeros((256, 4)).to(ROWS) for of in (context, other))
        with pytest.raises(InputError, match="another context"):
            context.launch(nothing, foreign)
        context.launch(nothing, mine)


def test_a_launch_reports_its_times(context):
    @cubeyard.jit
    def double(x, y, tl):
        tile = tl.load(x)
        tl.store(y, tile + tile)

    x = context.arange(1024, dtype="f32").view(256, 4).to(ROWS)
    y = context.zeros((256, 4)).to(ROWS)
    report = context.launch(double, x, y)
    assert (y.numpy() == 2 * x.numpy()).all()
    assert report.made_ps < report.started_ps < report.done_ps < context.now_ps
    assert len(report.pes) == 128
    assert report.max_ns == max(report.pes.values()) / 1000
    assert report.mean_ns == pytest.approx(sum(report.pes.values()) / 128 / 1000, abs=0.001)
    assert len(context.launch(double, x, y, cubes=[0], pes=[0, 3]).pes) == 2
    assert context.findings() == ()


def test_a_finding_names_kernel_and_line(context):
    @cubeyard.jit
    def careless(x, y, tl):
        tl.store(y, tl.load(x))

    x, y = context.empty((256, 4)).to(ROWS), context.zeros((256, 4)).to(ROWS)
    context.launch(careless, x, y)
    finding, *others = context.findings()
    assert len(others) == 127
    assert (finding.kernel, finding.pe) == ("careless", "sip0.cube0.pe0")
    line = careless.function.__code__.co_firstlineno + 2
    assert finding.place == f"test_py_context.py:{line}"
    assert "reads memory that nobody wrote" in finding.what
    assert str(finding).startswith("careless on sip0.cube0.pe0")


def test_a_context_is_busy_within_its_own_kernel(context):
    caught = []

    @cubeyard.jit
    def nosy(x, tl):
        try:
            context.now
        except BusyError as error:
            caught.append(str(error))

    x = context.zeros((256, 4)).to(ROWS)
    context.launch(nosy, x)
    assert caught
    assert all("in use by the kernel" in text for text in caught)
    assert (x.numpy() == 0).all()


def test_threads_take_turns(context):
    failures = []

    def work(number):
        try:
            for turn in range(20):
                array = np.full((64, 16), number * 100 + turn, np.float32)
                tensor = context.from_numpy(array).to(ROWS)
                assert (tensor.numpy() == array).all()
                context.now
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert context.is_pristine


def test_other_threads_run_while_a_long_call_does(context):
    array = np.ones(32 << 20, np.uint8)
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.wait(0.001):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    tensor = context.from_numpy(array).to(ROWS)
    assert (tensor.numpy() == array).all()
    end = time.monotonic()
    stop.set()
    thread.join()
    during = [tick for tick in ticks if start < tick < end]
    # One tick each 20 ms at least, of one each millisecond.
    assert len(during) > (end - start) / 0.02


def in_child(act):
    """Runs `act` in a forked process; returns what it returns, a small number."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = act()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def test_a_forked_process_has_a_context_of_its_own(context):
    tensor = context.arange(4).to(Placement.one())
    before = context.now_ps

    def use():
        tensor.copy_(np.full(4, 9))
        return int(tensor.numpy().sum())

    assert in_child(use) == 36
    assert context.now_ps == before
    assert tensor.numpy().tolist() == [0, 1, 2, 3]


def test_a_context_that_another_thread_used_during_a_fork_is_busy(context):
    array = np.ones(64 << 20, np.uint8)
    thread = threading.Thread(target=lambda: context.from_numpy(array).to(ROWS))

    def use():
        try:
            context.now
        except BusyError as error:
            return 7 if "forked" in str(error) else 8
        return 9

    thread.start()
    codes = set()
    while thread.is_alive() and 7 not in codes:
        codes.add(in_child(use))
    assert codes - {9} == {7}
    thread.join()
    assert context.is_pristine


def test_the_package_loads_numpy_at_first_use():
    use = "cubeyard.Context().zeros(3).to(cubeyard.Placement())"
    code = f"import sys, cubeyard; {use}; assert 'numpy' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_representations_name_the_essentials(context):
    assert repr(context) == "<Context at 0.0 ns, 0 tensors, 0 bytes>"
    assert cubeyard.Context is Context

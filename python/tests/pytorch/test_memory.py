"""Memory of the devices: figures, limits, pressure, history and snapshots."""

from __future__ import annotations

import gc
import pathlib
import pickle
import threading

import pytest
import torch
from conftest import Script

import cubeyard.replay
from cubeyard.errors import InputError, OutOfMemory
from cubeyard.memory import Event

MEMORY = torch.ahbm.memory


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Every test gives back what it takes, and records no history."""
    gc.collect()
    before = torch.ahbm.memory_allocated(0), torch.ahbm.memory_allocated(1)
    yield
    MEMORY._record_memory_history(None)
    torch.ahbm.set_per_process_memory_fraction(1.0)
    gc.collect()
    assert (torch.ahbm.memory_allocated(0), torch.ahbm.memory_allocated(1)) == before


def test_figures_are_exact() -> None:
    torch.ahbm.reset_peak_memory_stats()
    torch.ahbm.reset_accumulated_memory_stats()
    base = torch.ahbm.memory_stats()
    x = torch.empty(1000, device="ahbm")
    y = torch.empty(3 << 18, device="ahbm")
    view = x[500:]
    stats = torch.ahbm.memory_stats()

    def change(key: str) -> int:
        return stats[key] - base[key]

    assert change("requested_bytes.all.current") == 4000 + (3 << 20)
    assert change("allocated_bytes.all.current") == 4096 + (3 << 20) == stats["allocated_bytes.all.allocated"]
    assert change("allocated_bytes.small_pool.current") == 4096 and change("allocated_bytes.large_pool.current") == 3 << 20
    assert change("allocation.all.current") == 2 == stats["allocation.all.allocated"]
    assert torch.ahbm.memory_allocated() == torch.accelerator.memory_allocated() == stats["allocated_bytes.all.current"]
    assert torch.ahbm.memory_reserved() == stats["reserved_bytes.all.current"] >= stats["active_bytes.all.current"]
    del x, y
    assert torch.ahbm.memory_allocated() == base["allocated_bytes.all.current"] + 4096, "a view holds its storage"
    assert torch.ahbm.max_memory_allocated() == stats["allocated_bytes.all.peak"]
    del view
    assert torch.ahbm.memory_stats()["allocated_bytes.all.freed"] == 4096 + (3 << 20)
    torch.ahbm.reset_max_memory_allocated()
    assert torch.ahbm.max_memory_allocated() == torch.ahbm.memory_allocated()
    torch.ahbm.reset_max_memory_reserved()
    assert torch.ahbm.max_memory_reserved() == torch.ahbm.memory_reserved()
    torch.ahbm.reset_accumulated_memory_stats()
    assert torch.ahbm.memory_stats()["allocated_bytes.all.freed"] == 0


def test_figures_are_those_of_the_accelerator_in_the_same_order() -> None:
    x = torch.empty(1000, device="ahbm:1")
    ours, theirs = torch.ahbm.memory_stats(1), torch.accelerator.memory_stats(1)
    assert list(ours.items()) == list(theirs.items()) and len(ours) >= 122
    nested = torch.ahbm.memory_stats_as_nested_dict("ahbm:1")
    assert nested["active_bytes"]["all"]["current"] == ours["active_bytes.all.current"]
    assert nested["num_ooms"] == ours["num_ooms"]
    assert torch.ahbm.get_memory_info(1) == torch.ahbm.mem_get_info(1) == torch.accelerator.get_memory_info(1)
    del x


def test_devices_have_figures_of_their_own() -> None:
    before = torch.ahbm.memory_allocated(0), torch.ahbm.memory_allocated(1)
    x = torch.empty(128, dtype=torch.uint8, device="ahbm:1")
    assert (torch.ahbm.memory_allocated(0), torch.ahbm.memory_allocated(1)) == (before[0], before[1] + 128)
    del x


def test_empty_cache_returns_free_regions() -> None:
    x = torch.empty(1 << 20, device="ahbm")
    assert torch.ahbm.memory_reserved() > 0
    del x
    gc.collect()
    if torch.ahbm.memory_allocated() == 0:
        torch.ahbm.empty_cache()
        free, total = torch.ahbm.mem_get_info()
        assert torch.ahbm.memory_reserved() == 0 and free == total
    torch.ahbm.empty_host_cache()


def test_a_fraction_limits_a_device() -> None:
    total = torch.ahbm.mem_get_info(1)[1]
    torch.ahbm.set_per_process_memory_fraction(0.0, 1)
    torch.ahbm.empty_cache()
    assert torch.ahbm.get_per_process_memory_fraction(1) == 0.0 and torch.ahbm.get_per_process_memory_fraction(0) == 1.0
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(total // 2, dtype=torch.uint8, device="ahbm:1")
    torch.ahbm.set_per_process_memory_fraction(1.0, 1)
    x = torch.empty(1000, device="ahbm:1")
    del x
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(InputError, match="fraction is"):
            torch.ahbm.set_per_process_memory_fraction(wrong)
    with pytest.raises(TypeError, match="fraction is 'half'"):
        torch.ahbm.set_per_process_memory_fraction("half")


def test_out_of_memory_has_the_report() -> None:
    ooms = torch.ahbm.memory_stats()["num_ooms"]
    with pytest.raises(torch.OutOfMemoryError, match=r"(?s)out of memory: wanted .*longest free range"):
        torch.empty(1 << 50, dtype=torch.uint8, device="ahbm")
    assert torch.ahbm.memory_stats()["num_ooms"] == ooms + 1


class Ring:
    """An object that only the garbage collector frees, with a tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.me = tensor, self


def longest(device: int = 0) -> int:
    """The longest block that the device can give now."""
    high, low = torch.ahbm.mem_get_info(device)[1], 0
    while high - low > 1 << 20:
        middle = (low + high) // 2
        try:
            torch.empty(middle, dtype=torch.uint8, device=f"ahbm:{device}")
            low = middle
        except torch.OutOfMemoryError:
            high = middle
    return low


def test_under_pressure_the_collector_runs_and_the_request_is_served() -> None:
    size = longest()
    collections: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            collections.append(1)

    gc.disable()
    gc.callbacks.append(count)
    try:
        for _ in range(4):
            Ring(torch.empty(size, dtype=torch.uint8, device="ahbm"))
        assert len(collections) == 3, "once for each request that did not fit"
    finally:
        gc.callbacks.remove(count)
        gc.enable()


def test_callbacks_see_the_report_and_may_drop_tensors(script: Script) -> None:
    program = """
reports, kept = [], []
def drop(report):
    reports.append(report)
    kept.clear()
torch.ahbm.on_pressure(drop)
torch.ahbm.on_pressure(lambda report: 1 / 0)
size = torch.ahbm.mem_get_info()[1] // 3
while not reports:
    kept.append(torch.empty(size, dtype=torch.uint8, device="ahbm"))
(report,) = reports
print(type(report).__name__, report.details["requested"] == size, len(kept))
"""
    done = script(program)
    assert done.stdout.split() == ["OutOfMemory", "True", "1"], done.stderr
    assert "ZeroDivisionError" in done.stderr, "an exception is reported"
    assert issubclass(OutOfMemory, MemoryError)
    with pytest.raises(InputError, match="callback is 3"):
        torch.ahbm.on_pressure(3)


def test_a_callback_is_taken_back(script: Script) -> None:
    program = """
reports, kept = [], []
def drop(report):
    reports.append(report)
    kept.clear()
def fill():
    size = torch.ahbm.mem_get_info()[1] // 3
    for _ in range(8):
        kept.append(torch.empty(size, dtype=torch.uint8, device="ahbm"))
with torch.ahbm.on_pressure(drop) as subscription:
    fill()
    print(subscription.is_active, len(reports) > 0)
before = len(reports)
try:
    fill()
except torch.OutOfMemoryError:
    print(subscription.is_active, len(reports) == before)
torch.ahbm.unlock_regions()
"""
    done = script(program)
    assert done.stdout.split() == ["True", "True", "False", "True"], done.stderr


def test_subscribers_see_tensors_come_and_go(tmp_path: pathlib.Path) -> None:
    seen = []
    with torch.ahbm.subscribe(seen.append):
        x = torch.empty(1000, device="ahbm")
        del x
    del seen[: [event.action for event in seen].index("alloc")]
    assert [(event.action, event.requested) for event in seen] == [
        ("alloc", 4000), ("free_requested", 4000), ("free_completed", 4000)
    ]  # fmt: skip
    torch.empty(1000, device="ahbm")
    assert len(seen) == 3, "the subscription has ended"
    with pytest.raises(InputError, match="callback is 3"):
        torch.ahbm.subscribe(3)
    with torch.ahbm.subscribe_rmm_log(tmp_path / "log.csv"):
        torch.empty(1000, device="ahbm")
    assert "allocate" in (tmp_path / "log.csv").read_text()


def test_threads_under_a_subscriber_end() -> None:
    """A thread that holds the GIL must not wait for the thread that delivers its events to Python."""
    live: dict[int, int] = {}

    def watch(event: Event) -> None:
        if event.action == "alloc":
            live[event.flat] = event.size
        elif event.action == "free_requested":
            live.pop(event.flat, None)

    def work() -> None:
        tensors = [torch.empty(size, device="ahbm") for size in range(1, 200)]
        while tensors:
            tensors.pop()  # freed by a thread that holds the GIL

    before = torch.ahbm.memory_allocated()
    with torch.ahbm.subscribe(watch):
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a deadlock"
        assert sum(live.values()) == torch.ahbm.memory_allocated() - before == 0


def test_threads_under_pressure_end() -> None:
    """Callbacks take the GIL while requests of other threads hold it and wait for the allocator."""
    size = longest() // 3
    gone = []

    def work() -> None:
        for _ in range(20):
            try:
                Ring(torch.empty(size, dtype=torch.uint8, device="ahbm"))
            except torch.OutOfMemoryError:
                pass
        gone.append(1)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(gone) == 4


def test_raw_memory_is_allocated_and_freed() -> None:
    before = torch.ahbm.memory_allocated(1)
    pointer = torch.ahbm.caching_allocator_alloc(1000, 1, torch.ahbm.Stream(1))
    assert pointer != 0 and torch.ahbm.memory_allocated(1) == before + 1024
    torch.ahbm.caching_allocator_delete(pointer)
    assert torch.ahbm.memory_allocated(1) == before
    with pytest.raises(InputError, match="mem_ptr is"):
        torch.ahbm.caching_allocator_delete(pointer)
    with pytest.raises(InputError, match="size is 0"):
        torch.ahbm.caching_allocator_alloc(0)


def test_pinned_host_memory_is_counted() -> None:
    before = torch.ahbm.host_memory_stats()
    x = torch.empty(10000, dtype=torch.uint8).pin_memory()
    after = torch.ahbm.host_memory_stats()
    assert x.is_pinned() and after["active_requests.current"] == before["active_requests.current"] + 1
    assert after["active_bytes.current"] - before["active_bytes.current"] >= 10000
    del x
    assert torch.ahbm.host_memory_stats()["active_requests.current"] == before["active_requests.current"]


def test_the_summary_shows_the_figures() -> None:
    x = torch.empty(3 << 18, device="ahbm")
    text, short = torch.ahbm.memory_summary(), torch.ahbm.memory_summary(abbreviated=True)
    lines = text.splitlines()
    assert len({len(line) for line in lines}) == 1, "a table"
    assert len(short.splitlines()) < len(lines) and "below 1 MiB" in text and "below 1 MiB" not in short
    (row,) = [line for line in short.splitlines() if line.startswith("| allocations")]
    assert row.split("|")[2].strip() == str(torch.ahbm.memory_stats()["allocation.all.current"])
    assert "Memory of ahbm:0" in text
    del x


def somewhere() -> torch.Tensor:
    return torch.empty(5000, device="ahbm")


def test_history_has_events_and_places() -> None:
    MEMORY._record_memory_history(max_entries=1000)
    x = somewhere()
    y = torch.empty(100, device="ahbm:1")
    pointer = x.data_ptr()
    del x
    whole = MEMORY._snapshot()
    first, second = whole["device_traces"][:2]
    assert len(whole["device_traces"]) == torch.ahbm.device_count()
    events = [event for event in first if event["size"] == 20000]
    assert [event["action"] for event in events] == ["alloc", "free_requested", "free_completed"]
    assert len({event["addr"] for event in events}) == 1 and pointer != 0
    names = [frame["name"] for frame in events[0]["frames"]]
    assert names[:2] == ["somewhere", "test_history_has_events_and_places"]
    assert events[0]["frames"][0]["filename"] == __file__
    assert [event["size"] for event in second if event["action"] == "alloc"] == [400]
    assert {segment["device"] for segment in whole["segments"]} == {0, 1}
    (block,) = [
        block
        for segment in whole["segments"]
        for block in segment["blocks"]
        if segment["device"] == 1 and block["requested_size"] == 400 and block["state"] == "active_allocated"
    ]
    assert block["frames"][0]["filename"] == __file__
    one = MEMORY._snapshot(1)
    assert {segment["device"] for segment in one["segments"]} == {1} and one["device_traces"][0] == []
    MEMORY._record_memory_history(None)
    z = somewhere()
    assert all(event["size"] != 20000 or event["action"] != "alloc" for event in MEMORY._snapshot()["device_traces"][0][3:])
    del y, z


def test_history_is_limited_cleared_and_reduced() -> None:
    MEMORY._record_memory_history(max_entries=4, device=0)
    for _ in range(10):
        somewhere()
    assert len(MEMORY._snapshot(0)["device_traces"][0]) == 4
    MEMORY._record_memory_history(max_entries=4, device=0)
    assert len(MEMORY._snapshot(0)["device_traces"][0]) == 4, "the same again keeps what was recorded"
    MEMORY._record_memory_history(max_entries=4, device=0, clear_history=True)
    assert MEMORY._snapshot(0)["device_traces"][0] == []
    MEMORY._record_memory_history(context=None)
    x = somewhere()
    assert {len(event["frames"]) for event in MEMORY._snapshot()["device_traces"][0]} == {0}
    MEMORY._record_memory_history("state")
    y = somewhere()
    state = MEMORY._snapshot()
    assert not any(state["device_traces"])
    frames = [block["frames"] for segment in state["segments"] for block in segment["blocks"] if block["state"] != "inactive"]
    assert any(stack and stack[0]["name"] == "somewhere" for stack in frames)
    del x, y


@pytest.mark.parametrize(
    ("name", "value"), [("enabled", "some"), ("context", "none"), ("stacks", "cpp"), ("max_entries", 0), ("max_entries", True)]
)
def test_what_history_cannot_do_is_named(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"{name} is {value!r}"):
        MEMORY._record_memory_history(**{name: value})
    with pytest.raises(InputError, match="augment_with_fx_traces"):
        MEMORY._snapshot(augment_with_fx_traces=True)


VIEWER = "import runpy, torch.cuda._memory_viz as viewer; runpy.run_path(viewer.__file__, run_name='__main__')"


def test_a_dump_is_read_by_the_viewer_and_replayed_to_the_byte(script: Script, tmp_path: pathlib.Path) -> None:
    MEMORY._record_memory_history(clear_history=True)
    for device in (0, 1):
        torch.ahbm.reset_peak_memory_stats(device)
    kept = [torch.empty(1000 * (index + 1), device="ahbm") for index in range(20)]
    del kept[::2]
    more = torch.empty(1 << 20, device="ahbm:1")
    path = tmp_path / "snapshot.pickle"
    MEMORY._dump_snapshot(path)
    assert path.read_bytes()[:2] == b"\x80\x04", "the browser's viewer reads version 4 at most"
    snapshot = pickle.loads(path.read_bytes())
    assert snapshot["segments"] == MEMORY._snapshot()["segments"]
    for command in ("trace", "stats"):
        done = script(VIEWER, command, str(path))
        assert done.stdout, (command, done.stderr)
    replayed = {result.trace: result for result in cubeyard.replay.compare(path).results}
    assert sorted(replayed) == ["snapshot-device0", "snapshot-device1"]
    for device in (0, 1):
        blocks = [block for one in snapshot["segments"] if one["device"] == device for block in one["blocks"]]
        live = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
        assert live == torch.ahbm.memory_allocated(device) > 0
        result = replayed[f"snapshot-device{device}"]
        assert result.peak_live_bytes == torch.ahbm.max_memory_allocated(device)
        assert result.recorded_reserved_bytes == torch.ahbm.memory_reserved(device)
    del kept, more

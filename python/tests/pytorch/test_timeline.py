"""Timelines: what the devices did in simulated time, and the allocated bytes meanwhile."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from doubling import doubled

import cubeyard.torch.distributed as ahbm
import cubeyard.triton
from cubeyard.errors import InputError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "torch_timeline.py"


def spans(timeline: Any) -> list[tuple[Any, ...]]:
    return [(span.kind, span.name, span.track, len(span.pes)) for span in timeline.spans]


def test_work_is_on_the_track_of_its_stream(device: str) -> None:
    x, side = torch.ones(1000, device=device), torch.ahbm.Stream()
    torch.ahbm.synchronize()
    with torch.ahbm.record_timeline() as timeline:
        doubled(x)
        with torch.ahbm.stream(side), cubeyard.triton.record(cubes=(1, 2, 5)):
            torch.ahbm._sleep(50)
            doubled(x)
        x.t()  # takes no time
    track = f"ahbm:0 stream {side.stream_id}"
    wanted = [("launch", "double", "ahbm:0 stream 0", 128), ("sleep", "sleep", track, 0), ("launch", "double", track, 24)]
    assert spans(timeline) == wanted
    first, sleep, second = timeline.spans
    assert (sleep.begin_ps, sleep.duration_ns) == (first.begin_ps, 50)
    assert second.begin_ps == max(sleep.end_ps, first.end_ps), "the kernels share PEs"
    assert {pe[1] for pe in second.pes} == {1, 2, 5}
    doubled(x)
    assert len(timeline.spans) == 3, "nothing is recorded after the block"


def test_timelines_may_be_nested_and_end_with_an_exception(device: str) -> None:
    with pytest.raises(KeyError), torch.ahbm.record_timeline() as outer:
        torch.ahbm._sleep(1)
        with torch.ahbm.record_timeline() as inner:
            torch.ahbm._sleep(2)
        torch.ahbm._sleep(3)
        raise KeyError
    torch.ahbm._sleep(4)
    assert [[span.duration_ns for span in one.spans] for one in (outer, inner)] == [[1, 2, 3], [2]]
    assert set(outer.memory) == set(range(torch.ahbm.device_count()))


def test_blocks_are_allocated_and_freed_in_the_order_of_their_streams(device: str) -> None:
    before = torch.ahbm.memory_allocated()
    with torch.ahbm.record_timeline() as timeline:
        torch.ahbm.synchronize()
        start = round(torch.ahbm.clock() * 1000)
        first = torch.empty(1000, device=device)
        torch.ahbm._sleep(100)
        second = torch.empty(2000, device=device)
        del first
        torch.ahbm._sleep(50)
        del second
    found = [(time - start, size - before) for time, size in timeline.memory[0]][-3:]
    assert found == [(0, 4096), (100_000, 8064), (150_000, 0)]


@pytest.mark.parametrize("seed", range(20))
def test_the_last_figure_is_the_allocator_s(seed: int, device: str) -> None:
    of, kept = random.Random(seed), []
    streams = [torch.ahbm.default_stream(), torch.ahbm.Stream(), torch.ahbm.Stream()]
    with torch.ahbm.record_timeline() as timeline:
        for _ in range(60):
            with torch.ahbm.stream(of.choice(streams)):
                step = of.randrange(4)
                if step == 0:
                    torch.ahbm._sleep(of.randrange(100))
                elif step == 1 and kept:
                    kept.pop(of.randrange(len(kept)))
                else:
                    kept.append(torch.empty(of.randrange(1, 5000), device=device))
    times, sizes = zip(*timeline.memory[0], strict=True)
    assert sizes[-1] == torch.ahbm.memory_allocated() and min(sizes) >= 0
    assert list(times) == sorted(set(times))
    kept.clear()
    gc.collect()


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    with torch.ahbm.record_timeline() as timeline:
        torch.ahbm._sleep(1)
    with pytest.raises(InputError, match="nowhere"):
        timeline.trace(tmp_path / "nowhere" / "x.pftrace")


# ---- Traces ----


@pytest.fixture(scope="module")
def program() -> Any:
    pytest.importorskip("perfetto")
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from trace_processor import Program

    return Program()


def rows(trace: Any, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(vars(row).values()) for row in trace.query(sql)]


SLICES = "SELECT track.name AS track, slice.name AS name, ts, dur FROM slice JOIN track ON track.id = track_id ORDER BY ts, track"
COUNTS = "SELECT counter_track.name AS track, ts, value FROM counter JOIN counter_track ON counter_track.id = track_id ORDER BY track, ts"
STATS = "SELECT name, value FROM stats WHERE value != 0"


def test_perfetto_reads_a_timeline(program: Any, tmp_path: Path, device: str) -> None:
    x, side = torch.ones(1000, device=device), torch.ahbm.Stream()
    with torch.ahbm.record_timeline() as timeline:
        doubled(x)
        with torch.ahbm.stream(side):
            torch.ahbm._sleep(70)
            y = torch.ones(3000, device=device)
            doubled(y)
        del y
    trace = program.open(str(timeline.trace(tmp_path / "x.pftrace")))
    assert rows(trace, STATS) == []
    wanted = [(span.track, span.name, span.begin_ps, span.end_ps - span.begin_ps) for span in timeline.spans]
    assert rows(trace, SLICES) == sorted(wanted, key=lambda row: (row[2], row[0]))
    counts = [(f"ahbm:{device} allocated bytes", *value) for device, values in timeline.memory.items() for value in values]
    assert rows(trace, COUNTS) == counts
    details = rows(trace, "SELECT DISTINCT key, display_value FROM args WHERE key LIKE 'debug.%' ORDER BY key, display_value")
    found = {(key.removeprefix("debug."), value) for key, value in details}
    assert found == {
        ("kind", "launch"), ("kind", "sleep"), ("kind", "operator"), ("source", "pointwise pages"), ("pes", "128"), ("sips", "0"), ("cubes", "0-15"), ("pes of each cube", "0-7"),
    }  # fmt: skip


def test_collectives_are_on_the_timeline() -> None:
    def worker(rank: int) -> None:
        ahbm.init_process_group("ahbm")
        x = torch.ones(1000, device=f"ahbm:{rank}")
        torch.ahbm.set_device(rank)
        doubled(x)
        ahbm.all_reduce(x)
        assert x.eq(4).all()
        doubled(x)
        ahbm.destroy_process_group()

    with torch.ahbm.record_timeline() as timeline:
        report = ahbm.spawn(worker, nprocs=2)
    [call] = report.calls
    torch.ahbm.synchronize(0)
    torch.ahbm.synchronize(1)
    for rank in range(2):
        first, second = (span for span in timeline.spans if (span.kind, span.track) == ("launch", f"ahbm:{rank} stream 0"))
        [reduced] = (span for span in timeline.spans if span.track.startswith(f"rank {rank}: "))
        assert (reduced.kind, reduced.name) == ("collective", "all_reduce")
        assert (reduced.begin_ns, reduced.duration_ns) == pytest.approx((call.start_ns, call.time_ns))
        assert first.end_ps <= reduced.begin_ps and reduced.end_ps <= second.begin_ps


def test_the_example_runs(program: Any, tmp_path: Path) -> None:
    file, picture = tmp_path / "timeline.pftrace", tmp_path / "timeline.svg"
    done = subprocess.run([sys.executable, str(EXAMPLE), str(file), str(picture)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    trace = program.open(str(file))
    assert rows(trace, STATS) == []
    names = {(track, name) for track, name, *_ in rows(trace, SLICES)}
    assert {name for _, name in names} == {"scale", "shift", "all_reduce", "aten::ones", "copy to host"}
    assert len({track for track, _ in names}) == 6, "two streams and a group for each rank"
    drawing = picture.read_text(encoding="utf-8")
    assert [drawing.count(f"<title>{name}, ") for name in ("scale", "shift", "all_reduce")] == [2, 2, 2]
    assert "<title>65536 bytes, 0 to 1093.6 ns" in drawing

"""Faults of a world: every rank is told who waits for what, and no process and no memory is left behind."""

from __future__ import annotations

import os
import re
import signal
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dist_ranks import SMALL
from template import Running, Template

MARK = "CUBEYARD_TEST_WORLD"
PRELUDE = """
    import os, sys, time, datetime, signal
    import torch, torch.distributed as dist
    import cubeyard.torch.distributed as ahbm
    torch.set_num_threads(1)
    ahbm.register()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    timeout = float(os.environ.get("TIMEOUT", "30"))
    def init(**more):
        dist.init_process_group("ahbm", timeout=datetime.timedelta(seconds=timeout), **more)
    def machine():
        return dist.distributed_c10d.GroupMember.WORLD.ahbm_rank.link.machine
    def all_reduce(size=4):
        dist.all_reduce(torch.ones(size))
"""
ENDED = r"DistBackendError: ahbm: all_reduce: the process of the machine \(\d+\) has ended"
SILENT = r"DistBackendError ahbm: all_reduce: the process of the machine \(\d+\) has not answered for 7 s"


class World:
    """Processes of a test, found by a mark in their environment or by their session, and what they have said."""

    def __init__(self, template: Template, folder: Path) -> None:
        self.template, self.folder, self.mark = template, folder, f"{MARK}={folder}".encode()
        self.processes: list[Running] = []
        (folder / "topology.yaml").write_text(SMALL)

    def start(self, body: str, ranks: int = 2, port: int = 0, **variables: str) -> None:
        program = textwrap.dedent(PRELUDE) + textwrap.dedent(body)
        port = port or free_port()
        for rank in range(ranks):
            environment = {
                **os.environ,
                MARK: str(self.folder),
                "CUBEYARD_TOPOLOGY": str(self.folder / "topology.yaml"),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                **variables,
            }
            self.processes.append(self.template.start(self.folder, program, environment=environment))

    def outputs(self, timeout: float = 90) -> list[str]:
        """What each process has said, once all have ended: its errors, then its output."""
        said = [process.communicate(timeout=timeout) for process in self.processes]
        return [errors + output for output, errors in said]

    def alive(self) -> list[str]:
        """Processes with the mark, or of the session of a rank, that have not ended; a zombie has."""
        found, sessions = [], {str(process.pid) for process in self.processes}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                environment = (entry / "environ").read_bytes()
                state, _, _, session = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:4]
                if (self.mark in environment or session in sessions) and state != "Z":
                    found.append(f"{entry.name} {(entry / 'cmdline').read_bytes().decode()[:60]}")
            except OSError:
                continue
        return found

    def check_gone(self) -> None:
        """Waits a little for the last processes; none may be left, nor anything in shared memory."""
        ends = time.monotonic() + 10
        while (found := self.alive()) and time.monotonic() < ends:
            time.sleep(0.05)
        assert found == []

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


@pytest.fixture
def world(template: Template, tmp_path: Path) -> Iterator[World]:
    before = set(os.listdir("/dev/shm"))
    made = World(template, tmp_path)
    try:
        yield made
        made.check_gone()
        left = {name for name in set(os.listdir("/dev/shm")) - before if "cubeyard" in name}
        assert left == set()
    finally:
        made.end()


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def last_line(output: str) -> str:
    return next(line for line in reversed(output.strip().splitlines()) if "Error" in line)


def test_a_rank_that_dies_is_named_to_the_others(world: World) -> None:
    world.start("""
        init()
        all_reduce()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        all_reduce()
    """, ranks=3)
    found = world.outputs()
    died = world.processes[1].pid
    for rank in (0, 2):
        assert f"DistBackendError: ahbm: all_reduce: rank 1 has ended (process {died})." in found[rank]
        assert "waits in all_reduce sum f32[4] at <string>:" in found[rank]
    assert [process.returncode for process in world.processes] == [1, -signal.SIGKILL, 1]


def test_a_rank_that_never_calls_is_named_when_the_timeout_ends(world: World) -> None:
    world.start("""
        init()
        all_reduce(8)
        start = time.monotonic()
        if rank == 0:
            try:
                all_reduce(16)
            finally:
                print("after", time.monotonic() - start, flush=True)
        else:
            time.sleep(6)
    """, TIMEOUT="3")
    found = world.outputs()
    assert "rank 0 has waited for 3 s. rank 0 waits in all_reduce sum f32[16] at <string>:" in found[0]
    assert re.search(r"rank 1 has not called; its last call was all_reduce sum f32\[8\] at <string>:\d+", found[0])
    assert 2.9 < float(re.findall(r"after ([\d.]+)", found[0])[0]) < 5
    assert world.processes[1].returncode == 0


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("dist.broadcast(torch.ones(4), 0)", "broadcast from 0 f32[4]"),
        ("dist.all_reduce(torch.ones(5))", "all_reduce sum f32[5]"),
    ],
)
def test_other_calls_and_shapes_are_told_to_both(world: World, other: str, expected: str) -> None:
    world.start(f"""
        init()
        if rank == 0:
            all_reduce()
        else:
            {other}
    """)
    for output in world.outputs():
        assert "calls of ranks do not match" in output
        assert "rank 0 waits in all_reduce sum f32[4] at <string>:" in output
        assert f"rank 1 waits in {expected} at <string>:" in output


def test_ranks_that_leave_are_named_to_those_that_wait(world: World) -> None:
    world.start("""
        init()
        all_reduce()
        if rank == 0:
            all_reduce()
        else:
            dist.destroy_process_group()
    """)
    found = world.outputs()
    assert "rank 1, for which rank 0 waits, has left its process group." in found[0]
    assert world.processes[1].returncode == 0


def test_a_machine_that_is_killed_ends_its_world(world: World) -> None:
    world.start("""
        init()
        all_reduce()
        if rank == 1:
            os.kill(machine(), signal.SIGKILL)
        else:
            time.sleep(1)
        all_reduce()
    """)
    found = world.outputs()
    assert re.search(ENDED + ", killed by signal 9", found[0])
    assert re.search(ENDED, found[1])


def test_a_machine_that_stops_answering_is_given_up(world: World) -> None:
    world.start("""
        init()
        all_reduce()
        stopped = machine()
        if rank == 1:
            os.kill(stopped, signal.SIGSTOP)
        else:
            time.sleep(1)
        try:
            all_reduce()
        except Exception as error:
            print(type(error).__name__, error, flush=True)
        if rank == 1:
            time.sleep(3)
            os.kill(stopped, signal.SIGKILL)
        os._exit(0)
    """, TIMEOUT="2")
    for output in world.outputs():
        assert re.search(SILENT, output)


def test_a_port_that_is_taken_is_pytorchs_error_and_leaves_nothing(world: World) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        world.start("init()", ranks=1, port=taken.getsockname()[1])
        (found,) = world.outputs()
    assert "EADDRINUSE" in found
    assert world.processes[0].returncode == 1


def test_two_worlds_on_one_host_do_not_meet(world: World) -> None:
    body = """
        init()
        tensor = torch.full((4,), float(os.environ["VALUE"]) + rank)
        dist.all_reduce(tensor)
        print("sum", tensor[0].item(), machine(), flush=True)
        dist.destroy_process_group()
    """
    world.start(body, VALUE="1")
    world.start(body, VALUE="10")
    found = [re.findall(r"sum ([\d.]+) (\d+)", output)[0] for output in world.outputs()]
    assert [float(total) for total, _ in found] == [3.0, 3.0, 21.0, 21.0]
    assert len({machine for _, machine in found}) == 2


def test_a_world_that_outlives_its_parent_ends_by_itself(world: World) -> None:
    """A launcher is killed in the middle; its ranks go on, end, and take the machine with them."""
    rank = textwrap.dedent(PRELUDE) + textwrap.dedent("""
        init()
        for step in range(20):
            all_reduce()
            time.sleep(0.1)
        open(os.environ["FOLDER"] + f"/done{rank}", "w").close()
    """)
    launcher = f"""
        import subprocess
        for rank in range(2):
            environment = {{**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"}}
            subprocess.Popen([sys.executable, "-c", {rank!r}], env=environment)
        time.sleep(600)
    """
    world.start(launcher, ranks=1, FOLDER=str(world.folder))
    ends = time.monotonic() + 60
    while len(world.alive()) < 4 and time.monotonic() < ends:
        time.sleep(0.1)
    assert len(world.alive()) == 4, "a launcher, two ranks and a machine"
    world.processes[0].kill()
    while len(world.alive()) and time.monotonic() < ends:
        time.sleep(0.1)
    assert [(world.folder / f"done{rank}").exists() for rank in range(2)] == [True, True]


def test_a_second_world_in_the_store_of_the_first(world: World) -> None:
    world.start("""
        store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), ranks, rank == 0)
        for turn in range(3):
            init(rank=rank, world_size=ranks, store=store)
            all_reduce(turn + 1)
            dist.destroy_process_group()
        print([call.bytes for call in ahbm.report().calls], flush=True)
        store.add("done", 1)
        while rank == 0 and store.add("done", 0) < ranks:
            time.sleep(0.1)
    """)
    assert [output.strip().splitlines()[-1] for output in world.outputs()] == ["[12]"] * 2


def test_a_group_beside_a_default_group_of_another_backend_has_a_machine(world: World) -> None:
    world.start("""
        dist.init_process_group("gloo")
        group = dist.new_group([1, 2], backend="ahbm")
        if rank:
            tensor = torch.full((3,), float(rank))
            dist.all_reduce(tensor, group=group)
            assert tensor.tolist() == [3.0] * 3
            print(group.ahbm_rank.report().calls[0].ranks, flush=True)
        dist.barrier()
        dist.destroy_process_group()
    """, ranks=3)
    assert ["(1, 2)" in output for output in world.outputs()] == [False, True, True]


def test_rank_0_may_end_before_the_others(world: World) -> None:
    world.start("""
        init()
        pair = dist.new_group([1, 2])
        all_reduce()
        if rank:
            time.sleep(2)
            dist.all_reduce(torch.ones(3), group=pair)
            print("done", flush=True)
    """, ranks=3)
    found = world.outputs()
    assert ["done" in output for output in found] == [False, True, True]
    assert [process.returncode for process in world.processes] == [0, 0, 0]


def test_ranks_that_are_missing_are_named(world: World) -> None:
    world.start("""
        store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), None, True, wait_for_workers=False)
        init(rank=0, world_size=2, store=store)
    """, ranks=1, TIMEOUT="2")
    (found,) = world.outputs()
    assert "DistributedError: rank 1 has not joined within 2 s, the timeout of the group" in found


def test_a_world_that_is_too_large_is_told_to_all(world: World) -> None:
    world.start("init()", CUBEYARD_TOPOLOGY="", CUBEYARD_SIPS="1")
    for output in world.outputs():
        assert last_line(output).endswith(
            "InputError: the world has 2 ranks, one per SIP, but the default machine has only 1. Set CUBEYARD_SIPS=2, "
            "or CUBEYARD_TOPOLOGY to a topology file with at least 2 SIPs, or start at most 1 ranks"
        )


def test_a_second_process_of_a_rank_is_refused_and_the_world_goes_on(world: World) -> None:
    """The second one waited for ranks of a world that nobody else joined, until the timeout of the group."""
    body = """
        from pathlib import Path
        port, first = int(os.environ["MASTER_PORT"]), bool(os.environ.get("FIRST"))
        store = dist.TCPStore("127.0.0.1", port, is_master=first, wait_for_workers=False)
        sign = Path(os.environ["CUBEYARD_TEST_WORLD"])
        if os.environ.get("LATE"):
            while not (sign / "joined").exists():
                time.sleep(0.02)
        try:
            init(store=store, rank=rank, world_size=ranks)
        except Exception as error:
            print(type(error).__name__, error)
            (sign / "refused").touch()
            sys.exit(3)
        all_reduce()
        (sign / "joined").touch()
        while not (sign / "refused").exists():
            time.sleep(0.02)
        one = torch.ones(2)
        dist.all_reduce(one)
        print("sum", one.tolist())
        dist.barrier()
    """
    port = free_port()
    for rank, more in ((0, {"FIRST": "1"}), (1, {}), (1, {"LATE": "1"})):
        world.start(body, ranks=1, port=port, RANK=str(rank), WORLD_SIZE="2", **more)
    first, second, late = world.outputs()
    assert "sum [2.0, 2.0]" in first and "sum [2.0, 2.0]" in second, first + second
    pids = [process.pid for process in world.processes]
    assert f"process {pids[2]} cannot join as rank 1: process {pids[1]} is rank 1 of this world, which goes on" in late, late
    assert [process.returncode for process in world.processes] == [0, 0, 3]

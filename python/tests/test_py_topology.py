"""Topologies and machines: every form of the argument, overrides, hashes, errors."""

import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import cubeyard
import numpy as np
import pytest
from cubeyard import Machine, Topology
from cubeyard.errors import InputError, MachineWarning
from cubeyard.machine import topology

ROOT = Path(__file__).resolve().parent.parent.parent


def test_every_form_of_a_machine_is_the_same_machine(tmp_path):
    text = "hbm: {channel_bandwidth_gbs: 16, bytes_per_cube: 24 GiB}\nsips: {count: 1}\n"
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    machine = Topology.from_yaml(text)
    forms = [
        str(path),
        path,
        {"hbm": {"channel_bandwidth_gbs": 16, "bytes_per_cube": "24 GiB"}, "sips": {"count": 1}},
        {"hbm.channel_bandwidth_gbs": 16.0, "hbm.bytes_per_cube": 24 << 30, "sips.count": np.int64(1)},
        {"hbm": {"channel_bandwidth_gbs": np.float32(16)}, "hbm.bytes_per_cube": "24576 MiB", "sips.count": 1},
        machine,
        machine.to_dict(),
        Machine(path).topology,
    ]
    for form in forms:
        assert Topology(form) == machine, form
        assert Topology(form).hash == machine.hash, form
        assert hash(Topology(form)) == hash(machine)
        assert Machine(form) == Machine(machine)
    assert Topology() != machine
    assert topology.resolve(Machine(machine)) is not None
    assert cubeyard.probe("pe-dma-local", topology=Machine(machine)) == cubeyard.probe("pe-dma-local", topology=path)


def test_the_default_file_is_the_default_machine():
    assert Topology.from_yaml(topology.DEFAULT) == Topology()
    assert Topology.from_yaml(topology.DEFAULT).hash == Topology().hash
    assert topology.DEFAULT == (ROOT / "crates/device/src/topology/default.yaml").read_text()


def test_files_of_the_repository_are_read():
    paths = sorted((ROOT / "topologies").glob("*.yaml"))
    assert paths
    hashes = set()
    for path in paths:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MachineWarning)
            machine = Topology(path)
            assert Topology.from_yaml(machine.to_yaml()) == machine
        hashes.add(machine.hash)
    assert len(hashes) == len(paths)


def test_values_are_found_by_key():
    machine = Topology()
    assert machine["hbm.channel_bandwidth_gbs"] == 32
    assert machine["pe.mmu.strict"] is False
    assert machine["pe.core.gemm.tile"] == [32, 64, 32]
    assert machine["ns_per_mm"] == 0.01
    assert machine["hbm.rows"] == "none"
    for key in ["hbm.chanel", "flit_bytes.x", "", "hbm."]:
        with pytest.raises(KeyError):
            machine[key]


def test_overrides_are_laid_over_a_machine():
    base = Topology({"sips.count": 4, "sips.topology": "torus_2d"})
    assert base["sips"] == {"count": 4, "topology": "torus_2d", "w": 2, "h": 2}
    ring = base.with_({"sips.topology": "ring_1d", "hbm.turn_around_ns": 5})
    assert ring["sips"] == {"count": 4, "topology": "ring_1d"}
    assert ring["hbm.turn_around_ns"] == 5
    assert base["hbm.turn_around_ns"] == 0
    six = base.with_({"sips": {"count": 6, "w": 3, "h": 2}})
    assert six.figures().sip_grid == (3, 2)
    rows = {"banks": 16, "row_bytes": "1 KiB", "activate_ns": 14, "precharge_ns": 14}
    assert base.with_({"hbm.rows": rows}).with_({"hbm.rows": None}) == base


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hbm.chanels": 1}, r"hbm.chanels=1: hbm: expected a known key, found `chanels`; the nearest is `"),
        ({"hbm.channel_bandwidth_gbs": "fast"}, r"channel_bandwidth_gbs=fast: expected a number of GB/s"),
        ({"hbm.channel_bandwidth_gbs": -1}, r"channel_bandwidth_gbs=-1: expected a number of GB/s"),
        ({"hbm.channel_bandwidth_gbs": float("nan")}, r"channel_bandwidth_gbs=NaN: expected a number of GB/s"),
        ({"sips.count": 10**30}, r"sips.count=10+: expected a whole number from 1 to 16"),
        ({"sips.count": True}, r"sips.count=true: expected a whole number"),
        ({"hbm.burst_bytes": 512}, r"hbm.burst_bytes=512: flit_bytes: expected a multiple of hbm.burst_bytes, 512"),
        ({"hbm": 5}, r"hbm=5: expected a mapping, or a key such as hbm\.bytes_per_cube, found 5"),
        ({"hbm": {"link": object()}}, r"hbm.link: expected a dictionary, list, text, number, truth value or None"),
        ({"hbm": {5: 1}}, r"hbm: expected text as a key, found 5"),
        ({"pe.routers": b"r0c0"}, r"pe.routers"),
        ("no/such.yaml", r"topology: no/such.yaml: No such file"),
        ("cubes: {w: 2}", r"to read YAML text, use Topology.from_yaml"),
        ("a\0b", r"topology: "),
        (7, r"topology=7: expected None, a path, a dictionary or a Topology"),
        ([1], r"topology=\[1\]: expected None"),
    ],
)
def test_what_is_refused_says_what_was_expected(given, message):
    with pytest.raises(InputError, match=message):
        Topology(given)


def test_deep_and_endless_data_is_refused():
    endless = {}
    endless["hbm"] = endless
    with pytest.raises(InputError, match="at most 16 levels"):
        Topology(endless)
    with pytest.raises(InputError, match="expected a dictionary of keys and values, found \\[\\]"):
        Topology().with_([])
    with pytest.raises(InputError, match="text=b''"):
        Topology.from_yaml(b"")
    with pytest.raises(InputError, match="mine:2: hbm: expected a known key"):
        Topology.from_yaml("hbm:\n  burst: 1\n", "mine")


def test_bandwidth_that_nothing_reaches_is_a_warning():
    with pytest.warns(MachineWarning, match="hbm.link carries 256 GB/s each way: reads alone"):
        fast = Topology({"hbm.channel_bandwidth_gbs": 64})
    assert len(fast.warnings) == 1
    assert fast.figures().warnings == fast.warnings
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Topology().warnings == ()


def test_a_topology_travels():
    machine = Topology({"cubes": {"w": 2, "h": 1}, "pe.mmu.strict": True})
    again = pickle.loads(pickle.dumps(machine))
    assert (again, again.hash, again.to_dict()) == (machine, machine.hash, machine.to_dict())


def test_a_hash_is_the_same_in_another_process():
    script = "import cubeyard; print(cubeyard.Topology({'flit_bytes': '512 B'}).hash)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == Topology({"flit_bytes": 512}).hash


def test_figures_and_text_are_those_of_the_command(command):
    machine = Topology()
    assert machine.figures().to_dict() == command("topology")
    assert str(machine) == command.text("topology")
    assert machine.draw("cube") == command.text("topology", "--view", "cube")
    html = machine._repr_html_()
    assert "256 PEs in all" in html
    assert html.count("<svg") == 4
    with pytest.raises(InputError, match='level="core": expected one of system, sip, cube, pe'):
        machine.draw("core")


def test_a_machine_measures_on_itself():
    slow = Machine({"hbm.channel_bandwidth_gbs": 16})
    transfer = {"op": "read", "from": "sip0.cube0.pe0", "to": "sip0.cube0.pe0.hbm"}
    times = [slow.probe(pattern=[transfer | {"bytes": size}]).makespan_ns for size in (1 << 19, 1 << 20)]
    # Eight channels of 16 GB/s give the second half at 128 GB/s.
    assert times[1] - times[0] == pytest.approx((1 << 19) / 128)
    assert slow.validate(family="published figures").checks[0].verdict == "left out"
    with slow.context() as context:
        assert float(context.ones((4,)).numpy().sum()) == 4
    assert "256 PEs in all" in str(slow)
    # A copy is bound by the memory, which takes twice as long.
    times = [machine.run("vector-add", elements=1 << 20).kernel_ns for machine in (slow, Machine())]
    assert 1.5 < times[0] / times[1] < 2.1
    assert slow.collective(sizes=256, algorithm="auto").to_dict()["ranks"] == 2

"""`cubeyard.compare`: runs, records and files, the same as the command compares them."""

import json
import subprocess
import sys

import cubeyard
import pytest
from cubeyard.errors import InputError, VersionError

SMALL = {"m": 64, "k": 128, "n": 64}
SLOW = {"hbm": {"channel_bandwidth_gbs": 8}}


def command(*arguments):
    done = subprocess.run([sys.executable, "-m", "cubeyard", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Two records that the command has saved."""
    folder, given = tmp_path_factory.mktemp("records"), [f"--set={name}={value}" for name, value in SMALL.items()]
    paths = [folder / "a.json", folder / "b.json"]
    for path, more in zip(paths, [[], ["--with", "hbm.channel_bandwidth_gbs=8"]], strict=True):
        command("run", "gemm", *given, *more, "--save", str(path), "-q")
    return paths


def test_files_are_compared_as_by_the_command(saved):
    a, b = saved
    found = cubeyard.compare(a, b, names=(str(a), str(b)))
    assert found.to_dict() == json.loads(command("compare", str(a), str(b), "--format", "json"))
    assert str(found) == command("compare", str(a), str(b))
    assert found.version == cubeyard.__version__ and found.a["topology"] != found.b["topology"]


def test_runs_and_records_are_compared_alike(saved):
    a, b = cubeyard.run("gemm", **SMALL), cubeyard.run("gemm", topology=SLOW, **SMALL)
    found = cubeyard.compare(a, b)
    assert found.times == cubeyard.compare(*saved).times
    assert found.verdict == found.times[0]["verdict"] and found.verdict.startswith("A is faster than B by")
    assert sum(part["share"] for part in found.times[0]["difference"]) == pytest.approx(1)
    assert "There is no difference" in cubeyard.compare(a, a).verdict
    assert found.machine == [{"name": "hbm.channel_bandwidth_gbs", "a": 32, "b": 8}]
    assert found.rows()[0]["a_ns"] == a.kernel_ns and found.rows()[0]["b_ns"] == b.kernel_ns
    parts = found.times[0]["path_ns"]
    assert sum(part["b"] - part["a"] for part in parts) == pytest.approx(b.kernel_ns - a.kernel_ns)
    # Records of sweeps hold no machine; that it is another one is known by its hash.
    records = cubeyard.compare(a.record(), b.record())
    assert records.times == found.times and records.machine == [] and records.other_machine
    assert "records do not say in which keys" in str(records)
    page = found.page()
    assert page.startswith("<!DOCTYPE html>") and "Critical paths of A and B" in page


def test_a_saved_record_is_read_with_its_machine(saved):
    record = cubeyard.Record.read(saved[1].read_text().strip())
    assert record.command is None and record.machine["hbm"]["channel_bandwidth_gbs"] == 8
    assert record.inputs["m"] == 64 and record.ok


def test_what_is_no_record_is_refused(saved, tmp_path):
    with pytest.raises(InputError, match="missing.json: No such file"):
        cubeyard.compare(saved[0], tmp_path / "missing.json")
    (tmp_path / "cut.json").write_text("{")
    with pytest.raises(InputError, match="cut.json: not a record"):
        cubeyard.compare(saved[0], tmp_path / "cut.json")
    newer = json.loads(saved[0].read_text()) | {"format": 99}
    (tmp_path / "newer.json").write_text(json.dumps(newer))
    with pytest.raises((InputError, VersionError), match="format 99"):
        cubeyard.compare(saved[0], tmp_path / "newer.json")

"""The engine against the slow reference: the same picosecond for every request."""

import json
import subprocess
from collections.abc import Iterator
from random import SystemRandom

import pytest
import reference
import scenarios
import traffic
from conftest import ROOT, built

SEED = 1
COUNT = 2000

# The order of events of testdata/patterns/busy.yaml. `crates/device/tests/it/determinism.rs` has the same
# number and runs without optimisation.
BUSY_HASH = "effe299c1a300897"


@pytest.fixture(scope="session")
def examples():
    """The paths of our examples."""
    return {name: built("example", name) for name in ("scenario", "export_scenario")}


@pytest.fixture(scope="session")
def engine(examples):
    """Runs scenarios through the engine, all in one process."""
    return lambda cases: run_engine(examples["scenario"], cases)


@pytest.fixture(scope="session")
def exported(examples, tmp_path_factory):
    """A pattern on a topology as a scenario, and what the machine itself made of it."""
    folder = tmp_path_factory.mktemp("patterns")

    def export(pattern, topology="{}"):
        (folder / "pattern.yaml").write_text(pattern)
        (folder / "topology.yaml").write_text(topology)
        files = [folder / "pattern.yaml", folder / "topology.yaml"]
        done = subprocess.run(
            [examples["export_scenario"], *files], check=True, stdout=subprocess.PIPE, text=True
        )
        scenario = json.loads(done.stdout)
        return scenario, scenario.pop("machine")

    return export


def run_engine(binary, cases):
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    outputs = []
    # Runs of flits as one event, and every flit by itself: the same, the order of events included.
    for options in (["--hash"], ["--hash", "--flits"]):
        done = subprocess.run([binary, *options], input=lines, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    results = [json.loads(line) for line in outputs[0].splitlines()]
    assert len(results) == len(cases)
    for result in results:
        del result["order_hash"]
    return results


def without_one_request(case) -> Iterator[dict]:
    for number in range(len(case["requests"])):
        kept = case["requests"][:number] + case["requests"][number + 1 :]
        if kept:
            yield {**case, "requests": kept}


def minimised(differs, case):
    """The scenario without the requests that it does not need in order to differ."""
    while smaller := next(filter(differs, without_one_request(case)), None):
        case = smaller
    return case


def compare(engine, seed, count, mixed, finite=False, rates=False):
    cases = list(scenarios.random_scenarios(seed, count, mixed, finite, rates))
    both = zip(cases, engine(cases), strict=True)
    different = next((case for case, result in both if result != reference.run(case)), None)
    if different is None:
        return
    case = minimised(lambda case: engine([case]) != [reference.run(case)], different)
    pytest.fail(
        f"seed {seed}, mixed {mixed}, finite {finite}, rates {rates}, scenario {cases.index(different)}, "
        "with fewer requests:\n"
        f"{json.dumps(case)}\nreference {reference.run(case)}\nengine    {engine([case])[0]}",
        pytrace=False,
    )


@pytest.mark.parametrize("mixed", [False, True])
def test_the_engine_gives_the_same_picosecond(engine, mixed):
    compare(engine, SEED, COUNT, mixed)


@pytest.mark.parametrize("mixed", [False, True])
def test_with_finite_buffers_it_does_as_well(engine, mixed):
    compare(engine, SEED, COUNT, mixed, finite=True)


@pytest.mark.parametrize("finite", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_with_headers_and_serial_nodes_it_does_as_well(engine, mixed, finite):
    compare(engine, SEED, COUNT, mixed, finite, rates=True)


def test_headers_and_serial_nodes_are_tried_where_they_matter():
    cases = list(scenarios.random_scenarios(SEED, COUNT // 4, mixed=True, rates=True))
    for key in ("header_bytes", "serial"):
        changed = [case for case in cases if reference.run(case) != reference.run(without(case, key))]
        assert len(changed) > len(cases) // 8, key


def without(case, key):
    nodes = [{name: value for name, value in node.items() if name != key} for node in case["nodes"]]
    return {name: value for name, value in case.items() if name != key} | {"nodes": nodes}


def test_finite_buffers_are_tried_where_they_matter():
    """A comparison that nothing waits in would hold nobody to anything."""
    cases = list(scenarios.random_scenarios(SEED, COUNT // 4, mixed=True, finite=True))
    changed = [case for case in cases if reference.run(case) != reference.run(unlimited(case))]
    assert len(changed) > len(cases) // 4


def unlimited(case):
    return {**case, "buffers": None}


@pytest.mark.parametrize("rates", [False, True])
@pytest.mark.parametrize("finite", [False, True])
def test_the_engine_gives_the_same_picosecond_for_scenarios_that_nobody_has_seen(engine, finite, rates):
    compare(engine, SystemRandom().getrandbits(32), COUNT // 4, mixed=True, finite=finite, rates=rates)


BUSY = (ROOT / "testdata" / "patterns" / "busy.yaml").read_text()


@pytest.mark.parametrize(
    ("pattern", "topology"),
    [
        (BUSY, "{}"),
        (traffic.traffic(transfers=64, size=5000, seed=3), "hbm: {turn_around_ns: 7}"),
        (traffic.traffic(transfers=40, size=300, seed=5), "ucie: {balance: true}"),
        (traffic.traffic(transfers=64, size=300, seed=7), "serial_nodes: all\nflit_header_bytes: 16"),
    ],
    ids=["busy", "turn-around", "balanced", "message-rate"],
)
def test_the_machine_its_graph_and_the_reference_agree(engine, exported, pattern, topology):
    """Three that must agree: the machine, its graph on the bare engine, and the slow reference."""
    scenario, machine = exported(pattern, topology)
    del machine["order_hash"]
    assert len(machine["latency_ps"]) == pattern.count("{op: ") > 0
    assert engine([scenario]) == [machine]
    assert reference.run(scenario) == machine


SMALL = "sips: {count: 1}\ncubes: {w: 2, h: 1}\nio: {chiplets: [W]}\n"


@pytest.mark.parametrize("arbiter", ["fifo", "round_robin", "oldest_first"])
def test_a_machine_with_finite_buffers_is_as_its_graph_and_the_reference(engine, exported, arbiter):
    pattern = "transfers:\n" + "".join(
        f"  - {{op: {op}, from: sip0.cube{cube}.pe{pe}, to: sip0.cube1.pe{pe // 2}.hbm, bytes: 3000}}\n"
        for cube in (0, 1)
        for pe in range(8)
        for op in ("read", "write")
    )
    places = f"buffers: {{flits: 16, arbiter: {arbiter}}}\n"
    scenario, machine = exported(pattern, SMALL + places)
    del machine["order_hash"]
    assert scenario["buffers"] == {"flits": 16, "arbiter": arbiter}
    assert engine([scenario]) == [machine]
    assert reference.run(scenario) == machine
    assert reference.run(unlimited(scenario)) != machine


def test_the_order_of_events_is_the_same_in_release(command):
    """The installed command is built for release."""
    assert command("probe", "--pattern", ROOT / "testdata/patterns/busy.yaml")["order_hash"] == BUSY_HASH


def test_a_difference_is_reported_with_the_requests_it_needs():
    """The comparison itself, with an engine that is a picosecond off for writes of one byte."""

    def wrong(cases):
        return [off_by_one(case, reference.run(case)) for case in cases]

    def off_by_one(case, result):
        asked = zip(case["requests"], result["latency_ps"], strict=True)
        off = [t + (r["bytes"] == 1 and r["op"] == "write") for r, t in asked]
        return {**result, "latency_ps": off}

    with pytest.raises(pytest.fail.Exception) as failure:
        compare(wrong, SEED, 50, mixed=False)
    [case] = [json.loads(line) for line in str(failure.value).splitlines() if line[0] == "{"]
    [request] = case["requests"]
    assert (request["bytes"], request["op"]) == (1, "write")

"""The slow reference against figures worked out by hand from the rules of time.

Unless a test says otherwise, flits and bursts are 256 bytes, a flit takes a link 1,000 ps, a wire
has no propagation, and a burst takes one of 8 channels 8,000 ps.
"""

import json
from random import Random

import pytest
import reference
import scenarios

GB = 10**9


def memory(channels=8, burst_ps=8000, turnaround_ps=0, burst_bytes=256):
    return {
        "burst_bytes": burst_bytes,
        "channels": channels,
        "burst_ps": burst_ps,
        "turnaround_ps": turnaround_ps,
    }


def node(overhead_ps=0, mode="end", memory=None):
    return {"overhead_ps": overhead_ps, "mode": mode, "memory": memory}


def transit(overhead_ps=0):
    return node(overhead_ps, "transit")


def store(overhead_ps=0):
    return node(overhead_ps, "store")


class Machine:
    """Nodes with names, linked both ways, and requests along paths of names."""

    def __init__(self, nodes, *edges, flit_bytes=256, bandwidth=256 * GB, propagation_ps=0):
        self.names = list(nodes)
        self.links = scenarios.link_all([self.edge(edge) for edge in edges])
        speeds = {self.edge(e)[::d]: s for e, s in self.per(edges, bandwidth) for d in (1, -1)}
        self.scenario = {
            "flit_bytes": flit_bytes,
            "nodes": list(nodes.values()),
            "links": [
                {
                    "from": a,
                    "to": b,
                    "bytes_per_second": speeds[a, b],
                    "propagation_ps": propagation_ps,
                    "reverse": self.links.index((b, a)),
                }
                for a, b in self.links
            ],
            "requests": [],
        }

    @staticmethod
    def per(edges, value):
        """A value for each edge, or one for all of them."""
        return ((edge, value[edge] if isinstance(value, dict) else value) for edge in edges)

    def edge(self, text):
        a, b = text.split()
        return self.names.index(a), self.names.index(b)

    def ask(self, op, path, size, address=0, at_ps=0):
        names = path.split()
        hops = zip(names, names[1:], strict=False)
        route = [self.links.index(self.edge(f"{a} {b}")) for a, b in hops]
        request = {"op": op, "route": route, "bytes": size, "address": address, "at_ps": at_ps}
        self.scenario["requests"].append(request)
        return self

    def run(self):
        return reference.run(self.scenario)

    def latencies(self):
        return self.run()["latency_ps"]

    def latency(self):
        [latency] = self.latencies()
        return latency


def local():
    """A PE and its memory at one router."""
    nodes = {"pe": node(), "router": transit(2000), "hbm": node(memory=memory())}
    return Machine(nodes, "pe router", "router hbm")


def direct(pe=0, hbm=0, bandwidth=256 * GB, propagation_ps=0, **options):
    nodes = {"pe": node(pe), "hbm": node(hbm, memory=memory(**options))}
    return Machine(nodes, "pe hbm", bandwidth=bandwidth, propagation_ps=propagation_ps)


def fork(router, **options):
    """Two PEs, and a memory behind the router that they share."""
    nodes = {"a": node(), "b": node(), "router": router, "hbm": node(memory=memory(**options))}
    return Machine(nodes, "a router", "b router", "router hbm")


@pytest.mark.parametrize(
    ("op", "size", "latency", "hops"),
    [
        # The command: 1 at the router, 2,001 asks, 2,002 at the memory, where eight bursts end
        # every 8,000, so that 10,002 + 1,000 j is when flit j starts. The router sends from
        # 11,002 + 2,000 without a gap.
        ("read", 16 << 10, 13_002 + 64 * 1000, 2 + 128),
        ("read", 32 << 10, 13_002 + 128 * 1000, 2 + 256),
        # Flit 0 is at the router at 1,000 and asks at 3,000. From then on one arrives every 1,000,
        # and finds its channel just free. The acknowledgement: 1, 2,000 and 1 again.
        ("write", 16 << 10, 3000 + 64 * 1000 + 8000 + 2002, 128 + 2),
        ("posted_write", 16 << 10, 3000 + 64 * 1000 + 8000, 128),
    ],
)
def test_a_local_transfer_takes_what_the_rules_say(op, size, latency, hops):
    result = local().ask(op, "pe router hbm", size).run()
    assert result == {"latency_ps": [latency], "flit_hops": hops}


def test_the_last_flit_is_short_and_its_burst_is_not():
    # One byte at 256 GB/s takes 3.9 ps, so it arrives at 1,004.
    assert direct().ask("posted_write", "pe hbm", 257).latency() == 1004 + 8000
    assert direct(channels=1).ask("posted_write", "pe hbm", 257).latency() == 1000 + 2 * 8000


def test_every_flit_is_rounded_up_to_a_picosecond():
    # 7,687.69 ps each.
    machine = direct(bandwidth=33_300_000_000).ask("posted_write", "pe hbm", 2560)
    assert machine.latency() == 10 * 7688 + 8000


def test_propagation_delays_but_does_not_occupy():
    machine = direct(propagation_ps=500)
    assert machine.ask("posted_write", "pe hbm", 512).latency() == 2000 + 500 + 8000


@pytest.mark.parametrize(("propagation_ps", "hop"), [(0, 1), (1, 1), (2, 2)])
def test_a_command_takes_at_least_a_picosecond(propagation_ps, hop):
    machine = direct(propagation_ps=propagation_ps).ask("read", "pe hbm", 256)
    assert machine.latency() == hop + 8000 + 1000 + propagation_ps


def test_a_command_does_not_occupy_its_link():
    machine = direct().ask("read", "pe hbm", 1, 0).ask("posted_write", "pe hbm", 256, 256)
    assert machine.latencies() == [1 + 8000 + 4, 1000 + 8000]


def test_a_command_waits_for_its_link():
    machine = direct().ask("posted_write", "pe hbm", 256, 0).ask("read", "pe hbm", 256, 256)
    assert machine.latencies() == [1000 + 8000, 1001 + 8000 + 1000]


def one_between(middle, second=256 * GB):
    nodes = {"pe": node(), "middle": middle, "hbm": node(memory=memory())}
    speeds = {"pe middle": 256 * GB, "middle hbm": second}
    machine = Machine(nodes, "pe middle", "middle hbm", bandwidth=speeds)
    return machine.ask("posted_write", "pe middle hbm", 512).latency() - 8000


def test_a_store_node_waits_for_the_last_flit():
    assert one_between(store(500)) == 2000 + 500 + 2 * 1000


def test_a_transit_node_does_not():
    assert one_between(transit(500)) == 1000 + 500 + 2 * 1000


def test_a_transit_node_charges_its_overhead_once():
    # Flit 1 comes at 2,000, when flit 0 has just left by the faster link, and goes at once.
    assert one_between(transit(500), 512 * GB) == 2000 + 500
    # At 3,000 both ask, one after the other.
    assert one_between(transit(2000), 512 * GB) == 3000 + 2 * 500


def test_the_start_and_the_end_charge_their_overhead():
    assert direct(pe=700).ask("read", "pe hbm", 256).latency() == 701 + 8000 + 1000 + 700
    assert direct(pe=700).ask("write", "pe hbm", 256).latency() == 1700 + 8000 + 1 + 700
    assert direct(hbm=3000).ask("read", "pe hbm", 256).latency() == 3001 + 8000 + 1000
    # Both flits are delivered at 4,000, because the first came at 1,000.
    assert direct(hbm=3000).ask("posted_write", "pe hbm", 512).latency() == 4000 + 8000
    one = direct(hbm=3000, channels=1).ask("posted_write", "pe hbm", 512)
    assert one.latency() == 4000 + 2 * 8000


def test_a_store_node_at_the_end_of_a_route_is_an_end():
    nodes = {"pe": store(700), "hbm": node(3000, "store", memory())}
    machine = Machine(nodes, "pe hbm").ask("write", "pe hbm", 512)
    assert machine.latency() == 700 + 4000 + 8000 + 1 + 700


def test_a_flit_of_several_bursts_goes_back_when_the_last_has_ended():
    machine = direct(burst_bytes=64, channels=2).ask("read", "pe hbm", 256 + 65)
    # Four bursts on two channels for flit 0, two more for flit 1, of which one byte is used.
    assert machine.latency() == 1 + 3 * 8000 + 254


def test_the_address_chooses_the_channel():
    apart = direct().ask("posted_write", "pe hbm", 1, 0).ask("posted_write", "pe hbm", 1, 256)
    assert apart.latencies() == [4 + 8000, 8 + 8000]
    same = direct().ask("posted_write", "pe hbm", 1, 0).ask("posted_write", "pe hbm", 1, 8 * 256)
    assert same.latencies() == [4 + 8000, 4 + 2 * 8000]


def test_a_channel_that_turns_around_waits_even_if_it_was_free():
    machine = direct(channels=1, turnaround_ps=500).ask("posted_write", "pe hbm", 256)
    machine.ask("read", "pe hbm", 256).ask("read", "pe hbm", 256, at_ps=50_000)
    machine.ask("posted_write", "pe hbm", 256, at_ps=100_000)
    first = 1000 + 8000
    assert machine.latencies() == [
        first,
        first + 500 + 8000 + 1000,
        1 + 8000 + 1000,
        1000 + 500 + 8000,
    ]


def test_a_tie_at_a_link_goes_by_the_number_of_the_link_before():
    machine = fork(transit(), channels=1)
    machine.ask("posted_write", "b router hbm", 256).ask("posted_write", "a router hbm", 256)
    assert machine.latencies() == [2000 + 2 * 8000, 2000 + 8000]


def test_who_asked_a_picosecond_earlier_is_first():
    machine = fork(transit(), channels=1)
    machine.ask("posted_write", "b router hbm", 256, at_ps=0)
    machine.ask("posted_write", "a router hbm", 256, at_ps=1)
    assert machine.latencies() == [2000 + 8000, 1999 + 2 * 8000]


def test_flits_that_begin_here_go_before_those_that_pass():
    machine = fork(transit(), channels=1)
    machine.ask("posted_write", "a router hbm", 256)
    machine.ask("posted_write", "router hbm", 256, at_ps=1000)
    assert machine.latencies() == [2000 + 2 * 8000, 1000 + 8000]


def test_requests_of_one_instant_go_one_after_the_other():
    machine = direct().ask("posted_write", "pe hbm", 512).ask("posted_write", "pe hbm", 512, 512)
    assert machine.latencies() == [2000 + 8000, 4000 + 8000]


def test_two_streams_take_turns_at_a_link():
    # At 1,000 a0 and b0 ask, at 2,000 a1 and b1.
    machine = fork(transit())
    machine.ask("posted_write", "a router hbm", 512, 0)
    machine.ask("posted_write", "b router hbm", 512, 512)
    assert machine.latencies() == [4000 + 8000, 5000 + 8000]


def test_two_streams_held_back_together_go_one_after_the_other():
    # All four ask at 3,000.
    machine = fork(transit(2000))
    machine.ask("posted_write", "a router hbm", 512, 0)
    machine.ask("posted_write", "b router hbm", 512, 512)
    assert machine.latencies() == [5000 + 8000, 7000 + 8000]


def test_overhead_blocks_no_other_transfer():
    # a's flit comes at 1,500 and waits until 3,500. b's first comes at 1,000, so that all of its
    # three ask at 3,000, even the last, which comes only then: it overtakes a's.
    machine = fork(transit(2000))
    machine.ask("posted_write", "a router hbm", 256, 0, at_ps=500)
    machine.ask("posted_write", "b router hbm", 3 * 256, 256)
    assert machine.latencies() == [3000 + 4 * 1000 + 8000 - 500, 3000 + 3 * 1000 + 8000]


def test_stored_transfers_of_one_instant_go_by_the_link_of_their_last_flit():
    # Both are complete at 2,000, and go on a picosecond later (rule 6). b was made first, as a request and
    # in time, and takes longer.
    machine = fork(store(), channels=1)
    machine.ask("posted_write", "b router hbm", 512)
    machine.ask("posted_write", "a router hbm", 256, at_ps=1000)
    assert machine.latencies() == [3001 + 3 * 8000, 2001 + 8000]


def test_deliveries_of_one_instant_are_served_by_the_number_of_the_link():
    nodes = {"a": node(), "b": node(), "hbm": node(memory=memory(channels=1))}
    machine = Machine(nodes, "a hbm", "b hbm")
    machine.ask("posted_write", "b hbm", 256).ask("posted_write", "a hbm", 256)
    assert machine.latencies() == [1000 + 2 * 8000, 1000 + 8000]


def test_answers_of_one_instant_go_by_their_beginning():
    # a's three flits are ready at 8,002, 8,002 and 16,002. b's command comes at 8,002, and its flit
    # is ready at 16,002, too. b has the smaller number.
    machine = fork(transit(), channels=2)
    machine.ask("read", "b router hbm", 256, 256, at_ps=8000)
    machine.ask("read", "a router hbm", 3 * 256)
    assert machine.latencies() == [16_002 + 2000 + 1000 - 8000, 16_002 + 2000]


def test_answers_that_begin_at_one_instant_go_as_their_commands_came():
    machine = fork(transit())
    machine.ask("read", "b router hbm", 256, 256).ask("read", "a router hbm", 256)
    assert machine.latencies() == [8002 + 3000, 8002 + 2000]


def test_a_memory_answers_in_order():
    # The write holds channel 0 from 3,000 to 11,000. The read's command comes at 3,001; its flit 1
    # ends at 11,001 and flit 0 at 19,000, for which flit 1 waits. The overhead at the PE runs from
    # flit 0's arrival at 20,000.
    machine = direct(pe=2000, channels=2).ask("posted_write", "pe hbm", 256)
    machine.ask("read", "pe hbm", 512)
    assert machine.latencies() == [11_000, 22_000]


@pytest.mark.parametrize(("goal", "nanoseconds"), [(2, 20_031), (4, 60_093)])
def test_a_ring_gives_the_figure_of_astra_sim(goal, nanoseconds):
    """The example of ASTRA-sim's analytical network: 16 nodes, 50 GiB/s, 500 ns, 1 MiB from 1 on.

    It sends a chunk as a whole from node to node, so a flit is the chunk. It truncates to a
    nanosecond.
    """
    chunk = 1 << 20
    burst = memory(channels=1, burst_ps=1, burst_bytes=chunk)
    ring = {f"n{n}": node(0, "store", burst) for n in range(16)}
    edges = [f"n{n} n{(n + 1) % 16}" for n in range(16)]
    machine = Machine(ring, *edges, flit_bytes=chunk, bandwidth=50 << 30, propagation_ps=500_000)
    path = " ".join(f"n{n}" for n in range(1, goal + 1))
    assert (machine.ask("posted_write", path, chunk).latency() - 1) // 1000 == nanoseconds


def shuffle(monkeypatch, seed):
    """Makes SimPy run the events of one instant and priority in a random order."""
    rng = Random(seed)

    def schedule(self, event, priority=1, delay=0):
        order = (rng.random(), next(self._eid))
        reference.simpy.core.heappush(self._queue, (self._now + delay, priority, order, event))

    monkeypatch.setattr(reference.Clock, "schedule", schedule)


@pytest.mark.parametrize("finite", [False, True])
def test_the_order_in_which_simpy_runs_events_decides_nothing(monkeypatch, finite):
    cases = list(scenarios.random_scenarios(seed=2, count=300, mixed=True, finite=finite))
    expected = [reference.run(case) for case in cases]
    shuffle(monkeypatch, seed=3)
    assert [reference.run(case) for case in cases] == expected


def test_ties_decide_much_in_the_random_scenarios(monkeypatch):
    cases = list(scenarios.random_scenarios(seed=2, count=300))
    expected = [reference.run(case) for case in cases]
    monkeypatch.setattr(reference, "passing_through", lambda arrival: (1, -arrival.link, *arrival))
    changed = sum(
        reference.run(case) != result for case, result in zip(cases, expected, strict=True)
    )
    assert changed > 10


def buffered(machine, flits, arbiter="fifo"):
    machine.scenario["buffers"] = {"flits": flits, "arbiter": arbiter}
    return machine.run()["latency_ps"]


def test_with_one_place_a_link_waits_for_the_news_that_it_is_free():
    # The place behind the first link is left at 1,000 and known to be free at 1,001: flits 1 and 2 are
    # a picosecond later than the one before, and so is the last burst, of 8,000, for each of them.
    line = Machine({"pe": node(), "router": transit(), "hbm": node(memory=memory())},
                   "pe router", "router hbm")
    line.ask("posted_write", "pe router hbm", 3 * 256)
    assert buffered(line, 1) == [12_002]
    assert buffered(line, 2) == [12_000]


def two_flows():
    """Two writes of 4 flits that come to one router by two links, and want the same third."""
    nodes = {"a": node(), "b": node(), "router": transit(), "hbm": node(memory=memory())}
    star = Machine(nodes, "a router", "b router", "router hbm")
    star.ask("posted_write", "b router hbm", 4 * 256)
    return star.ask("posted_write", "a router hbm", 4 * 256, address=4 * 256)


def test_arbiters_choose_among_heads():
    # All eight flits are through the last link at 9,000. In turn, the last of a is the seventh: by the lower
    # link it goes first. Oldest first, of equals it goes first each time, and so it does with fifo for the
    # first flit; the others ask as they come, a before b.
    assert buffered(two_flows(), 64, "round_robin") == [9000 + 8000, 8000 + 8000]
    assert buffered(two_flows(), 64, "fifo") == [9000 + 8000, 8000 + 8000]
    assert buffered(two_flows(), 64, "oldest_first") == [9000 + 8000, 5000 + 8000]
    late = two_flows()
    late.scenario["requests"][1]["at_ps"] = 1
    assert buffered(late, 64, "oldest_first") == [5000 + 8000, 9000 + 8000 - 1]


def test_requests_that_block_each_other_for_good_have_no_latency():
    # Around a ring of three, each two links far, with one place behind each link.
    nodes = {name: transit() for name in "abc"} | {f"{name}m": node(memory=memory()) for name in "abc"}
    ring = Machine(nodes, "a b", "b c", "c a", "a am", "b bm", "c cm")
    for path in ("a b c cm", "b c a am", "c a b bm"):
        ring.ask("posted_write", path, 8 * 256)
    assert buffered(ring, 1) == [None, None, None]
    assert None not in buffered(ring, 64)


def test_a_seed_gives_the_same_scenarios():
    assert list(scenarios.random_scenarios(5, 20)) == list(scenarios.random_scenarios(5, 20))
    assert list(scenarios.random_scenarios(5, 20)) != list(scenarios.random_scenarios(6, 20))


def test_the_links_of_random_scenarios_are_grouped_by_where_they_end():
    for case in scenarios.random_scenarios(5, 20):
        ends = [(link["to"], link["from"]) for link in case["links"]]
        assert ends == sorted(ends)


def test_lines_of_json_go_in_and_out():
    case = local().ask("read", "pe router hbm", 16 << 10).scenario
    [line] = reference.run_lines([json.dumps(case)])
    assert json.loads(line) == {"latency_ps": [77_002], "flit_hops": 130}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"route": []}, "no route"),
        ({"route": [0]}, "no memory at node 0"),
        ({"route": [3, 1]}, "links do not meet"),
        ({"route": [1, 0]}, "comes to a node twice"),
        ({"address": 128}, "inside a burst"),
        ({"bytes": 0}, "no bytes"),
    ],
)
def test_a_request_of_which_the_rules_say_nothing_is_refused(change, reason):
    case = local().ask("read", "pe router hbm", 256).scenario
    case["requests"][0].update(change)
    with pytest.raises(ValueError, match=f"request 0: .*{reason}"):
        reference.run(case)

"""Services of models from Python: the same results as the command, errors by argument, and relations of loads."""

import json

import cubeyard
import pytest
from cubeyard.errors import InputError, OutOfMemory

TINY = {"name": "tiny", "layers": 2, "hidden": 64, "ffn": 128, "heads": 4, "kv_heads": 2, "head_dim": 16, "vocab": 128}
SMALL = {"sips.count": 1, "cubes": {"w": 1, "h": 1}}


def serve(**options):
    return cubeyard.serve(TINY, topology=SMALL, **({"rate": 2000, "requests": 40, "prompt": "8-64", "answer": 6} | options))


def words(folder):
    """Options of the command for the same service."""
    (folder / "tiny.yaml").write_text(json.dumps(TINY))
    machine = ["sips.count=1", "cubes.w=1", "cubes.h=1"]
    load = ["--rate", "2000", "--requests", "40", "--prompt", "8-64", "--answer", "6"]
    return ["--spec", str(folder / "tiny.yaml"), *load, *(word for key in machine for word in ("--with", key))]


def test_a_service_has_its_latencies_its_table_and_its_page():
    service = serve(limits={"ttft": 1, "tpot": 1})
    assert (service.completed, service.total_output_tokens, service.rejected) == (40, 240, 0)
    assert service.queue_ms.mean <= service.ttft_ms.mean < service.e2el_ms.mean
    assert service.ttft_ms.median <= service.ttft_ms.p90 <= service.ttft_ms.p99 <= service.ttft_ms.max
    assert service.good is not None and 0 < service.good <= 40
    assert [row["latency"] for row in service.rows()] == ["ttft", "tpot", "itl", "e2el", "queue"]
    assert "KV cache" in str(service) and service.verdict.split(".")[0][:20] in service.page()
    assert all(row["interpolated_ns"] > 0 for row in service.step_times["checked"])


def test_a_service_is_that_of_the_command(tmp_path, command):
    printed = command("serve", *words(tmp_path))
    service = serve()
    assert printed["mean_ttft_ms"] == service.ttft_ms.mean
    assert printed["p99_itl_ms"] == service.itl_ms.p99
    assert printed["kv_blocks"]["count"] == service.kv_blocks.count


def test_the_rows_of_a_run_are_a_trace(tmp_path, command):
    command("serve", *words(tmp_path), "--requests-csv", str(tmp_path / "rows.csv"))
    again = cubeyard.serve(TINY, topology=SMALL, trace=tmp_path / "rows.csv")
    assert (again.completed, again.total_input_tokens) == (40, serve().total_input_tokens)
    # Arrivals are rounded to microseconds, and count from the first.
    assert again.tpot_ms.mean == pytest.approx(serve().tpot_ms.mean, rel=0.1)


def test_more_requests_a_second_never_shorten_the_wait():
    service = serve(rates=[100, 1000, 10_000, 100_000], requests=60)
    waits = [row["mean_queue_ms"] for row in service.rates]
    assert waits == sorted(waits) and waits[0] < waits[-1]
    assert [row["rate"] for row in service.rows()] == [100, 1000, 10_000, 100_000]


def test_the_highest_rate_is_within_the_limits_and_the_next_is_not():
    service = serve(find_rate=0.9, limits={"ttft": 0.05}, requests=200)
    assert service.highest_rate < service.lowest_rate_beyond <= 1.02 * service.highest_rate
    share = {row["rate"]: row["good"] / row["completed"] for row in service.rates}
    assert share[service.highest_rate] >= 0.9 > share[service.lowest_rate_beyond]
    assert "fewer are" in service.verdict


def test_a_rate_that_is_answered_too_slowly_is_beyond_the_limits():
    # The limit is so wide that a short load never exceeds it.
    service = serve(find_rate=0.9, limits={"ttft": 1e6})
    answered = {row["rate"]: row["request_throughput"] for row in service.rates}
    assert answered[service.highest_rate] >= 0.8 * service.highest_rate
    assert answered[service.lowest_rate_beyond] < 0.8 * service.lowest_rate_beyond
    assert "faster than they are answered" in service.verdict


def test_a_faster_machine_serves_no_slower():
    slow, fast = (serve(rate=20_000), cubeyard.serve(TINY, topology=SMALL | {"hbm.bandwidth": "2x"}, rate=20_000, requests=40, prompt="8-64", answer=6))
    assert fast.e2el_ms.mean <= slow.e2el_ms.mean


def test_traces_of_azure_burstgpt_and_mooncake_are_read(tmp_path):
    traces = {
        "azure.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,40,4\n2023-11-16 18:17:04.0319600,11,2\n",
        "burst.csv": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,GPT-4,40,4,44,API log\n6,GPT-4,9,0,9,API log\n",
        "mooncake.jsonl": '{"timestamp": 0, "input_length": 40, "output_length": 4, "hash_ids": [1, 2]}\n'
        '{"timestamp": 3000, "input_length": 40, "output_length": 4, "hash_ids": [1, 2]}\n',
    }
    for name, text in traces.items():
        (tmp_path / name).write_text(text)
    run = {name: cubeyard.serve(TINY, topology=SMALL, trace=tmp_path / name, hash_tokens=32) for name in traces}
    assert [service.completed for service in run.values()] == [2, 1, 2]
    # Of 40 equal tokens, blocks of 16 that end before the last token are found.
    assert run["mooncake.jsonl"].cached_input_tokens == 32
    assert run["azure.csv"].cached_input_tokens == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rate": -1}, "rate=-1: expected a positive number"),
        ({"prompt": "9-3"}, 'prompt="9-3": expected a number of tokens'),
        ({"limits": {"ttl": 3}}, "limits: `ttl:3`: expected ttft:MS"),
        ({"find_rate": 0.9}, "find-rate=0.9: expected limits on latencies"),
        ({"find_rate": 2.0}, "find_rate=2.0: expected a share"),
        ({"policy": "lifo"}, "policy='lifo': expected 'fcfs' or 'priority'"),
        ({"memory_share": 1.2}, "memory-share=1.2: expected a number above 0"),
        ({"kv_blocks": 1 << 31}, "kv-blocks=2147483648: expected at most"),
        ({"block_size": 0}, "block_size"),
        ({"requests": 0}, "requests"),
    ],
)
def test_bad_arguments_are_named(options, text):
    with pytest.raises(InputError) as error:
        serve(**options)
    assert text in str(error.value)


def test_bad_traces_are_named_with_their_line(tmp_path):
    for text, expected in (
        ("a,b\n1,2\n", "expected the CSV of Azure"),
        ("arrival_s,prompt_tokens,output_tokens\n0,5,x\n", "t.csv:2: output_tokens: expected a number of tokens from 1"),
        ("arrival_s,prompt_tokens,output_tokens\n", "expected at least one request"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,5,5\n", "t.csv:2: TIMESTAMP: expected a date and time"),
        ('{"timestamp": 0, "input_length": 3}\n', "t.csv:1: missing field `output_length`"),
    ):
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(InputError) as error:
            cubeyard.serve(TINY, topology=SMALL, trace=tmp_path / "t.csv")
        assert expected in str(error.value)
    with pytest.raises(InputError, match="No such file"):
        cubeyard.serve(TINY, topology=SMALL, trace=tmp_path / "none.csv")


def test_a_model_without_room_for_its_cache_is_out_of_memory():
    with pytest.raises(OutOfMemory, match="a block of the KV cache"):
        serve(memory_share=1e-9)

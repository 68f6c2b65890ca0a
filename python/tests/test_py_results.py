"""Results: plain data, tables that pandas, polars and pyarrow read, pages, pictures."""

import collections.abc
import dataclasses
import gc
import json
import pickle
import subprocess
import sys
import types
import typing
from dataclasses import dataclass
from xml.etree import ElementTree

import cubeyard
import pandas
import polars
import pyarrow
import pytest
from cubeyard import distributed, replay
from cubeyard._base.results import HIDDEN, Result, build
from cubeyard.errors import CubeyardError, InputError

SMALL = {"sips.count": 1, "cubes": {"w": 2, "h": 1}}
HF = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "vocab_size": 4096,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
}
TINY = {"name": "tiny", "layers": 2, "hidden": 512, "ffn": 1024, "heads": 8, "kv_heads": 1, "vocab": 4096}


@dataclass(frozen=True)
class Values(Result):
    """A table of every type, with and without missing values."""

    values: tuple
    note: str = dataclasses.field(default="", metadata=HIDDEN)

    _types = {"never": "float64"}

    def rows(self):
        return [
            {"at": at, "ns": ns, "name": f"é{at}", "ok": None if at % 2 else True, "never": None}
            for at, ns in enumerate(self.values)
        ]

    def _draw(self, axes):
        axes.plot(self.values)


@pytest.fixture(scope="module", params=["probe", "pattern", "validate", "model", "sweep", "figures"])
def result(request):
    """A result of each kind."""
    transfer = {"op": "read", "from": "sip0.cube0.pe1", "to": "sip0.cube0.pe0.hbm", "bytes": 4096}
    make = {
        "probe": lambda: cubeyard.probe("pe-dma-local", topology=SMALL, explain=True),
        "pattern": lambda: cubeyard.probe(pattern=[transfer, transfer], topology=SMALL),
        "validate": lambda: cubeyard.validate(family="HBM"),
        "model": lambda: cubeyard.model.step(TINY, context=256, topology=SMALL),
        "sweep": lambda: distributed.sweep(sizes="256:1K", ranks="cube", topology=SMALL),
        "figures": lambda: cubeyard.Topology(SMALL).figures(),
    }
    return make[request.param]()


def test_a_result_is_plain_data(result):
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert dataclasses.is_dataclass(result)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.text = ""
    assert pickle.loads(pickle.dumps(result)) == result


def misfits(value, hint, path):
    """Yields the paths of values that do not have the annotated type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is typing.Any:
        return
    if isinstance(hint, types.UnionType):
        found = [list(misfits(value, one, path)) for one in inner]
        yield from min(found, key=len)
    elif dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        if type(value) is not hint:
            yield f"{path}: {value!r} is no {hint.__name__}"
            return
        for field in dataclasses.fields(hint):
            yield from misfits(getattr(value, field.name), hints[field.name], f"{path}.{field.name}")
    elif not isinstance(value, origin or hint) or (origin is None and type(value) is not hint):
        yield f"{path}: {value!r} is no {hint}"
    elif origin in (tuple, list):
        each = inner[:1] * len(value) if inner[-1] is Ellipsis or origin is list else inner
        for at, (item, one) in enumerate(zip(value, each, strict=True)):
            yield from misfits(item, one, f"{path}[{at}]")
    elif origin in (dict, collections.abc.Mapping):
        for key, item in value.items():
            yield from misfits(key, inner[0], path)
            yield from misfits(item, inner[1], f"{path}[{key!r}]")


def test_fields_have_the_types_of_their_annotations(result):
    assert list(misfits(result, type(result), type(result).__name__)) == []


def test_fields_of_runs_comparisons_and_replays_have_the_types_of_their_annotations():
    run = cubeyard.run("vector-add", elements=4096, data=True, explain=True, topology=SMALL)
    other = cubeyard.run("vector-add", elements=8192, topology=SMALL)
    recorded = replay.compare(replay.example(), policies=["pytorch", "best-fit"])
    found = [run, cubeyard.compare(run, other), recorded, cubeyard.model.read({"model_type": "llama"} | HF)]
    for result in found:
        assert list(misfits(result, type(result), type(result).__name__)) == []
    assert list(misfits(run, type(recorded), "run")) != []


def test_pandas_polars_and_pyarrow_read_the_table_as_it_is(result):
    rows = result.rows()
    assert rows
    names = list(dict.fromkeys(name for row in rows for name in row))
    whole = [{name: row.get(name) for name in names} for row in rows]
    assert pyarrow.table(result).to_pylist() == whole
    assert polars.DataFrame(result).to_dicts() == whole
    frame = pandas.DataFrame.from_arrow(result)
    assert list(frame.columns) == names
    assert len(frame) == len(rows)


def test_a_result_has_a_page(result, tmp_path):
    page = result.page()
    assert page.startswith("<!DOCTYPE html>")
    # A page of ours is XML, too, and needs nothing from elsewhere.
    root = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    assert root.find(".//main") is not None
    assert "src=" not in page
    assert result.save(tmp_path / "page.html").read_text(encoding="utf-8") == page
    frame = ElementTree.fromstring(result._repr_html_())
    assert (frame.tag, frame.get("srcdoc").split()) == ("iframe", page.split())
    with pytest.raises(InputError, match=r"path: .*no/page.html: cannot be written"):
        result.save(tmp_path / "no" / "page.html")


def test_a_result_is_drawn(result):
    import matplotlib

    matplotlib.use("Agg")
    axes = result.plot()
    assert axes.has_data()
    assert result.plot(axes) is axes
    matplotlib.pyplot.close(axes.figure)


def test_every_type_of_column_with_missing_values():
    table = pyarrow.table(Values((1.5, None, 3)))
    assert [str(kind) for kind in table.schema.types] == ["int64", "double", "string", "bool", "double"]
    assert table.to_pylist()[1] == {"at": 1, "ns": None, "name": "é1", "ok": None, "never": None}
    assert table["never"].null_count == 3
    assert polars.DataFrame(Values((1.5, None, 3)))["ns"].to_list() == [1.5, None, 3.0]


def test_a_table_without_rows_has_the_columns_that_are_known():
    table = pyarrow.table(Values(()))
    assert (table.num_rows, table.column_names) == (0, ["never"])


def test_hidden_fields_are_left_out():
    assert Values((1,), "secret").to_dict() == {"values": [1]}
    assert build(Values, {"values": [1]}, note="secret") == Values((1,), "secret")
    with pytest.raises(TypeError, match="no field for other"):
        build(Values, {"values": [], "other": 1})


@pytest.mark.parametrize("value", [[1], {"a": 1}, 1j, "text"])
def test_a_column_of_mixed_values_is_refused(value):
    class Mixed(Values):
        def rows(self):
            return [{"x": 1}, {"x": value}]

    with pytest.raises(InputError, match="column x: expected only numbers, only text or only booleans, found"):
        pyarrow.table(Mixed(()))


def test_a_stream_that_nobody_reads_is_released():
    from cubeyard import _native

    values = ["x" * 1000] * 1000
    before = len(gc.get_objects())
    for _ in range(200):
        _native.arrow_stream([("text", "utf8", values)], 1000)
    assert len(gc.get_objects()) - before < 100
    with pytest.raises(InputError, match="type of column text: expected bool, int64, float64 or utf8, found decimal"):
        _native.arrow_stream([("text", "decimal", values)], 1000)
    with pytest.raises(InputError, match="columns of a table"):
        _native.arrow_stream([("text", "utf8", values)], 7)


def test_plot_without_matplotlib_says_what_to_install():
    script = """
import sys
sys.modules["matplotlib"] = None
import cubeyard
try:
    cubeyard.Topology().figures().plot()
except cubeyard.CubeyardError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "plot() needs matplotlib: pip install 'cubeyard[plot]'"


def test_progress_without_tqdm_says_what_to_install():
    sys.modules["tqdm.auto"] = None
    try:
        with pytest.raises(CubeyardError, match="pip install tqdm"):
            cubeyard.validate(family="HBM", progress=True)
    finally:
        del sys.modules["tqdm.auto"]


def test_progress_is_told_to_a_bar(monkeypatch):
    import tqdm.auto

    seen = []

    class Bar(tqdm.auto.tqdm):
        def update(self, n=1):
            super().update(n)
            seen.append((self.n, self.total))

    monkeypatch.setattr(tqdm.auto, "tqdm", Bar)
    checks = cubeyard.validate(family="HBM", progress=True).checks
    assert seen[0] == (0, len(checks))
    assert seen[-1] == (len(checks), len(checks))
    cubeyard.model.step(TINY, context=256, topology=SMALL, progress=True)
    assert seen[-1] == (1, 1)


def test_an_exception_of_a_callback_ends_the_call():
    from cubeyard import _native

    def fail(done, of, name):
        raise ZeroDivisionError(name)

    machine = cubeyard.Topology()._native
    with pytest.raises(ZeroDivisionError):
        _native.validate(machine, ["HBM"], fail)


def test_importing_the_package_loads_no_optional_package():
    optional = {"numpy", "pandas", "matplotlib", "pyarrow", "tqdm"}
    script = f"import sys, cubeyard; print(sorted({optional} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

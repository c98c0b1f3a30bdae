"""Calls that are killed are continued by the same call with `resume=True`, and write the same bytes."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy
import outcore
import pytest

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("sort", "lines", {"lines": True, "memory": "8MiB"}),
    ("shuffle", "lines", {"lines": True, "memory": "18MiB"}),
    ("unique", "lines", {"lines": True, "memory": "8MiB"}),
    ("sort", "numbers", {"dtype": "u64", "memory": "8MiB"}),
]

TABLES: list[tuple[str, dict[str, Any]]] = [
    ("sort", {"by": "key", "memory": "32MiB"}),
    ("shuffle", {"seed": 3, "memory": "32MiB"}),
    ("unique", {"by": ["key", "text"], "memory": "32MiB"}),
    ("group_by", {"by": "key", "aggregates": "sum(place),count", "memory": "32MiB"}),
    ("join", {"right": "in.parquet", "on": "place", "memory": "40MiB"}),
    ("dedup", {"by": "key", "memory": "24MiB"}),
    ("dedup", {"near": "text", "shingles": "chars:4", "memory": "24MiB"}),
    ("window", {"by": "key", "order": "place", "added": "row_number,lag(text)", "memory": "40MiB"}),
]

ALGORITHMS: list[tuple[str, str, dict[str, Any]]] = [
    ("pagerank", "u.graph", {"tol": 0, "max_iter": 150}),
    ("strongly_connected_components", "d.graph", {}),
    ("triangles", "u.graph", {}),
]


def _kill(name: str, source: str, options: dict[str, Any], wait_s: float) -> None:
    """Kills a call this long after its directories were marked as those of a job that can be resumed."""
    _kill_call(f"import outcore; outcore.{name}({source!r}, 'out', **{options!r})", wait_s)


def _kill_call(call: str, wait_s: float) -> None:
    """As `_kill`, for a call as text."""
    child = subprocess.Popen([sys.executable, "-c", call])
    while child.poll() is None and not list(Path().glob(".outcore-*/resume")):
        time.sleep(0.001)
    time.sleep(wait_s)
    child.kill()
    child.wait()


@pytest.mark.parametrize(("name", "source", "options"), CASES)
def test_a_killed_call_is_continued(name: str, source: str, options: dict[str, Any]) -> None:
    numbers = numpy.random.default_rng(5).integers(0, 1 << 60, 1_500_000, dtype="<u8")
    if source == "lines":
        Path(source).write_bytes(b"".join(b"%030x\n" % number for number in numbers[:900_000].tolist()))
    else:
        Path(source).write_bytes(numbers.tobytes())
    function = getattr(outcore, name)
    function(source, "plain", **options)
    again = {**options, "threads": 2, "drives": ["."], "resume": True}
    said: list[str] = []
    # It depends on the speed of the machine whether a call is killed before its first checkpoint, after it, or not at
    # all.
    for wait_s in (0.01, 0.03, 0.06, 0.1, 0.2):
        _kill(name, source, again, wait_s)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            function(source, "out", force=True, **again)
        said += [str(warning.message) for warning in told]
        assert Path("out").read_bytes() == Path("plain").read_bytes()
        assert sorted(path.name for path in Path().iterdir()) == sorted([source, "out", "plain"])
        Path("out").unlink()
    assert any("continues the run that was killed" in text for text in said), said


@pytest.mark.parametrize(("name", "options"), TABLES)
def test_a_killed_call_on_a_table_is_continued(name: str, options: dict[str, Any]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    keys = numpy.random.default_rng(6).integers(0, 200_000, 400_000)
    keys[::3] = 77
    texts = [None if key % 11 == 0 else f"{key * key:x}" * int(key % 9) for key in keys.tolist()]
    table = pyarrow.table({"key": keys, "text": texts, "place": numpy.arange(len(keys))})
    parquet.write_table(table, "in.parquet", row_group_size=20_000)
    function = getattr(outcore, name)
    again = {**options, "threads": 2, "drives": ["."], "resume": True}
    sources = ["in.parquet", again.pop("right")] if "right" in again else ["in.parquet"]
    function(*sources, "plain.parquet", **again)
    for wait_s in (0.01, 0.05, 0.15):
        call = f"import outcore; outcore.{name}(*{sources!r}, 'out.parquet', **{again!r})"
        _kill_call(call, wait_s)
        function(*sources, "out.parquet", force=True, **again)
        assert Path("out.parquet").read_bytes() == Path("plain.parquet").read_bytes()
        assert sorted(path.name for path in Path().iterdir()) == ["in.parquet", "out.parquet", "plain.parquet"]
        Path("out.parquet").unlink()


def test_a_compressed_output_is_rejected() -> None:
    Path("lines").write_bytes(b"b\na\n")
    with pytest.raises(outcore.UsageError, match="compressed output"):
        outcore.sort("lines", "out.gz", lines=True, resume=True)
    assert not Path("out.gz").exists()


@pytest.mark.parametrize(("name", "source", "options"), ALGORITHMS)
def test_a_killed_algorithm_on_a_graph_is_continued(name: str, source: str, options: dict[str, Any]) -> None:
    edges = numpy.random.default_rng(7).integers(0, 20_000, (300_000, 2), dtype="<u4")
    edges.tofile("edges.u32")
    outcore.graph.convert("edges.u32", source, dtype="u32", undirected=source == "u.graph", memory="256MiB")
    function = getattr(outcore.graph.Graph(source), name)
    plain = function(**options)
    again = {**options, "dst": "r.npy", "resume": True}
    call = f"import outcore; outcore.graph.Graph({source!r}).{name}(**{again!r})"
    said: list[str] = []
    for wait_s in (0.0, 0.02, 0.05):
        _kill_call(call, wait_s)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = function(force=True, **again)
        said += [str(warning.message) for warning in told]
        assert (found == plain).all()
        assert sorted(path.name for path in Path().iterdir()) == sorted(["edges.u32", source, "r.npy"])
        Path("r.npy").unlink()
    assert any("continues the run that was killed" in text for text in said), said


def test_an_algorithm_without_an_output_cannot_be_continued() -> None:
    numpy.random.default_rng(7).integers(0, 200, (3_000, 2), dtype="<u4").tofile("edges.u32")
    graph = outcore.graph.convert("edges.u32", "g.graph", dtype="u32", memory="256MiB")
    with pytest.raises(outcore.UsageError, match="in a file"):
        graph.pagerank(resume=True)

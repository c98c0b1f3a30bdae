"""Errors for usual slips: each names the cause in the caller's words, and a next step that works."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcore


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of each kind, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    np.save("keys.npy", np.arange(100, dtype="u8"))
    np.save("vectors.npy", np.ones((5, 2), "f4"))
    Path("words.txt").write_text("b\na\n")
    Path("sales.csv").write_text("country,price\nSpain,5\nNorway,150\nO'Higgins,7\n")
    Path("edges.txt").write_text("a b\n")
    return tmp_path


def negative(batch: Any) -> Any:
    """A function in the place of an expression."""
    return batch < 0


def total(batch: Any) -> Any:
    """One value for a batch."""
    return batch.sum()


CALLS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "no column": (
        lambda: outcore.count_by("sales.csv", "country"), "by is not given", 'count_by(src, dst, by="country")',
    ),
    "no number": (
        lambda: outcore.sample("words.txt", "out"), "the size of the sample is not given", "with count=, or a share with rate=",
    ),
    "edges": (
        lambda: outcore.graph.Graph("edges.txt"), "is not a directory", '`outcore.graph.convert("EDGES", "G.graph")`',
    ),
    "names of vertices": (
        lambda: outcore.graph.convert("edges.txt", "g.graph"), "is not an edge", 'relabel=True (relabel="text",',
    ),
    "a function": (
        lambda: outcore.table("sales.csv").filter(negative), "an expression is a text or a column, not a function",  # type: ignore[arg-type]
        'write "price > 100" or outcore.col("price") > 100',
    ),
    "lines": (
        lambda: outcore.table("words.txt"), "lines of text or raw records, not a table (words.txt)", "lines=True",
    ),
    "columns of lines": (
        lambda: outcore.open("sales.csv", lines=True).sort(by="price"), "without csv=True, by is a field of JSON lines",
        "give csv=True with by='price'",
    ),
    "an open file": (
        lambda: outcore.open(open("keys.npy", "rb"), dtype="u64"), "an open file (BufferedReader) is not the name",  # type: ignore[arg-type]
        "pass its name",
    ),
    "one value": (
        lambda: outcore.open("keys.npy").map(total).write("out.npy"), "made one value of a batch of 100 items", "map_reduce",
    ),
    "the output first": (
        lambda: outcore.filter("sales.csv", "out.csv", "price > 2"), "condition='out.csv' is the name of a file",
        "filter(src, condition, dst)",
    ),
    "the output of map first": (
        lambda: outcore.map("sales.csv", "out.csv", "price*2"), "expression='out.csv' is the name of a file",
        "map(src, expression, dst)",
    ),
    "no bins": (
        lambda: outcore.histogram("keys.npy", bins=0), "bins=0 is not between 1 and 4294967295", "help()",
    ),
    "no metric": (
        lambda: outcore.knn("vectors.npy", "vectors.npy", k=1, metric="euclid"), 'metric="euclid" is not one of l2, ip', "",
    ),
    "a dictionary": (
        lambda: outcore.table({"a": [1, 2]}), "of type dict is neither a table", "pyarrow.table(...)",  # type: ignore[arg-type]
    ),
    "an array": (
        lambda: outcore.table(np.zeros((3, 2))), "of type ndarray is neither a table", "pandas.DataFrame(...)",  # type: ignore[arg-type]
    ),
    "a count": (
        lambda: outcore.head("words.txt", 5), "dst=5 is not the name of a file", "count=5",  # type: ignore[call-overload]
    ),
    "a number of parts": (
        lambda: outcore.split("sales.csv", 3), "dst=3 is not the name of a file", "parts=3",  # type: ignore[arg-type]
    ),
    "a range": (
        lambda: outcore.open("keys.npy").histogram(10, range=(5, 1)), "a range from 5 to 1", "range=(0, 100)",
    ),
    "no clusters": (
        lambda: outcore.KMeans(0).fit("vectors.npy"), "0 clusters", "choose n_clusters= between 1",
    ),
    "a plan of lines": (
        lambda: outcore.plan("words.txt"), "the input is text (words.txt)", "give dtype= or record=",
    ),
    "a plan of a table": (
        lambda: outcore.plan("sales.csv"), "only sorts of records are planned", "explain=True",
    ),
    "a share": (
        lambda: outcore.table("sales.csv").sample(0.1), "0.1 is not a number of rows", "rate=0.1",  # type: ignore[arg-type]
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_slip_is_named_with_a_step(name: str, place: Path) -> None:
    call, cause, hint = CALLS[name]
    with pytest.raises(outcore.OutcoreError, match=re.escape(cause)) as caught:
        call()
    assert hint in str(caught.value)


def test_a_volume_without_its_file_is_an_error_at_once(place: Path) -> None:
    with pytest.raises(outcore.NotFoundError, match="nope.toml"):
        outcore.Volume("nope.toml")


def test_views_name_their_keys_and_positions(place: Path) -> None:
    view = outcore.sort_view("keys.npy", "keys.view")
    with pytest.raises(TypeError, match=r"not str: view.search\(key\) finds a key"):
        view["a"]  # type: ignore[call-overload]
    with pytest.raises(outcore.UsageError, match="^read key: 'a' is not a u64;"):
        view.search("a")


def test_texts_stand_in_expressions_of_columns(place: Path) -> None:
    table = outcore.table("sales.csv")
    assert len(table.filter(outcore.col("country") == "Spain")) == 1
    assert len(table.filter("O'Higgins" == outcore.col("country"))) == 1
    with pytest.raises(TypeError, match="of the type list, which expressions do not have"):
        outcore.col("country") == ["Spain"]


def test_a_function_is_not_a_column(place: Path) -> None:
    with pytest.raises(TypeError, match="a text or a column, not a function"):
        outcore.table("sales.csv").map(total=negative)  # type: ignore[arg-type]


def test_batches_of_no_vertices_are_rejected(place: Path) -> None:
    Path("numbers.txt").write_text("0 1\n1 2\n")
    outcore.graph.convert("numbers.txt", "n.graph")
    with pytest.raises(outcore.UsageError, match="batches of 0 vertices"):
        outcore.graph.Graph("n.graph").neighbor_loader([0, 1], [5], batch_size=0)

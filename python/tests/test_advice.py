"""Errors for usual slips: each names the cause in the caller's words, and a next step that works."""

from __future__ import annotations

import datetime
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
    "an array as a table": (
        lambda: outcore.table("keys.npy"), "the file is an array, not a table (keys.npy)", "outcore.open reads it",
    ),
    "rows": (
        lambda: outcore.table([{"a": 1}]), "list of dict is neither a table", "pyarrow.Table.from_pylist(...)",  # type: ignore[list-item]
    ),
    "the condition first": (
        lambda: outcore.filter("price > 2", "sales.csv", "out.csv"), "condition='sales.csv' is the name of a file",
        "filter(src, condition, dst)",
    ),
    "no condition": (
        lambda: outcore.table("sales.csv").filter(None), "the condition is None", '"price > 100"',  # type: ignore[arg-type]
    ),
    "no expression": (
        lambda: outcore.map("sales.csv", None, "out.csv"), "expression=None is not an expression", '"price > 100"',  # type: ignore[arg-type]
    ),
    "both inputs in a list": (
        lambda: outcore.join(["sales.csv", "sales.csv"], "both.csv", on="country"),
        "left= has both inputs, and right='both.csv' does not exist", "join(left, right, dst)",
    ),
    "several tables": (
        lambda: outcore.table("sales.csv").join([outcore.table("sales.csv")] * 2, on="country"),  # type: ignore[arg-type]
        "one other table, not several", "t.join(a, on=\"id\").join(b, on=\"id\")",
    ),
    "types of columns": (
        lambda: outcore.open("sales.csv", dtype={"price": "i32"}), "the type of a record, not of columns",  # type: ignore[call-overload]
        'outcore.table(src, schema={"id": "i32"})',
    ),
    "a field of a line": (
        lambda: outcore.open("words.txt").sort(by="1"), "by is a field of JSON lines, but the lines are other text",  # type: ignore[union-attr]
        'key="2,2n"',
    ),
    "a function as a key": (
        lambda: outcore.open("words.txt", lines=True).sort(key=len), "key= is a function", 'key="2,2n"',  # type: ignore[arg-type]
    ),
    "a shuffled table": (
        lambda: outcore.shuffled("sales.csv"), "the input is a table (sales.csv)", "outcore.ShuffledTable",
    ),
    "the name of a column": (
        lambda: outcore.table("sales.csv").group_by("country", sum="price"), "sum='price' is only the name of a column",
        'sum="sum(price)"',
    ),
    "a switch of pandas": (
        lambda: outcore.table("sales.csv").group_by("country", as_index=False), "as_index=False is not a result",  # type: ignore[arg-type]
        "leave as_index= out",
    ),
    "a mask": (
        lambda: outcore.table("sales.csv")[outcore.table("sales.csv") == 3],  # type: ignore[call-overload]
        "== between tables compares no rows", 'filter(outcore.col("country") == "Spain")',
    ),
    "an array of a table": (
        lambda: np.asarray(outcore.table("sales.csv")), "a table is not an array", "t.to_pandas()",
    ),
    "a column in the place of the output": (
        lambda: outcore.group_by("sales.csv", "country"), "dst='country' is not the name of a table",
        "group_by(src, by='country'); an output needs an ending, as in 'country.parquet'",
    ),
    "lines that are described": (
        lambda: outcore.info("words.txt"), "info takes only tables", "`outcore.open(src).count()` counts lines",
    ),
    "an array that is described": (
        lambda: outcore.info("keys.npy"), "info takes only tables", "`outcore.open(src).count()` counts records",
    ),
    "lines that are verified by a field": (
        lambda: outcore.verify("words.txt", by="1"), "by= cannot be used", "`outcore.open(src).check()` checks",
    ),
    "a number as a key": (
        lambda: outcore.table("sales.csv").sort(-1), "by=-1 has the type int", 'by="price"',  # type: ignore[arg-type]
    ),
    "a dictionary of aggregates": (
        lambda: outcore.table("sales.csv").group_by("country", {"price": "sum"}), "is a dictionary, but aggregates are texts",  # type: ignore[arg-type]
        'total="sum(price)"',
    ),
    "no function of a window": (
        lambda: outcore.table("sales.csv").window("country", order="price"), "no window function is given", '"row_number"',
    ),
    "a switch in the place of a text": (
        lambda: outcore.table("sales.csv").dedup("country", keep=False), "keep=False is of the type bool, not a text",  # type: ignore[arg-type]
        "help()",
    ),
    "two indexes": (
        lambda: outcore.table("sales.csv")["country", "price"], "no columns and rows in one index",  # type: ignore[call-overload]
        't[["id", "price"]] takes columns',
    ),
    "a list of types": (
        lambda: outcore.table("sales.csv", schema=["a"]), "schema is of the type list", 'schema={"id": "i64"',  # type: ignore[arg-type]
    ),
    "a name that is zipped": (
        lambda: outcore.open("keys.npy").zip("keys.npy"), "only datasets are zipped", 'd.zip(outcore.open("b.npy"))',  # type: ignore[union-attr]
    ),
    "the reduction first": (
        lambda: outcore.reduce("sum", "keys.npy"), "how='keys.npy' is the name of a file", "reduce(src, how)",
    ),
    "no number of parts": (
        lambda: outcore.split("sales.csv", "out-{part}.csv"), "arguments were not provided: parts=", "see help() of split",
    ),
    "no other table": (
        lambda: outcore.table("sales.csv").join(None, on="country"), "of type NoneType", "or a table",  # type: ignore[arg-type]
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


def test_keywords_of_pandas_are_no_names_of_results(place: Path) -> None:
    table = outcore.table("sales.csv")
    with pytest.raises(TypeError, match="order_by= is not a keyword of window; order= names the columns"):
        table.window("country", order_by="price", place="rank()")
    with pytest.raises(TypeError, match="missing 1 required .* by= names the columns"):
        table.window(partition_by="country", place="rank()")  # type: ignore[call-arg]
    assert table.group_by("country", limit="max(price)", n="count").columns == ["country", "limit", "n"]


def test_what_a_method_does_is_said_with_its_missing_argument(place: Path) -> None:
    with pytest.raises(TypeError, match="missing .*; diff is: the differences between this table and another one"):
        outcore.table("sales.csv").diff()  # type: ignore[call-arg]


def test_classes_are_made_by_functions(place: Path) -> None:
    with pytest.raises(TypeError, match=r"missing .*; outcore.open\(a\) makes one"):
        outcore.Dataset("keys.npy")  # type: ignore[arg-type, call-arg]
    with pytest.raises(TypeError, match=r"not made of names of files; outcore.open\(a\) makes one"):
        outcore.Lines("words.txt")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"missing .*; outcore.table\(a\) makes one"):
        outcore.Table("sales.csv")  # type: ignore[call-arg, arg-type]


def test_a_column_is_not_called(place: Path) -> None:
    with pytest.raises(TypeError, match="is a column, not a function; outcore.index_vectors"):
        outcore.index("vectors.npy", "index")  # type: ignore[operator]
    with pytest.raises(TypeError, match="a function is a part of a text"):
        outcore.col("country")("Spain")  # type: ignore[operator]


def test_times_of_python_and_numpy_stand_in_expressions(place: Path) -> None:
    Path("times.csv").write_text("time\n2024-01-01T00:00:00\n2024-01-03T12:00:00\n")
    table, time = outcore.table("times.csv"), outcore.col("time")
    noon = datetime.datetime(2024, 1, 3, 12)
    for late in (noon, np.datetime64(noon), np.datetime64(noon, "ns"), datetime.date(2024, 1, 2)):
        assert len(table.filter(time >= late)) == 1
    assert len(table.filter(time > noon)) == 0
    with pytest.raises(TypeError, match="price is null"):
        time == None  # noqa: E711


def test_a_time_of_day_is_not_a_date(place: Path) -> None:
    Path("days.csv").write_text("day\n2024-01-01\n2024-01-02\n2024-02-03\n")
    table, day = outcore.table("days.csv").map(day="date(day)"), outcore.col("day")
    noon = datetime.datetime(2024, 1, 2, 12)
    in_utc = noon.replace(tzinfo=datetime.timezone.utc)
    of_numpy = [np.datetime64("2024-01-02T12:00"), np.datetime64("2024-01-02T12"), np.datetime64(noon, "ns")]
    for time in (noon, in_utc, *of_numpy):
        assert [len(table.filter(one)) for one in (day == time, day < time, day >= time)] == [0, 2, 1]
    for start in (datetime.datetime(2024, 1, 2), datetime.date(2024, 1, 2), np.datetime64("2024-01-02T00:00")):
        assert [len(table.filter(one)) for one in (day == start, day < start, day >= start)] == [1, 1, 2]
    for unit, count in (("Y", 3), ("M", 1), ("W", 1), ("D", 1), ("h", 1), ("s", 1)):
        assert len(table.filter(day >= np.datetime64("2024-02-01").astype(f"datetime64[{unit}]"))) == count


def test_times_of_numpy_have_any_unit(place: Path) -> None:
    Path("times.csv").write_text("time\n2024-01-01T00:00:00\n2024-01-03T12:00:00\n")
    table, time = outcore.table("times.csv"), outcore.col("time")
    for unit in ("h", "m", "s", "ms", "us", "ns"):
        assert len(table.filter(time == np.datetime64("2024-01-03T12", unit))) == 1
    for late in (np.datetime64("2024-01-02", "D"), np.datetime64("2024-01-03T11:59")):
        assert len(table.filter(time >= late)) == 1
    for early in (np.datetime64("2024"), np.datetime64("2024-01")):
        assert len(table.filter(time >= early)) == 2


def test_a_list_of_tables_is_their_rows(place: Path) -> None:
    table = outcore.table("sales.csv")
    both = outcore.table([table, table.filter("price > 100"), table.select("country", "price")])
    assert both.to_arrow()["price"].to_pylist() == [5, 150, 7, 150, 5, 150, 7]
    assert len(outcore.table([both, both])) == 14
    assert "price" in both and "prize" not in both


def test_names_numbers_and_types_are_taken_in_the_forms_of_python(place: Path) -> None:
    table = outcore.table("sales.csv", schema={"price": np.float32})
    assert table.schema["price"] == "f32"
    assert table.sort(outcore.col("price")).to_arrow()["price"].to_pylist() == [5, 7, 150]
    assert table.map(one=1, yes=True, half=0.5).head(1).to_arrow().to_pylist()[0]["half"] == 0.5
    keys = outcore.open("keys.npy")
    assert (keys.reduce(sum), keys.reduce(max), keys.reduce(min), keys.reduce(len)) == (4950, 99, 0, 100)


def test_a_positional_argument_too_many_names_its_keyword(place: Path) -> None:
    with pytest.raises(TypeError, match="count= is the number of items"):
        outcore.top("keys.npy", 3)  # type: ignore[misc]
    with pytest.raises(TypeError, match="zip=.* is the second input"):
        outcore.zip("keys.npy", "keys.npy", "out.bin")  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"several inputs are one list: merge\("):
        outcore.merge("a.csv", "b.csv", "out.csv")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="outcore.table has separator= for tables"):
        outcore.open("sales.csv", sep=";")  # type: ignore[call-overload]


def test_texts_of_files_may_have_offsets_of_any_width(place: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name, kind in (("narrow.parquet", pa.string()), ("wide.parquet", pa.large_string())):
        pq.write_table(pa.table({"country": pa.array(["Spain", None], kind)}), name)
    for names in (["narrow.parquet", "wide.parquet"], ["wide.parquet", "narrow.parquet"]):
        both = outcore.table(names).sort("country")
        assert both.to_arrow()["country"].to_pylist() == ["Spain", "Spain", None, None]


def test_fields_between_blanks_are_columns(place: Path) -> None:
    Path("access.log").write_text("1.2.3.4 GET 200\n5.6.7.8 GET 404\n")
    table = outcore.convert("access.log", csv=True, separator=" ", header=False)
    assert isinstance(table, outcore.Table)
    assert len(table.filter("`3` = 404")) == 1

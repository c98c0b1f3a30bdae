"""Jobs on tables as functions, from and to each installed library; tests of a missing one are skipped."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import outcore
import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

COUNT = 3000


def rows() -> Any:
    return pa.table({"name": [f"n{number * 7 % 40}" for number in range(COUNT)], "x": list(range(COUNT))})


def forms(kind: str, table: Any) -> tuple[Any, Any]:
    """A table in a library's form, and the function that makes a pyarrow table from outcore's with that library."""
    if kind == "pyarrow":
        return table, pa.table
    if kind == "reader":
        return table.to_reader(), lambda made: made.reader().read_all()
    if kind == "dataset":
        return pytest.importorskip("pyarrow.dataset").dataset(table), pa.table
    if kind == "polars":
        polars = pytest.importorskip("polars", reason="Polars is not installed")
        return polars.from_arrow(table), lambda made: polars.DataFrame(made).to_arrow()
    if kind == "pandas":
        pandas = pytest.importorskip("pandas", reason="pandas is not installed")
        return table.to_pandas(), lambda made: pa.table(pandas.DataFrame.from_arrow(made))
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")

    def through(made: Any) -> Any:
        reader = made.reader()  # DuckDB finds it by its name.
        return duckdb.sql("select * from reader").to_arrow_table()

    return duckdb.from_arrow(table), through


@pytest.mark.parametrize("kind", ["pyarrow", "reader", "dataset", "polars", "pandas", "duckdb"])
def test_tables_of_each_library_come_in_and_go_out(here: Path, kind: str) -> None:
    table = rows()
    given, back = forms(kind, table)
    made = outcore.count_by(given, by="name", drives=here)
    found = back(made)
    counts = Counter(table["name"].to_pylist())
    assert found["name"].to_pylist() == sorted(counts)
    assert dict(zip(found["name"].to_pylist(), found["count"].to_pylist())) == counts


def test_unique_keeps_one_of_each_line_record_or_row(here: Path) -> None:
    Path("words").write_text("b 1\na 2\nb 1\n")
    done = outcore.unique("words", "distinct")
    assert isinstance(done, outcore.UniqueSummary)
    assert (done.unit, done.records, done.records_in, done.by) == ("line", 2, 3, None)
    assert Path("distinct").read_text() == "a 2\nb 1\n"
    outcore.unique("words", "counted", count=True)
    assert Path("counted").read_text() == "      1 a 2\n      2 b 1\n"
    outcore.unique("words", "numbered", key="2,2", order="n")
    assert Path("numbered").read_text() == "b 1\na 2\n"
    np = pytest.importorskip("numpy", reason="NumPy is not installed")
    np.save("ids.npy", np.array([3, 1, 3], "<u8"))
    kept = outcore.unique("ids.npy", "kept.npy")
    assert isinstance(kept, outcore.UniqueSummary) and kept.by == "hash"
    assert np.load("kept.npy").tolist() == [1, 3]
    with pytest.raises(outcore.UsageError, match="dst"):
        outcore.unique("words")


def test_functions_give_a_table_or_write_a_file(here: Path) -> None:
    table = rows()
    pq.write_table(table, "t.parquet")
    names = sorted(set(table["name"].to_pylist()))
    assert pa.table(outcore.unique("t.parquet", by="name"))["name"].to_pylist() == names
    done = outcore.unique("t.parquet", "u.parquet", by="name", columns=["name"], codec="snappy")
    assert isinstance(done, outcore.WriteSummary) and done.records == len(names)
    assert pq.read_table("u.parquet").column_names == ["name"]
    with pytest.raises(outcore.UsageError, match="exists"):
        outcore.unique("t.parquet", "u.parquet", by="name")
    for part, piece in (("a", table.slice(0, 1000)), ("b", table.slice(1000))):
        pq.write_table(piece.sort_by("name"), f"{part}.parquet")
    outcore.merge(["a.parquet", "b.parquet"], "m.parquet", by="name")
    merged = pq.read_table("m.parquet")
    assert merged["name"].to_pylist() == sorted(table["name"].to_pylist())
    assert sorted(merged["x"].to_pylist()) == list(range(COUNT))
    with pytest.raises(outcore.CorruptError, match="t.parquet"):
        outcore.merge("t.parquet", "n.parquet", by="name")
    orders = [pa.table(outcore.shuffle("t.parquet", seed=7, epoch=epoch)) for epoch in (0, 0, 1)]
    assert orders[0].equals(orders[1]) and not orders[0].equals(orders[2])
    assert sorted(orders[2]["x"].to_pylist()) == list(range(COUNT))
    assert not (here / "n.parquet").exists()


def test_sort_shuffle_and_open_take_tables_as_they_are(here: Path) -> None:
    table = rows()
    pq.write_table(table, "t.parquet", row_group_size=500)
    opened = outcore.open("t*.parquet", memory="64MiB").filter("x >= 2990").sort("x:desc")
    assert pa.table(opened)["x"].to_pylist() == list(range(COUNT - 1, 2989, -1))
    assert isinstance(outcore.open(table), outcore.Table)
    by_all = pa.table(outcore.sort(table, memory="64MiB"))
    assert by_all == table.sort_by([("name", "ascending"), ("x", "ascending")])
    outcore.shuffle("t.parquet", "s.parquet", seed=3, memory="64MiB")
    shuffled = pq.read_table("s.parquet")
    assert shuffled == pa.table(outcore.shuffle("t.parquet", seed=3, memory="64MiB"))
    assert pa.table(outcore.shuffle(table, seed=3)).sort_by("x") == table
    assert shuffled != table and shuffled.sort_by("x") == table
    for ignored in ({"header": False}, {"separator": ";"}):
        with pytest.raises(outcore.UsageError, match="cannot be used with tables"):
            outcore.shuffle("t.parquet", "u.parquet", **ignored)  # type: ignore[arg-type]
    outcore.gen("u64", "t.bin", 10)
    with pytest.raises(outcore.UsageError, match="dst="):
        outcore.shuffle("t.bin", dtype="uint64")
    # Options for records do not apply to tables.
    with pytest.raises(outcore.UsageError, match="tables"):
        outcore.open("t.parquet", dtype="uint64").count()


def test_two_tables_are_joined_and_compared_and_groups_are_aggregated(here: Path) -> None:
    table = rows()
    few = table.slice(0, 10)
    joined = pa.table(outcore.join(table, few.to_reader(), on="x", how="semi", drives=here))
    assert joined == few
    # Files of both tables may lack columns.
    pq.write_table(few.select(["x"]), "less.parquet")
    pq.write_table(few, "more.parquet")
    both = ["less.parquet", "more.parquet"]
    for left, right in ((table, both), (both, table)):
        assert outcore.join(left, right, "j.parquet", on="x", union=True, force=True).records == 20
        with pytest.raises(outcore.UsageError):
            outcore.join(left, right, "k.parquet", on="x")
    assert outcore.diff(table, table, "same.parquet", by="x", memory="64MiB").records == 0
    found = pa.table(outcore.diff(table, few, by="x", columns=["x"]))
    assert found["x"].to_pylist() == list(range(10, COUNT)) and set(found["diff"].to_pylist()) == {"left"}
    sums = pa.table(outcore.group_by(table, by="name", aggregates=["total=sum(x)", "count"]))
    expected = table.group_by("name").aggregate([("x", "sum"), ("x", "count")]).sort_by("name")
    assert sums["total"].to_pylist() == expected["x_sum"].to_pylist()
    assert sums["count"].to_pylist() == expected["x_count"].to_pylist()
    assert pa.table(outcore.dedup(table, by="name")).num_rows == len(sums)


def test_a_function_takes_a_table_with_what_it_says_of_its_files(here: Path) -> None:
    (here / "t.csv").write_text("id;a,b;x\n1;n;2.5\n2;m;0.5\n3;m;1\n")
    table = outcore.table("t.csv", separator=";", schema={"x": "decimal(4,1)"}, memory="64MiB")
    groups = pa.table(outcore.group_by(table, by="`a,b`", aggregates="total=sum(x)"))
    assert [str(total) for total in groups["total"].to_pylist()] == ["1.5", "2.5"]
    # A name with a comma is one column, and so is one in backquotes.
    for columns in (["a,b"], "`a,b`"):
        assert pa.table(outcore.convert(table, columns=columns)).column_names == ["a,b"]
    assert pa.table(table.select("a,b").head(1)).to_pylist() == [{"a,b": "n"}]
    # An option for reading one of two tables does not apply to the other one.
    right = pa.table({"id": [2, 3], "x": [7, 8]})
    joined = outcore.join(table.select("id", "a,b"), right, on="id")
    assert pa.table(joined).to_pylist() == [{"id": 2, "a,b": "m", "x": 7}, {"id": 3, "a,b": "m", "x": 8}]
    info = outcore.info(table)
    assert [column.name for column in info.columns] == ["id", "a,b", "x"] and info.records == 3
    assert not [path for path in here.iterdir() if path.name != "t.csv"]


def test_lines_records_and_tables_have_their_first_and_drawn_items_and_parts(here: Path) -> None:
    table = rows()
    pq.write_table(table, "t.parquet")
    assert pa.table(outcore.head("t.parquet", count=3)).equals(table.slice(0, 3))
    largest = outcore.head(table, by="x:desc", count=2)
    assert pa.table(largest)["x"].to_pylist() == [COUNT - 1, COUNT - 2]
    drawn = outcore.sample(table, "s.parquet", count=50, seed=3)
    assert isinstance(drawn, outcore.SampleSummary) and (drawn.records, drawn.seed) == (50, 3)
    halves = outcore.split(table, "{part}.parquet", train=0.9)
    assert isinstance(halves, outcore.SplitSummary) and halves.test_rows == COUNT // 10
    assert [path.name for path in halves.parts] == ["train.parquet", "test.parquet"]
    (here / "l.txt").write_bytes(b"b\na\nc\n")
    done = outcore.head("l.txt", "h.txt", count=2)
    assert (here / "h.txt").read_bytes() == b"b\na\n" and isinstance(done, outcore.WriteSummary)
    with pytest.raises(outcore.UsageError, match="no output is given"):
        outcore.sample("l.txt", count=1, lines=True)


def test_an_option_that_is_not_for_the_table_is_named_as_python_spells_it(here: Path) -> None:
    pq.write_table(rows(), "t.parquet")
    for options, name in (({"header": False}, "header=False"), ({"separator": ";"}, "separator="), ({"null": "x"}, "null=")):
        with pytest.raises(outcore.UsageError, match=f"^read arguments: {name} cannot be used with tables"):
            outcore.dedup("t.parquet", "u.parquet", **options)  # type: ignore[arg-type]
    with pytest.raises(outcore.UsageError, match="near=.*see help"):
        outcore.dedup("t.parquet", "u.parquet", shingles="chars:9")
    assert not (here / "u.parquet").exists()

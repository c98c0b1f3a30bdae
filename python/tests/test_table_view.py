"""Views of tables: rows by number and by key, compared with pyarrow's sort."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import outcore

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

MEMORY = "64MiB"
ROWS = 40_000


def rows() -> Any:
    names = [None if row % 9 == 0 else f"n{row * 7919 % 23}" for row in range(ROWS)]
    numbers = [row * 104_729 % 10_007 for row in range(ROWS)]
    table = pyarrow.table(
        {
            "name": pyarrow.array(names).dictionary_encode(),
            "number": pyarrow.array(numbers, pyarrow.int32()),
            "text": [f"text {row}" for row in range(ROWS)],
        }
    )
    return table.replace_schema_metadata({"made": "by hand"})


def in_order(table: Any) -> list[dict[str, Any]]:
    """By name and by number, the largest first, nulls last, then by text."""
    rows: list[dict[str, Any]] = table.to_pylist()
    rows.sort(key=lambda row: str(row["text"]))
    rows.sort(key=lambda row: row["number"], reverse=True)
    rows.sort(key=lambda row: (row["name"] is None, row["name"] or ""))
    return rows


def test_rows_are_read_by_number_and_by_key_in_any_order_of_asking(here: Path) -> None:
    table = rows()
    parquet.write_table(table, "t.parquet", row_group_size=5_000)
    wanted = in_order(table)
    by = ["name", "number:desc", "text"]
    view = outcore.sort_view("t.parquet", "v", by=by, memory=MEMORY)
    assert isinstance(view, outcore.TableView)
    assert len(view) == ROWS and view.type == "table" and view.keys == ["name", "number", "text"]
    assert view.schema.metadata == {b"made": b"by hand"} and view.schema.names == table.column_names
    assert view[:].to_pylist() == wanted
    assert view[100:200].to_pylist() == wanted[100:200] and view[-3:].to_pylist() == wanted[-3:]
    assert view[10:100:7].to_pylist() == wanted[10:100:7]
    assert view[7] == wanted[7] and view[-1] == wanted[-1]
    assert [row for batch in view for row in batch.to_pylist()] == wanted
    assert [len(batch) for batch in view.batches(15_000)] == [15_000, 15_000, 10_000]
    first = next(row for row in wanted if row["name"] == "n3")
    for key in ("n3", ("n3", first["number"]), (None,), ("n3", first["number"], first["text"])):
        values = key if isinstance(key, tuple) else (key,)
        names = ["name", "number", "text"][: len(values)]
        equal = [row for row in wanted if tuple(row[name] for name in names) == values]
        assert equal and view.find(key).to_pylist() == equal
        assert view.search(key) == wanted.index(equal[0])
        assert view.search(key, "right") == wanted.index(equal[0]) + len(equal)
    assert len(view.find("nobody")) == 0
    parts = view.split(3)
    with ThreadPoolExecutor(3) as pool:
        read = pool.map(lambda part: part[:].to_pylist(), parts)
        assert sum(read, []) == wanted
    again = pickle.loads(pickle.dumps(parts[1]))
    assert again[:5].to_pylist() == wanted[len(parts[0]) : len(parts[0]) + 5]
    assert again.search("n3") == min(max(view.search("n3") - len(parts[0]), 0), len(again))


def test_tables_of_other_libraries_go_in_and_out(here: Path) -> None:
    table = rows()
    view = outcore.sort_view(table, "v", by="text", columns=["text", "number"], memory=MEMORY)
    wanted = table.select(["text", "number"]).sort_by("text")
    assert pyarrow.table(view) == wanted.replace_schema_metadata(view.schema.metadata)
    outcore.table(view, memory=MEMORY).head(3).write("first.parquet")
    assert parquet.read_table("first.parquet")["text"].to_pylist() == wanted["text"][:3].to_pylist()
    down = outcore.sort_view(table, "down", by="number", descending=True, memory=MEMORY)
    numbers = [number for number in down[:]["number"].to_pylist() if number is not None]
    assert numbers == sorted(numbers, reverse=True)
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(view)["text"].to_list() == wanted["text"].to_pylist()


def test_what_does_not_fit_is_an_error_by_name(here: Path) -> None:
    parquet.write_table(rows(), "t.parquet")
    view = outcore.sort_view("t.parquet", "v", by=["name", "number"], memory=MEMORY)
    for key in (7, ("n3", "x"), ("n3", 2**40), ("a", 1, 2), ()):
        with pytest.raises(outcore.UsageError):
            view.search(key)
    with pytest.raises(IndexError):
        view[ROWS]
    with pytest.raises(outcore.UsageError, match="TableView"):
        outcore.View("v")
    for arguments in ({"by": "nam"}, {"columns": ["nam"]}, {"header": False}):
        with pytest.raises(outcore.UsageError):
            outcore.sort_view("t.parquet", "w", **arguments)  # type: ignore[call-overload]
    with pytest.raises(outcore.UsageError, match="cannot be used with tables"):
        outcore.sort_view("t.parquet", "w", by="name", header=False)
    assert not Path("w").exists()
    by_all = outcore.sort_view("t.parquet", "by-all", columns=["text"], memory=MEMORY)
    assert pyarrow.table(by_all)["text"].to_pylist() == sorted(rows()["text"].to_pylist())
    run = next(Path("v").glob("run-*"))
    damaged = bytearray(run.read_bytes())
    damaged[100] ^= 1
    run.write_bytes(damaged)
    with pytest.raises(Exception, match="run 0|differs from what was written"):
        outcore.TableView("v", memory=MEMORY)[:]


def test_bad_rows_that_a_view_of_a_table_leaves_out_are_told(here: Path) -> None:
    (here / "bad.csv").write_text("k,v\n2,20\n1\n1,10\n")
    table = outcore.table("bad.csv", on_error="skip")
    with pytest.warns(UserWarning, match="left out 1 bad row"):
        view = outcore.sort_view(table, "v", by="k")
    assert view[:].to_pylist() == [{"k": 1, "v": 10}, {"k": 2, "v": 20}]

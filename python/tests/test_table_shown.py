"""Tables as people look at them: length, columns, slices, what they print, and what other libraries get."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import outcore

pa = pytest.importorskip("pyarrow")
ROWS = 1000


@pytest.fixture
def sales(here: Path) -> outcore.Table:
    outcore.gen("sales", "sales.parquet", count=ROWS)
    return outcore.table("sales.parquet", drives=here)


def test_a_table_has_a_length_columns_and_types(sales: outcore.Table, here: Path) -> None:
    assert len(sales) == ROWS
    assert sales.columns[:2] == ["id", "time"]
    assert sales.schema["price"] == "f64"
    sales.head(7).write("few.csv")
    assert len(outcore.table("few.csv", drives=here)) == 7
    assert len(outcore.table("few.csv", columns=["id"], drives=here)) == 7


def test_an_empty_table_has_columns_and_is_true(sales: outcore.Table) -> None:
    none = sales.filter("id < 0")
    assert len(none) == 0 and bool(none)
    assert none.columns == sales.columns
    assert none.to_arrow().num_rows == 0


@pytest.mark.parametrize(
    "at",
    [slice(0, 3), slice(None, 3), slice(5, 9), slice(-4, None), slice(-4, -2), slice(990, 2000), slice(9, 5), slice(None)],
)
def test_slices_are_those_of_a_list(sales: outcore.Table, at: slice) -> None:
    every = list(range(1, ROWS + 1))
    assert sales[at].to_arrow()["id"].to_pylist() == every[at]


def test_columns_are_taken_by_name(sales: outcore.Table) -> None:
    assert sales["price"].columns == ["price"]
    assert sales[["price", "id"]].columns == ["price", "id"]
    with pytest.raises(outcore.UsageError, match="table\\[i:j\\]"):
        sales[3]  # type: ignore[call-overload]
    with pytest.raises(outcore.UsageError, match="table\\[i:j\\]"):
        sales[0:10:2]


def test_a_table_prints_its_first_rows(sales: outcore.Table) -> None:
    lines = repr(sales).splitlines()
    assert lines[0] == "outcore.Table of sales.parquet"
    assert lines[1].split()[:3] == ["id", "time", "customer"]
    assert lines[2].split()[0] == "i64"
    assert len(lines) == 8 and all(len(line) <= 100 for line in lines)
    assert "and 1 more column: total" in repr(sales.map(total="price * 2"))


def test_a_notebook_gets_a_table_without_markup_of_the_data(here: Path) -> None:
    data = pa.table({"<b>": ["<script>alert(1)</script>", None, "x" * 500]})
    shown = outcore.table(data, drives=here)._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;" in shown
    assert "<th>&lt;b&gt;" in shown and "null" in shown and "x" * 100 not in shown


def test_other_libraries_get_all_rows(sales: outcore.Table) -> None:
    assert sales.to_arrow().num_rows == ROWS
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    assert isinstance(sales.to_pandas(), pandas.DataFrame)
    assert sales.to_polars().shape == (ROWS, 9) and isinstance(sales.to_polars(), polars.DataFrame)


def test_a_library_that_is_missing_is_named(sales: outcore.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    for make in (sales.to_arrow, sales.to_pandas, sales.to_polars):
        with pytest.raises(outcore.UsageError, match="is not installed; install it: python -m pip install"):
            make()


def test_a_table_is_no_list_of_batches(sales: outcore.Table) -> None:
    # With its length, a list would reserve memory for every row.
    with pytest.raises(TypeError, match="does not support iteration; t.batches"):
        list(sales)  # type: ignore[call-overload]
    assert sum(batch.num_rows for batch in sales.batches()) == ROWS


@pytest.mark.parametrize("name", ["absent.parquet", "absent.csv"])
def test_a_file_that_is_absent_fails_when_the_table_is_opened(name: str, here: Path) -> None:
    for open_it in (outcore.table, outcore.open):
        with pytest.raises(FileNotFoundError, match=name) as raised:
            open_it(name)
        assert raised.value.filename == name


def test_wrong_values_name_their_argument(sales: outcore.Table) -> None:
    with pytest.raises(outcore.UsageError, match="by=3 has the type int"):
        sales.group_by(3, "count")  # type: ignore[arg-type]
    with pytest.raises(outcore.UsageError, match="progress=3 is neither"):
        outcore.sort("sales.parquet", "o.parquet", progress=3)  # type: ignore[call-overload]

"""A Parquet set by worker, rank and epoch, with PyTorch if it is installed, otherwise with a stand-in."""

from __future__ import annotations

import importlib
import pickle
import sys
from datetime import date, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import outcore
import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

COUNT = 1003


@pytest.fixture
def folder(here: Path) -> str:
    table = pa.table({"x": list(range(COUNT)), "text": [f"t{number}" for number in range(COUNT)]})
    (here / "set").mkdir()
    pq.write_table(table, here / "set/a.parquet", row_group_size=90)
    (here / "set/_list.parquet").write_bytes(b"not one of the set")
    pq.write_table(table.slice(0, 0), here / "set/b.parquet")
    return "set"


def xs(batches: Any) -> list[int]:
    return [x for batch in batches for x in batch["x"].to_pylist()]


def test_an_epoch_is_each_row_once_in_an_order_of_its_own(folder: str) -> None:
    rows = outcore.ShuffledTable(folder, seed=3)
    assert len(rows) == COUNT
    orders = [xs(rows.with_epoch(epoch).batches(64)) for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    assert all(sorted(order) == list(range(COUNT)) for order in orders)
    assert xs(outcore.ShuffledTable(folder, seed=4).batches(64)) != orders[0]
    assert xs(pickle.loads(pickle.dumps(rows)).batches(1000)) == orders[0]
    assert [row["x"] for row in rows] == orders[0]
    text = outcore.ShuffledTable(folder, seed=3, columns=["text"])
    assert [row for row in text] == [{"text": f"t{x}"} for x in orders[0]]


@pytest.mark.parametrize("shards", [1, 2, 7])
def test_shards_share_the_rows_and_go_on_after_a_restart(folder: str, shards: int) -> None:
    rows = outcore.ShuffledTable(folder)
    parts = [xs(rows.batches(50, shard=shard, shards=shards)) for shard in range(shards)]
    assert sum(parts, []) == xs(rows.batches(50))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    part = parts[shards // 2]
    for start in (0, 1, len(part), len(part) + 5):
        assert xs(rows.batches(50, shard=shards // 2, shards=shards, start=start)) == part[start:]
    sizes = [batch.num_rows for batch in rows.batches(50, drop_last=True)]
    assert sizes == [50] * (COUNT // 50)


def test_what_is_wrong_is_named(folder: str, here: Path) -> None:
    with pytest.raises(outcore.UsageError, match="no column `y`.*x, text"):
        outcore.ShuffledTable(folder, columns=["y"])
    with pytest.raises(outcore.UsageError, match="shard 2 of 2"):
        outcore.ShuffledTable(folder).batches(5, shard=2, shards=2)
    with pytest.raises(outcore.UsageError, match="no rows"):
        outcore.ShuffledTable("set/b.parquet")
    (here / "set").rename(here / "_set")
    with pytest.raises(outcore.UsageError, match="no Parquet file"):
        outcore.ShuffledTable(here)
    with pytest.raises(outcore.NotFoundError, match="nothing.parquet"):
        outcore.ShuffledTable("nothing.parquet")
    with pytest.raises(outcore.CorruptError, match="_list.parquet"):
        outcore.ShuffledTable("_set/_list.parquet")
    pq.write_table(pa.table({"x": ["a"]}), "other.parquet")
    with pytest.raises(outcore.UsageError, match="`x` is text, .*other.parquet.*convert them"):
        outcore.ShuffledTable(["_set", "other.parquet"])
    rows = outcore.ShuffledTable("other.parquet")
    pq.write_table(pa.table({"x": ["a", "b"]}), "other.parquet")
    with pytest.raises(outcore.CorruptError, match="changed after"):
        list(rows)


class Shared(np.ndarray[Any, Any]):
    def share_memory_(self) -> Shared:
        return self


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """PyTorch, or the part of it that the datasets use; `worker` is the result of `get_worker_info`."""
    worker = SimpleNamespace(info=None)
    try:
        real = importlib.import_module("torch")
        importlib.import_module("torch.utils.data")
    except ImportError:
        real = None
    if real is None:
        names = ("torch", "torch.utils", "torch.utils.data")
        made = {name: ModuleType(name) for name in names}
        for name, module in made.items():
            monkeypatch.setitem(sys.modules, name, module)
        top: Any = made["torch"]
        top.int64, top.from_numpy = np.int64, np.asarray
        top.zeros = lambda count, dtype: np.zeros(count, dtype).view(Shared)
        top.distributed = SimpleNamespace(is_available=lambda: False)
        data: Any = made["torch.utils.data"]
        data.IterableDataset, data.get_worker_info = object, None
        monkeypatch.delitem(sys.modules, "outcore.torch", raising=False)
    module = importlib.import_module("outcore.torch")
    monkeypatch.setattr(module, "get_worker_info", lambda: worker.info)
    yield SimpleNamespace(module=module, worker=worker)
    if real is None:
        sys.modules.pop("outcore.torch", None)
        vars(outcore).pop("torch", None)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_ranks_and_workers_share_the_batches_of_an_epoch(folder: str, torch: Any, workers: int) -> None:
    def batches(rank: int, epoch: int) -> list[list[Any]]:
        data = torch.module.ShuffledTableDataset(folder, batch_size=40, rank=rank, world_size=2, seed=3)
        data.set_epoch(epoch)
        shares = []
        for worker in range(workers):
            torch.worker.info = SimpleNamespace(id=worker, num_workers=workers)
            shares.append(list(data))
        torch.worker.info = None
        assert len(data) == sum(map(len, shares)) == -(-502 // 40)
        return sum(shares, [])

    order = xs(outcore.ShuffledTable(folder, seed=3, epoch=2).batches(COUNT))
    for rank in (0, 1):
        found = batches(rank, 2)
        numbers = [int(x) for batch in found for x in batch["x"]]
        # The ranks have equal counts, so the last item of the second rank is the first of all.
        assert numbers == (order + order[:1])[502 * rank : 502 * (rank + 1)]
        assert [text for batch in found for text in batch["text"]] == [f"t{x}" for x in numbers]


def test_a_state_goes_on_where_it_was_taken(folder: str, torch: Any) -> None:
    data = torch.module.ShuffledTableDataset(folder, batch_size=40, columns=["x"])
    whole = [batch["x"].tolist() for batch in data]
    iterator = iter(data)
    taken = [next(iterator)["x"].tolist() for _ in range(7)]
    state = data.state_dict()
    again = torch.module.ShuffledTableDataset(folder, batch_size=40, columns=["x"])
    again.load_state_dict(state)
    assert taken + [batch["x"].tolist() for batch in again] == whole


def test_datasets_of_hugging_face_read_each_row_once(folder: str) -> None:
    distributed = pytest.importorskip("datasets.distributed", reason="datasets is not installed")
    rows = outcore.ShuffledTable(folder)
    whole = rows.to_hf(shards=4)
    assert [row["x"] for row in whole] == xs(rows.batches(COUNT))
    parts = [
        [row["x"] for row in distributed.split_dataset_by_node(whole, rank=rank, world_size=2)] for rank in (0, 1)
    ]
    assert sorted(sum(parts, [])) == list(range(COUNT)) and all(parts)


def test_a_directory_whose_list_does_not_fit_is_rejected_by_name(folder: str, here: Path) -> None:
    (here / "set/_parts.outcore.json").write_text('{"outcore": "manifest of shards", "version": 2}')
    for read in (outcore.ShuffledTable, outcore.table):
        with pytest.raises(outcore.OutcoreError, match="_parts.outcore.json"):
            len(read(folder))
    (here / "set/_parts.outcore.json").unlink()
    assert len(outcore.ShuffledTable(folder)) == COUNT


def test_an_output_that_the_next_run_would_read_is_rejected(folder: str, here: Path) -> None:
    with pytest.raises(outcore.UsageError, match="would also read"):
        outcore.table(folder).write("set/new.parquet")
    assert sorted(path.name for path in (here / "set").iterdir()) == ["_list.parquet", "a.parquet", "b.parquet"]
    # Readers skip the steps in between.
    kept = outcore.table(folder, drives=here / "set").filter("x < 10")
    assert pa.table(kept).num_rows == 10


def arrow_of(src: Any) -> Any:
    """The rows as `outcore.table` has them."""
    return pa.table(outcore.table(src))


def ordered(rows: Any, *columns: str) -> list[Any]:
    return sorted((tuple(row[column] for column in columns) for row in rows), key=repr)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("stored", [True, False])
def test_timestamps_of_int96_have_the_years_and_the_schema_of_a_table(here: Path, unit: str, stored: bool) -> None:
    times = [datetime(2020, 1, 2, 3, 4, 5), None]
    if unit != "ns":
        times += [datetime(9999, 12, 31, 23, 59, 59), datetime(1000, 1, 1), datetime(1, 1, 1)]
    kind, zoned = pa.timestamp(unit), pa.timestamp(unit, "Asia/Tokyo")
    columns = {
        "t": pa.array(times, kind),
        "z": pa.array(times, kind).cast("int64").cast(zoned),
        "l": pa.array([[time] for time in times], pa.list_(kind)),
        "fine": pa.array(range(len(times)), pa.int64()).cast(pa.timestamp("ns")),
        "x": pa.array(range(len(times))),
    }
    pq.write_table(pa.table(columns), "t.parquet", use_deprecated_int96_timestamps=True, store_schema=stored)
    (batch,) = outcore.ShuffledTable("t.parquet").batches(10)
    expected = arrow_of("t.parquet")
    assert batch.schema.equals(expected.schema, check_metadata=True)
    assert batch.sort_by("x").equals(expected)
    if unit == "us":
        assert batch.sort_by("x")["t"].to_pylist() == times


def test_batches_have_the_schema_of_a_table(here: Path) -> None:
    columns = {
        "date": pa.array([86400000], pa.date64()),
        "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "word": pa.array(["a"]).dictionary_encode(),
        "long": pa.array(["a"], pa.large_string()),
        "zone": pa.array([1], pa.timestamp("s", "Asia/Tokyo")),
        "object": pa.array([{"a": [1], "b": None}]),
        "a": pa.array([[1, 2]]),
        "a.b": pa.array([[1]], pa.list_(pa.uint8())),
    }
    pq.write_table(pa.table(columns), "t.parquet")
    expected = arrow_of("t.parquet")
    (batch,) = outcore.ShuffledTable("t.parquet").batches(10)
    assert batch.schema.equals(expected.schema, check_metadata=True) and batch.equals(expected)


def say_rows(path: str, group: int, said: int) -> None:
    """Changes the number of rows that the footer has for a row group; each number is less than 64."""
    metadata = pq.ParquetFile(path).metadata.row_group(group)
    data = bytearray(Path(path).read_bytes())
    # In Thrift's compact protocol, the number of rows is the field after the total size of the group.
    size, number = bytearray(), metadata.total_byte_size * 2
    while number > 127:
        size.append(number & 127 | 128)
        number >>= 7
    field = bytes([*size, number, 0x16])
    at = data.rindex(field + bytes([metadata.num_rows * 2])) + len(field)
    data[at] = said * 2
    Path(path).write_bytes(data)


@pytest.mark.parametrize("said", [2, 4])
@pytest.mark.parametrize("columns", [None, ["list"]])
def test_a_row_group_with_other_rows_than_its_file_says_is_rejected(
    here: Path, said: int, columns: list[str] | None
) -> None:
    table = pa.table({"x": range(6), "list": [[x] for x in range(6)]})
    pq.write_table(table.slice(0, 3), "t.parquet")
    with pq.ParquetWriter("t.parquet", table.schema) as writer:
        writer.write_table(table.slice(0, 3))
        writer.write_table(table.slice(3, 3))
    say_rows("t.parquet", 1, said)
    with pytest.raises(outcore.CorruptError, match="row group 1 .*the file says"):
        outcore.convert("t.parquet", "t.arrow")
    with pytest.raises(outcore.CorruptError, match="row group 1 has 3 rows, and the file says") as error:
        list(outcore.ShuffledTable("t.parquet", columns=columns).batches(10))
    assert error.value.path == "t.parquet"


def test_lists_of_a_row_group_with_fewer_rows_than_its_file_has_are_rejected(here: Path) -> None:
    lists = pa.table({"list": [[1, 2], [], None, [3]], "objects": [[{"a": 1}], [], None, [{"a": 2}, None]]})
    pq.write_table(lists, "t.parquet")
    (batch,) = outcore.ShuffledTable("t.parquet").batches(10)
    assert ordered(batch.to_pylist(), "list") == ordered(lists.to_pylist(), "list")
    say_rows("t.parquet", 0, 3)
    for column in lists.column_names:
        with pytest.raises(outcore.CorruptError, match=f"row group 0 has 5 values of `{column}.*t.parquet"):
            list(outcore.ShuffledTable("t.parquet", columns=[column]))


def test_damaged_pages_are_an_error_of_corrupt_data(here: Path) -> None:
    pq.write_table(pa.table({"x": range(1000)}), "t.parquet", write_page_checksum=True, compression="none")
    data = bytearray(Path("t.parquet").read_bytes())
    data[len(data) // 4] ^= 1
    Path("t.parquet").write_bytes(data)
    with pytest.raises(outcore.CorruptError, match="t.parquet"):
        list(outcore.ShuffledTable("t.parquet").batches(10))


@pytest.mark.parametrize(
    "keys",
    [
        [1, 1, 2, None],
        ["a b/c=%", "", "ä", "__x"],
        [True, False, None, True],
        [date(2024, 2, 29), date(1, 1, 1), None, None],
        [datetime(2024, 2, 29, 1, 2, 3, 4), datetime(9999, 1, 1), None, None],
    ],
)
def test_columns_of_directory_names_have_the_values_and_types_of_a_table(here: Path, keys: list[Any]) -> None:
    pq.write_table(pa.table({"k": keys, "_day": [7, 7, 8, 8], "x": range(4)}), "t.parquet")
    outcore.split("t.parquet", "h", by=["k", "_day"])
    expected = arrow_of("h")
    rows = outcore.ShuffledTable("h", seed=1)
    (batch,) = rows.batches(10)
    assert batch.schema.equals(expected.schema) and batch.sort_by("x").equals(expected.sort_by("x"))
    assert pickle.loads(pickle.dumps(rows)).with_epoch(0)._schema == expected.schema
    files = sorted(map(str, Path("h").rglob("*.parquet")))
    for src in (files, "h/*/*/*.parquet", "h/k=*"):
        assert ordered(outcore.ShuffledTable(src), "x", "k") == ordered(expected.to_pylist(), "x", "k")
    chosen = outcore.ShuffledTable("h", columns=["k", "x"])
    assert ordered(chosen, "x", "k") == ordered(expected.to_pylist(), "x", "k")
    assert ordered(outcore.ShuffledTable("h", columns=["k"]), "k") == ordered(expected.to_pylist(), "k")


def test_a_directory_has_the_tables_that_a_table_reads_or_is_rejected(folder: str, here: Path) -> None:
    more = pa.table({"x": [COUNT], "text": ["more"]})
    pq.write_table(more, "set/c.pq")
    (here / "set/_day=7").mkdir()
    pq.write_table(more, "set/_day=7/a.parquet")
    assert len(outcore.ShuffledTable(folder)) == len(outcore.table(folder)) == COUNT + 2
    outcore.convert("set/c.pq", "set/d.arrow")
    with pytest.raises(outcore.UsageError, match="set/d.arrow is an Arrow file"):
        outcore.ShuffledTable(folder)


def test_a_pattern_that_takes_a_file_beside_a_set_is_rejected(here: Path) -> None:
    pq.write_table(pa.table({"x": range(100)}), "t.parquet")
    outcore.convert("t.parquet", "parts", parts=3)
    Path("t.parquet").rename("parts/t.parquet")
    with pytest.raises(outcore.CorruptError, match="not part of the set.*parts/t.parquet"):
        outcore.ShuffledTable("parts/*.parquet")


def test_no_columns_are_rejected(folder: str) -> None:
    with pytest.raises(outcore.UsageError, match="no column is chosen.*x, text"):
        outcore.ShuffledTable(folder, columns=[])


def test_tensors_of_a_table_have_the_columns_of_directory_names(here: Path, torch: Any) -> None:
    pq.write_table(pa.table({"k": [1, 2, 2], "x": range(3)}), "t.parquet")
    outcore.split("t.parquet", "h", by="k")
    (batch,) = torch.module.ShuffledTableDataset("h", batch_size=5, rank=0, world_size=1)
    assert sorted(zip(map(int, batch["x"]), map(int, batch["k"]))) == [(0, 1), (1, 2), (2, 2)]

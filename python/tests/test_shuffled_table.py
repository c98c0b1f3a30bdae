"""A Parquet set by worker, rank and epoch, with PyTorch if it is installed, otherwise with a stand-in."""

from __future__ import annotations

import importlib
import pickle
import sys
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
    with pytest.raises(outcore.UsageError, match="other.parquet has other columns"):
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

"""Shuffles that are written, shuffles that are read without writing, and PyTorch's view of them."""

from __future__ import annotations

import pickle
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcore

COUNT = 300_000


@pytest.fixture
def numbers(here: Path) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Numbers in order in `in.bin`: more than fit in one leaf of the draw tree."""
    values = np.arange(COUNT, dtype=np.uint64)
    values.tofile("in.bin")
    return values


def test_a_shuffle_has_all_records_in_another_order_and_is_repeatable(numbers: Any) -> None:
    summary = outcore.shuffle("in.bin", "out.bin", dtype="u64", seed=3, memory="32MiB")
    assert summary.records == COUNT
    assert summary.data_bytes == 8 * COUNT
    assert summary.plan is not None and "draws" in summary.plan.text
    out = np.fromfile("out.bin", np.uint64)
    assert not np.array_equal(out, numbers)
    np.testing.assert_array_equal(np.sort(out), numbers)
    options: dict[str, Any] = {"dtype": "u64", "seed": 3, "force": True}
    outcore.shuffle("in.bin", "again.bin", memory="200MiB", threads=1, **options)
    np.testing.assert_array_equal(np.fromfile("again.bin", np.uint64), out)
    outcore.shuffle("in.bin", "again.bin", memory="32MiB", epoch=1, **options)
    assert not np.array_equal(np.fromfile("again.bin", np.uint64), out)


def test_lines_are_shuffled_whole_and_the_last_one_is_ended(here: Path) -> None:
    lines = [f"line {number} é".encode() + b"x" * (number % 50) for number in range(10_000)]
    Path("in.txt").write_bytes(b"\n".join(lines))
    outcore.shuffle("in.txt", "out.txt", lines=True, memory="64MiB")
    out = Path("out.txt").read_bytes()
    assert out.endswith(b"\n")
    assert Counter(out[:-1].split(b"\n")) == Counter(lines)
    assert out[:-1].split(b"\n") != lines


def test_npy_keeps_its_header(here: Path) -> None:
    rows = np.random.default_rng(1).random((5000, 3), dtype=np.float32)
    np.save("in.npy", rows)
    outcore.shuffle("in.npy", "out.npy", memory="32MiB")
    out = np.load("out.npy")
    assert out.shape == rows.shape and out.dtype == rows.dtype
    assert {row.tobytes() for row in out} == {row.tobytes() for row in rows}


def test_a_file_can_be_shuffled_in_place_of_itself(numbers: Any) -> None:
    outcore.shuffle("in.bin", "in.bin", dtype="u64", replace=True, memory="32MiB")
    out = np.fromfile("in.bin", np.uint64)
    assert not np.array_equal(out, numbers)
    np.testing.assert_array_equal(np.sort(out), numbers)


def test_what_makes_no_sense_is_refused(numbers: Any) -> None:
    with pytest.raises(outcore.UsageError, match="one of the inputs"):
        outcore.shuffle("in.bin", "in.bin", dtype="u64")
    Path("there.bin").touch()
    with pytest.raises(outcore.UsageError, match="exists"):
        outcore.shuffle("in.bin", "there.bin", dtype="u64")
    with pytest.raises(outcore.UsageError, match="lines"):
        outcore.shuffle("in.bin", "out.bin", dtype="u64", lines=True)
    with pytest.raises(outcore.UsageError):
        outcore.shuffle("in.bin", "out.bin", record=7)
    assert not Path("out.bin").exists()


def test_reading_shuffled_is_reading_what_a_shuffle_writes(numbers: Any) -> None:
    outcore.shuffle("in.bin", "out.bin", dtype="u64", seed=5, epoch=2, memory="32MiB")
    written = np.fromfile("out.bin", np.uint64)
    order = outcore.shuffled("in.bin", dtype="u64", seed=5, epoch=2, memory="32MiB")
    assert len(order) == COUNT and order.dtype == np.uint64
    np.testing.assert_array_equal(order[1000:5000], written[1000:5000])
    assert order[0] == written[0] and order[-1] == written[-1]
    np.testing.assert_array_equal(np.concatenate(list(order.batches(7777))), written)
    parts = [
        batch
        for shard in range(3)
        for batch in order.batches(1000, shard=shard, shards=3)
    ]
    np.testing.assert_array_equal(np.concatenate(parts), written)
    again = pickle.loads(pickle.dumps(order))
    np.testing.assert_array_equal(again[:100], written[:100])
    assert not np.array_equal(order.with_epoch(3)[:100], written[:100])


def test_batches_go_on_where_they_stopped(numbers: Any) -> None:
    order = outcore.shuffled("in.bin", dtype="u64", memory="16MiB")
    batches = order.batches(4096, shard=1, shards=2)
    seen = [next(batches) for _ in range(5)]
    batches.close()
    rest = order.batches(4096, shard=1, shards=2, start=batches.position)
    whole = np.concatenate(list(order.batches(4096, shard=1, shards=2)))
    np.testing.assert_array_equal(np.concatenate([*seen, *rest]), whole)
    assert all(len(batch) == 4096 for batch in order.batches(4096, drop_last=True))


def test_records_that_numpy_has_no_type_for_are_bytes(numbers: Any) -> None:
    order = outcore.shuffled("in.bin", record=24, memory="32MiB")
    assert len(order) == COUNT // 3
    rows = order[:10]
    assert rows.nbytes == 240


READER = """
import numpy
import outcore

def peak_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

outcore.shuffled("small.bin", record=4096, memory="32MiB", threads=2)[:1]
before = peak_kib()
order = outcore.shuffled("wide.bin", record=4096, seed=3, memory="32MiB", threads=2)
seen = bytearray(len(order))
for shard in range(2):
    for batch in order.batches(64, shard=shard, shards=2):
        for row in numpy.frombuffer(batch.tobytes(), "<u4")[::1024]:
            seen[row] += 1
print(len(order), bytes(seen) == bytes([1]) * len(order), peak_kib() - before)
"""


def test_reading_shuffled_holds_no_more_than_the_memory(here: Path) -> None:
    rows, size = 48 * 1024, 4096
    with open("wide.bin", "wb") as wide:
        for start in range(0, rows, 1024):
            block = np.zeros((1024, size // 4), dtype="<u4")
            block[:, 0] = np.arange(start, start + 1024)
            wide.write(block.tobytes())
    Path("small.bin").write_bytes(bytes(size))
    done = subprocess.run([sys.executable, "-c", READER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    count, all_once, peak_kib = done.stdout.split()
    assert (count, all_once) == (str(rows), "True")
    assert int(peak_kib) < (32 + 64) * 1024, "of a file of 192 MiB"


def test_reading_beyond_the_end_is_refused(numbers: Any) -> None:
    order = outcore.shuffled("in.bin", dtype="u64", memory="32MiB")
    with pytest.raises(outcore.UsageError, match="records from"):
        order.read(COUNT - 1, 2)
    with pytest.raises(IndexError):
        order[COUNT]
    with pytest.raises(outcore.UsageError, match="shard"):
        order.batches(10, shard=2, shards=2)


class Shared(np.ndarray):
    """The part of a tensor that the dataset uses."""

    def share_memory_(self) -> Shared:
        return self


@pytest.fixture
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The part of PyTorch that the dataset uses; the real package takes a gigabyte."""
    torch: Any = types.ModuleType("torch")
    torch.from_numpy = lambda array: array
    torch.int64 = np.int64
    torch.zeros = lambda count, dtype: np.zeros(count, dtype).view(Shared)
    torch.distributed = types.SimpleNamespace(is_available=lambda: False)
    data: Any = types.ModuleType("torch.utils.data")
    data.IterableDataset = type("IterableDataset", (), {})
    data.worker = None
    data.get_worker_info = lambda: data.worker
    torch.utils = types.ModuleType("torch.utils")
    parts = {"torch": torch, "torch.utils": torch.utils, "torch.utils.data": data}
    for name, part in parts.items():
        monkeypatch.setitem(sys.modules, name, part)
    monkeypatch.delitem(sys.modules, "outcore.torch", raising=False)
    return data


def test_workers_and_ranks_share_one_order(numbers: Any, fake_torch: Any) -> None:
    from outcore.torch import ShuffledDataset

    seen: list[Any] = []
    for rank in range(2):
        data = ShuffledDataset(
            "in.bin", batch_size=1000, rank=rank, world_size=2, dtype="u64", memory="32MiB"
        )
        assert len(data) == COUNT // 2000
        for worker in range(2):
            fake_torch.worker = types.SimpleNamespace(id=worker, num_workers=2)
            seen.extend(data)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), numbers)


def test_a_dataset_goes_on_after_a_restart_and_has_epochs(numbers: Any, fake_torch: Any) -> None:
    from outcore.torch import ShuffledDataset

    options: dict[str, Any] = {"batch_size": 500, "dtype": "u64", "memory": "32MiB", "seed": 9}
    data = ShuffledDataset("in.bin", **options)
    data.set_epoch(4)
    batches = iter(data)
    first = [next(batches) for _ in range(20)]
    state = data.state_dict()
    restarted = ShuffledDataset("in.bin", **options)
    restarted.load_state_dict(state)
    everything = np.concatenate([*first, *restarted])
    np.testing.assert_array_equal(np.sort(everything), numbers)
    other = ShuffledDataset("in.bin", **options)
    assert not np.array_equal(next(iter(other)), first[0])

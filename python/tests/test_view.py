"""Sorted views: what is read through one equals what NumPy sorts."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import outcore

MEMORY = "64MiB"
COUNT = 300_000


def random_numbers() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    rng = np.random.default_rng(11)
    return rng.integers(-(1 << 40), 1 << 40, COUNT)


def test_slices_searches_batches_and_parts_are_those_of_the_sorted_array(here: Path) -> None:
    numbers = random_numbers()
    numbers.tofile("in.bin")
    view = outcore.sort_view("in.bin", "v", dtype=np.int64, memory=MEMORY)
    wanted = np.sort(numbers)
    assert len(view) == COUNT and view.dtype == np.int64 and view.type == "i64"
    assert np.array_equal(view[:], wanted)
    assert np.array_equal(view[1000:2000], wanted[1000:2000])
    assert np.array_equal(view[-5:], wanted[-5:])
    assert np.array_equal(view[10:1000:7], wanted[10:1000:7])
    assert view[7] == wanted[7] and view[-1] == wanted[-1]
    for key in (0, int(wanted[123]), int(wanted[-1]) + 1, wanted[5]):
        assert view.search(key) == np.searchsorted(wanted, key)
    assert np.array_equal(np.concatenate(list(view.batches(70_001))), wanted)
    parts = view.split(3)
    assert [len(part) for part in parts] == [100_000] * 3
    with ThreadPoolExecutor(3) as pool:
        assert np.array_equal(np.concatenate(list(pool.map(lambda part: part[:], parts))), wanted)
    again = pickle.loads(pickle.dumps(parts[1]))
    assert np.array_equal(again[:], wanted[100_000:200_000])
    assert again.search(int(wanted[150_000])) == 50_000
    opened = outcore.View("v", memory=MEMORY)
    assert np.array_equal(opened[::1000], wanted[::1000])


def test_structured_records_and_their_keys(here: Path) -> None:
    dtype = np.dtype([("id", "<u4"), ("name", "S8"), ("x", "<f8")])
    rng = np.random.default_rng(3)
    table = np.zeros(5000, dtype)
    table["id"] = rng.integers(0, 50, 5000)
    table["name"] = [f"n{value % 17}".encode() for value in range(5000)]
    table["x"] = rng.standard_normal(5000)
    np.save("in.npy", table)
    view = outcore.sort_view("in.npy", "v", key=["name", "id:desc"], stable=True, memory=MEMORY)
    order = np.lexsort((-table["id"].astype("i8"), table["name"]))
    read = view[:]
    assert read.tobytes() == table[order].tobytes()
    first = view.search((b"n3", 7))
    before = [(row["name"], -int(row["id"])) < (b"n3", -7) for row in table[order]]
    assert first == sum(before)


def test_what_is_wrong_is_an_error_with_a_next_step(here: Path) -> None:
    with pytest.raises(outcore.NotFoundError, match="view build"):
        outcore.View("none")
    np.arange(100, dtype="u8").tofile("in.bin")
    view = outcore.sort_view("in.bin", "v", dtype="u64", memory=MEMORY)
    with pytest.raises(outcore.UsageError, match="force"):
        outcore.sort_view("in.bin", "v", dtype="u64", memory=MEMORY)
    with pytest.raises(outcore.UsageError, match="step"):
        view[::-1]
    with pytest.raises(IndexError):
        view[100]
    with pytest.raises(outcore.UsageError):
        view.search("x")
    for run in Path("v").glob("run-*"):
        data = bytearray(run.read_bytes())
        data[100] ^= 1
        run.write_bytes(data)
    with pytest.raises(outcore.CorruptError, match="run 0"):
        outcore.View("v", memory=MEMORY)[:]

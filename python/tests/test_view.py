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


def test_lines_are_a_list_of_bytes_in_the_order_that_sort_has(here: Path) -> None:
    rng = np.random.default_rng(5)
    lines = [f"k{value % 50}\t{value}".encode() for value in rng.integers(0, 10_000, 20_000)]
    Path("in.txt").write_bytes(b"\n".join(lines))
    view = outcore.sort_view("in.txt", "v", lines=True, memory=MEMORY)
    wanted = sorted(lines)
    assert len(view) == len(lines) and view.type == "lines"
    assert view[:] == wanted and view[3:3] == []
    assert view[1000:2000:3] == wanted[1000:2000:3]
    assert view[-1] == wanted[-1] and view[0] == wanted[0]
    assert view.search(wanted[700]) == wanted.index(wanted[700])
    assert view.search("k3") == sum(line < b"k3" for line in lines)
    assert sum(view.batches(999), []) == wanted and sum(view.batches(), []) == wanted
    parts = view.split(3)
    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(lambda part: part[:], parts), []) == wanted
    again = pickle.loads(pickle.dumps(parts[1]))
    assert again[:] == parts[1][:] and isinstance(again, outcore.LineView)
    keyed = outcore.sort_view(
        "in.txt", "w", lines=True, key="2,2", order="n", separator="\t", stable=True, descending=True
    )
    wanted = sorted(lines, key=lambda line: -int(line.split(b"\t")[1]))
    assert keyed[:] == wanted
    opened = outcore.LineView("w", memory=MEMORY)
    number = int(wanted[500].split(b"\t")[1])
    assert opened.search(f"x\t{number}") == sum(
        int(line.split(b"\t")[1]) > number for line in lines
    )


def test_lines_and_records_are_told_apart(here: Path) -> None:
    Path("in.txt").write_bytes(b"b\0a\0")
    view = outcore.sort_view("in.txt", "v", lines=True, zero_terminated=True, memory=MEMORY)
    assert view[:] == [b"a", b"b"] and repr(view) == "<outcore.LineView 'v': 2 lines>"
    with pytest.raises(outcore.UsageError, match="LineView"):
        outcore.View("v")
    np.arange(10, dtype="u8").tofile("in.bin")
    outcore.sort_view("in.bin", "w", dtype="u64", memory=MEMORY)
    with pytest.raises(outcore.UsageError, match="with View"):
        outcore.LineView("w")
    with pytest.raises(outcore.UsageError, match="lines=True"):
        outcore.sort_view("in.txt", "x", order="n")  # type: ignore[call-overload]
    with pytest.raises(outcore.UsageError, match="letter"):
        outcore.sort_view("in.txt", "x", lines=True, order="q")

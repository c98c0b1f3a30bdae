"""Sorted views: reads equal NumPy's sort."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["<u8", ">u4", "<i2", "u1", "<f4", ">f8"])
def test_any_slice_of_any_type_is_that_of_the_sorted_file(
    here: Path, dtype: str, descending: bool
) -> None:
    rng = np.random.default_rng(len(dtype) + ord(dtype[-1]) + descending)
    # Most values occur several times.
    rng.integers(-100, 100, 50_000).astype(dtype).tofile("in.bin")
    outcore.sort("in.bin", "sorted.bin", dtype=dtype, descending=descending, memory=MEMORY)
    wanted = np.fromfile("sorted.bin", dtype)
    view = outcore.sort_view("in.bin", "v", dtype=dtype, descending=descending, memory=MEMORY)
    for start, stop in rng.integers(0, len(wanted) + 1, (20, 2)):
        assert view[start:stop].tobytes() == wanted[start:stop].tobytes()
    assert b"".join(part[:].tobytes() for part in view.split(7)) == wanted.tobytes()
    key = wanted[int(rng.integers(len(wanted)))]
    assert view.search(key) == int(np.flatnonzero(wanted == key)[0])


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
    with pytest.raises(outcore.NotFoundError, match="sort_view"):
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


def test_json_lines_are_ordered_by_their_fields(here: Path) -> None:
    rng = np.random.default_rng(8)
    rows = [
        {"user": {"id": int(user)}, "price": int(price), "row": row}
        for row, (user, price) in enumerate(rng.integers(0, 40, (5000, 2)))
    ]
    Path("in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    by = [".user.id", ".price:r"]
    view = outcore.sort_view("in.jsonl", "v", jsonl=True, by=by, stable=True, memory=MEMORY)
    wanted = sorted(rows, key=lambda row: (row["user"]["id"], -row["price"]))
    assert [json.loads(line) for line in view[:]] == wanted
    key = json.dumps({"user": {"id": 7}, "price": 5})
    before = [(row["user"]["id"], -row["price"]) < (7, -5) for row in wanted]
    assert outcore.LineView("v").search(key) == sum(before)
    with pytest.raises(outcore.UsageError, match="key"):
        outcore.sort_view("in.jsonl", "w", jsonl=True, by=".row", key="1")
    with pytest.raises(outcore.CorruptError, match="no field"):
        outcore.sort_view("in.jsonl", "w", jsonl=True, by=".cost")
    assert not Path("w").exists()


def test_records_of_csv_are_those_of_the_sorted_file(here: Path) -> None:
    rng = np.random.default_rng(9)
    names = ["plain", '"with, comma"', '"two\nlines"', '"a ""quote"""']
    rows = [f"{row},{names[row % 4]},{price}" for row, price in enumerate(rng.integers(0, 50, 3000))]
    Path("in.csv").write_text("row,name,price\n" + "\n".join(rows) + "\n")
    for by in (["price:nr", "name"], ["2", "1:n"]):
        log = outcore.open("in.csv", lines=True)
        log.sort(by=by, csv=True, stable=True).write("sorted.csv", force=True)
        view = outcore.sort_view(
            "in.csv", "v", csv=True, by=by, stable=True, memory=MEMORY, force=True
        )
        assert view.header == b"row,name,price\n" and len(view) == 3000
        read = view.header + b"".join(line + b"\n" for line in view[:])
        assert read == Path("sorted.csv").read_bytes()
        assert view[17:900:3] == view[:][17:900:3]
    assert view.search('0,"two\nlines",0') == 2 * 750
    with pytest.raises(outcore.UsageError, match="by="):
        outcore.sort_view("in.csv", "w", csv=True)


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
    with pytest.raises(outcore.UsageError, match='lines="any"'):
        outcore.sort_view("in.txt", "x", order="n")  # type: ignore[call-overload]
    assert outcore.sort_view("in.txt", "any", order="n", lines="any", memory=MEMORY)[:] == [b"b\0a\0"]
    with pytest.raises(outcore.UsageError, match="letter"):
        outcore.sort_view("in.txt", "x", lines=True, order="q")


def test_many_keys_are_looked_up_at_once(here):
    random = np.random.default_rng(31)
    numbers = random.integers(0, 5000, 30_000, "u8")
    numbers.tofile("n.bin")
    view = outcore.sort_view("n.bin", "n.view", dtype="u64", memory="64MiB")
    ordered = np.sort(numbers)
    keys = random.integers(0, 5100, 700)
    for side in ("left", "right"):
        wanted = np.searchsorted(ordered, keys.astype("u8"), side)
        assert (view.search(keys, side) == wanted).all()
        assert view.search([int(key) for key in keys[:20]], side).tolist() == wanted[:20].tolist()
        assert view.search(int(keys[0]), side) == wanted[0]
        assert view.search(keys.reshape(7, 100), side).shape == (7, 100)
    part = view.split(3)[1]
    bounds = np.searchsorted(ordered, keys.astype("u8")).clip(10_000, 20_000) - 10_000
    assert (part.search(keys) == bounds).all()
    with pytest.raises(outcore.UsageError, match="does not fit in"):
        view.search(np.array([-1]))
    with pytest.raises(outcore.UsageError, match="side"):
        view.search(keys, "middle")
    with pytest.raises(outcore.UsageError, match="an array of"):
        view.search(np.array(["a"]))
    two = np.stack([keys, keys], axis=1).astype("u4")
    np.sort(two.view([("a", "u4"), ("b", "u4")]), axis=0).tofile("two.bin")
    pairs = outcore.sort_view("two.bin", "two.view", dtype="u32x2", memory="64MiB")
    assert pairs.search(two[:9]).shape == (9,)
    with pytest.raises(outcore.UsageError, match="rows of 2"):
        pairs.search(np.array([1, 2, 3], "u4"))
    words = sorted({f"{n * 7919 % 3001:x}" for n in range(3000)})
    Path("w.txt").write_text("".join(f"{word}\n" for word in reversed(words)))
    lines = outcore.sort_view("w.txt", "w.view", lines=True, memory="64MiB")
    asked = [*words[::17], "", "zz", words[3] + "0"]
    wanted = [sum(word < key for word in words) for key in asked]
    assert lines.search(asked).tolist() == wanted
    assert lines.search([key.encode() for key in asked]).tolist() == wanted
    assert lines.search(asked[0]) == wanted[0] and lines.search(asked[0], "right") == wanted[0] + 1
    Path("sorted.txt").write_text("\n".join(words))
    assert outcore.lookup("sorted.txt", asked, lines=True, memory="64MiB").tolist() == wanted
    found = outcore.lookup("sorted.txt", asked, "right", lines=True)
    assert found.tolist() == [sum(word <= key for word in words) for key in asked]
    with pytest.raises(outcore.UsageError, match="ascending"):
        Path("wild.txt").write_text("b\n" * 20_000 + "a\n" * 20_000)
        outcore.lookup("wild.txt", ["a"], lines=True)
    with pytest.raises(outcore.UsageError, match="give a list"):
        outcore.lookup("sorted.txt", "apple", lines=True)
    with pytest.raises(outcore.UsageError, match="directory"):
        outcore.lookup("w.view", ["a"], lines=True)

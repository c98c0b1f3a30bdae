"""Conversions between datasets and NumPy or pandas: an array, or an error that names the problem."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcore


@pytest.fixture
def rows(here: Path) -> np.ndarray:
    made = np.arange(1000 * 16, dtype=np.float32).reshape(1000, 16)
    np.save("rows.npy", made)
    return made


def test_asarray_is_all_items(rows: np.ndarray, here: Path) -> None:
    data = outcore.open("rows.npy", memory="32MiB")
    made = np.asarray(data)
    assert made.dtype == np.float32 and np.array_equal(made, rows)
    assert np.array_equal(np.asarray(data, dtype=np.float64), rows.astype(np.float64))
    assert np.asarray(data, dtype=np.float64).dtype == np.float64
    assert np.array_equal(np.array(data, copy=True), rows)
    made[0] = 7  # its own memory
    one = outcore.open("rows.npy", memory="32MiB").map("x[3]").filter("x < 100").sort(descending=True)
    wanted = np.sort(rows[:, 3][rows[:, 3] < 100])[::-1]
    assert np.array_equal(np.asarray(one), wanted)
    assert np.asarray(outcore.tabulate(0, memory="32MiB")).shape == (0,)
    with pytest.raises(ValueError, match="always a copy"):
        data.__array__(copy=False)


def test_asarray_of_records_keeps_their_fields(here: Path) -> None:
    made = np.zeros(100, dtype=[("a", "<i4"), ("b", "<f8", (2,))])
    made["a"] = np.arange(100)[::-1]
    np.save("records.npy", made)
    data = outcore.open("records.npy", memory="32MiB")
    assert np.array_equal(np.asarray(data), made)
    assert np.array_equal(np.asarray(data.filter("a < 10").sort()), made[made["a"] < 10][::-1])


def test_asarray_of_orders_and_views(rows: np.ndarray) -> None:
    order = outcore.shuffled("rows.npy", memory="32MiB")
    assert np.array_equal(np.asarray(order), order[:])
    assert np.asarray(order).shape == rows.shape
    view = outcore.sort_view("rows.npy", "rows.view", memory="32MiB")
    assert np.array_equal(np.asarray(view), rows)


def test_more_than_the_memory_is_refused_before_it_is_read(here: Path) -> None:
    with open("large.bin", "wb") as large:
        large.truncate(48 << 20)
    data = outcore.open("large.bin", dtype="u64", memory="32MiB", threads=1)
    with pytest.raises(outcore.MemoryBudgetError, match="take batches") as refused:
        np.asarray(data)
    assert "32.0 MiB" in str(refused.value)
    with pytest.raises(outcore.MemoryBudgetError):
        np.asarray(data.map("x + 1"))
    assert len(np.asarray(data.filter("index < 10"))) == 10


def test_lines_are_no_array(here: Path) -> None:
    Path("lines.txt").write_text("b\na\n")
    with pytest.raises(outcore.UsageError, match="lines cannot be"):
        np.asarray(outcore.open("lines.txt", lines=True))


class Table:
    """The common interface of pandas, Polars and Arrow: it iterates over the names of its columns."""

    def __dataframe__(self) -> None:
        raise AssertionError

    def __iter__(self) -> Any:
        return iter(["rows.npy"])


@pytest.mark.parametrize(
    "data, name, hint",
    [
        (Table(), "Table", "numpy.save"),
        ({"rows.npy": [1, 2]}, "dict", "pyarrow.table"),
        (np.arange(3), "ndarray", "numpy.save"),
        (np.zeros(()), "ndarray", "numpy.save"),
        ([np.arange(3)], "ndarray", "numpy.save"),
        ([1, 2], "int", "numpy.save"),
        (7, "int", "numpy.save"),
        (None, "NoneType", "the name of a file"),
    ],
)
def test_data_in_memory_is_no_file(rows: np.ndarray, data: Any, name: str, hint: str) -> None:
    for open_ in (outcore.open, outcore.shuffled, lambda data: outcore.sort(data, "out.npy")):
        with pytest.raises(outcore.UsageError, match=f"of type {name} is neither.*{hint}"):
            open_(data)


def test_names_of_files_may_come_from_anywhere(rows: np.ndarray) -> None:
    for names in ("rows.npy", b"rows.npy", Path("rows.npy"), ["rows.npy"], np.array(["rows.npy"])):
        assert outcore.open(names, memory="32MiB").count() == 1000  # type: ignore[arg-type]
    assert outcore.open((name for name in ["rows.npy"]), memory="32MiB").count() == 1000


NO_NUMPY = """
import sys
sys.modules["numpy"] = None
import outcore
data = outcore.open("keys.bin", dtype="u64", memory="32MiB")
print(data.count(), data.filter("x > 5").count(), data.filter("x > 5").map("x * 2").sum())
print(data.sort(descending=True).shuffle().unique().count(), data.find("x == 7"), data.max())
data.filter(outcore.x < 3).write("few.bin")
print(data.partition("x % 2", "part-{part}.bin"), data)
print(sum(len(lines) for lines in outcore.open("text.txt", lines=True)))
"""


def test_counting_needs_no_numpy(here: Path) -> None:
    np.arange(10, dtype=np.uint64).tofile("keys.bin")
    Path("text.txt").write_text("a\nb\n")
    done = subprocess.run([sys.executable, "-c", NO_NUMPY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["10 4 60", "10 7 9"]
    assert np.array_equal(np.fromfile("few.bin", np.uint64), [0, 1, 2])


def test_a_function_may_say_which_part_an_item_goes_to(rows: np.ndarray, here: Path) -> None:
    data = outcore.open("rows.npy", memory="32MiB")
    counts = data.partition(lambda batch: (batch[:, 0] // 16 % 3).astype(int), "part-{part}.bin", 3)
    assert counts == [334, 333, 333]
    for part in range(3):
        made = np.fromfile(f"part-{part}.bin", np.float32).reshape(-1, 16)
        assert np.array_equal(made, rows[part::3])
    counts = data.map("x[0]").partition(lambda batch: batch >= 8000, "half-{part}.bin")
    assert counts == [500, 500]
    wrong: list[tuple[Any, str]] = [
        (lambda batch: batch[:, 0], "float32"),
        (lambda batch: 1, r"shape \(\)"),
        (lambda batch: np.zeros(1, int), "1000|shape"),
        (lambda batch: np.full(len(batch), 9), "9|3 files|beyond|number"),
        (5, "of type int cannot number"),
    ]
    for function, said in wrong:
        with pytest.raises(outcore.UsageError, match=said):
            data.partition(function, "wrong-{part}.bin", 3)
    with pytest.raises(ZeroDivisionError):
        data.partition(lambda batch: 1 // 0, "wrong-{part}.bin", 3)
    assert not list(here.glob("wrong*"))


def test_what_is_no_expression_is_refused_by_name(rows: np.ndarray) -> None:
    data = outcore.open("rows.npy", memory="32MiB")
    with pytest.raises(outcore.UsageError, match="of type function is not an expression"):
        data.find(lambda batch: batch > 1)  # type: ignore[arg-type]


def test_a_write_suggests_only_what_it_has(rows: np.ndarray, here: Path) -> None:
    data = outcore.open("rows.npy", memory="32MiB")
    for refused in (
        lambda: data.write("rows.npy"),
        lambda: data.write("rows.npy", force=True),
        lambda: data.map("x * 2").write("rows.npy", force=True),
        lambda: data.sort().write("rows.npy", force=True),
    ):
        with pytest.raises(outcore.UsageError, match="one of the inputs") as error:
            refused()
        assert "replace" not in str(error.value) and "another name" in str(error.value)
    assert np.array_equal(np.load("rows.npy"), rows)


def test_a_volume_that_is_not_made_yet_is_said_to_be_that(here: Path) -> None:
    for name in "ab":
        (here / name).mkdir()
    Path("drives.toml").write_text('[[drive]]\ndir = "a"\n[[drive]]\ndir = "b"\n')
    Path("x.bin").write_bytes(b"x" * 100)
    volume = outcore.Volume("drives.toml")
    with pytest.raises(outcore.UsageError, match=r"no volume on these drives yet.*Volume\.create") as e:
        volume.put("x.bin", "x")
    assert "remove" not in str(e.value)
    with pytest.raises(outcore.UsageError, match="no volume on these drives yet"):
        volume.ls()
    outcore.Volume.create("drives.toml").put("x.bin", "x")
    assert [entry.name for entry in volume.ls()] == ["x"]


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("<f2", (50,)),
        (">f4", (50, 3)),
        ("<c16", (50, 2)),
        ("<u2", (50, 2, 3, 4)),
        ("?", (50,)),
        # NumPy's notation of bfloat16.
        ("V2", (50, 3)),
    ],
)
def test_arrays_of_any_numbers_and_dimensions_are_moved_whole(
    dtype: str, shape: tuple[int, ...], here: Path
) -> None:
    count = int(np.prod(shape))
    numbers = np.random.default_rng(5).integers(0, 99, count)
    kind = np.dtype(dtype)
    array = numbers.astype("<u2").view(kind) if kind.kind == "V" else numbers.astype(kind)
    array = array.reshape(shape)
    np.save(here / "in.npy", array)
    data = outcore.open(here / "in.npy")
    assert np.asarray(data).dtype == array.dtype
    assert np.asarray(data).tobytes() == array.tobytes()
    assert np.asarray(data).shape == shape
    assert np.asarray(data.reverse()).tobytes() == array[::-1].tobytes()
    assert data.gather([3, 49, 3]).tobytes() == array[[3, 49, 3]].tobytes()
    rows = sorted(row.tobytes() for row in array)
    outcore.shuffle(here / "in.npy", here / "out.npy", seed=3)
    written = np.load(here / "out.npy")
    assert (written.dtype, written.shape) == (array.dtype, shape)
    order = outcore.shuffled(here / "in.npy", seed=3)
    assert np.asarray(order).tobytes() == written.tobytes() != array.tobytes()
    assert order[:7].shape == (7, *shape[1:])
    # NumPy joins arrays in the machine's byte order.
    joined = np.concatenate([*data]).astype(array.dtype)
    for items in (written, np.asarray(data.shuffle(seed=4)), joined):
        assert sorted(row.tobytes() for row in items.reshape(shape)) == rows


def test_halves_and_complex_numbers_are_sorted_as_numpy_sorts_them(here: Path) -> None:
    rng = np.random.default_rng(6)
    halves = rng.normal(size=500).astype(np.float16)
    halves[::50] = np.nan
    np.save(here / "halves.npy", halves)
    outcore.sort(here / "halves.npy", here / "out.npy")
    assert np.array_equal(np.load(here / "out.npy"), np.sort(halves), equal_nan=True)
    outcore.sort(here / "halves.npy", here / "down.npy", dtype=np.float16, descending=True)
    assert np.array_equal(np.load(here / "down.npy"), np.sort(halves)[::-1], equal_nan=True)
    numbers = (rng.integers(0, 5, 300) + 1j * rng.normal(size=300)).astype(np.complex64)
    np.save(here / "complex.npy", numbers)
    outcore.sort(here / "complex.npy", here / "sorted.npy")
    assert np.array_equal(np.load(here / "sorted.npy"), np.sort(numbers))
    with pytest.raises(outcore.UsageError, match="no order"):
        np.save(here / "long.npy", np.zeros(3, np.longdouble))
        outcore.sort(here / "long.npy", here / "x.npy")

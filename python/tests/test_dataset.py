"""Lazy datasets against NumPy: expressions, functions, reductions, iteration, failures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import outcore

ITEMS = (np.arange(300_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)


@pytest.fixture
def keys(here: Path) -> outcore.Dataset:
    """Numbers in two files."""
    ITEMS[:100_001].tofile(here / "keys-0.bin")
    ITEMS[100_001:].tofile(here / "keys-1.bin")
    return outcore.open("keys-*.bin", dtype="u64", memory="64MiB", threads=2)


def test_reductions_are_those_of_numpy(keys: outcore.Dataset) -> None:
    assert keys.count() == len(ITEMS)
    assert keys.sum() == int(ITEMS.astype(object).sum())
    assert (keys.min(), keys.max()) == (int(ITEMS.min()), int(ITEMS.max()))
    assert keys.mean() == pytest.approx(ITEMS.mean())
    assert keys.reduce("a ^ b") == int(np.bitwise_xor.reduce(ITEMS))
    assert keys.reduce(np.bitwise_xor) == np.bitwise_xor.reduce(ITEMS)
    assert keys.filter("x < 0").min() is None


def test_expressions_mean_what_they_mean_in_numpy(keys: outcore.Dataset, here: Path) -> None:
    x = outcore.x
    cases = [
        (x * 3 + 1, ITEMS * np.uint64(3) + np.uint64(1)),
        (x % 1000 // 7 - 5, ITEMS % np.uint64(1000) // np.uint64(7) - np.uint64(5)),
        (x / 7, ITEMS / np.uint64(7)),
        ((x >> 3 & 0xFF).astype("u8"), (ITEMS >> np.uint64(3) & np.uint64(0xFF)).astype("u1")),
        (x.astype("i64") % -13, ITEMS.astype("i8") % -13),
        ((x % 3 == 1) & ~(x > 5000), ((ITEMS % np.uint64(3) == 1) & ~(ITEMS > 5000)).astype("u1")),
        (abs(x.astype("f32") - 1e9), np.abs(ITEMS.astype("f4") - np.float32(1e9))),
        (2**(x % 10), 2 ** (ITEMS % np.uint64(10))),
    ]
    for number, (expression, expected) in enumerate(cases):
        made = keys.map(expression)
        made.write(here / f"out-{number}")
        assert made.dtype == expected.dtype, str(expression)
        assert np.array_equal(np.fromfile(here / f"out-{number}", made.dtype), expected), str(
            expression
        )


def test_functions_get_arrays_and_fuse_with_expressions(keys: outcore.Dataset, here: Path) -> None:
    roots = keys.filter(outcore.x % 2 == 0).map(lambda a: np.sqrt(a)).filter(lambda a: a > 1000)
    roots.write(here / "roots.npy")
    expected = np.sqrt(ITEMS[ITEMS % 2 == 0])
    expected = expected[expected > 1000]
    assert np.array_equal(np.load(here / "roots.npy"), expected)
    assert roots.map("x * 2").sum() == pytest.approx(expected.sum() * 2)
    assert "where" in repr(roots) and "function" in roots.explain()


def test_batches_come_in_order_and_can_be_left(keys: outcore.Dataset) -> None:
    batches = list(keys)
    assert len(batches) > 1
    assert np.array_equal(np.concatenate(batches), ITEMS)
    for batch in keys.map(outcore.x + 1):
        assert batch[0] == ITEMS[0] + 1
        break


def test_what_a_function_raises_is_raised_and_leaves_nothing(
    keys: outcore.Dataset, here: Path
) -> None:
    def fail(batch: np.ndarray) -> np.ndarray:
        if len(batch) and batch.max() > 0:
            raise LookupError("no such reading")
        return batch

    broken = keys.map(fail)
    with pytest.raises(LookupError, match="no such reading"):
        broken.write(here / "out")
    with pytest.raises(LookupError, match="no such reading"):
        list(broken)
    assert sorted(path.name for path in here.iterdir()) == ["keys-0.bin", "keys-1.bin"]


def test_unique_and_sort_are_those_of_the_engine(keys: outcore.Dataset, here: Path) -> None:
    small = keys.map("x % 1000")
    assert small.unique(here / "unique").records == len(np.unique(ITEMS % 1000))
    small.unique(here / "counts", counts=True)
    values, counts = np.unique(ITEMS % 1000, return_counts=True)
    found = np.fromfile(here / "counts", "<u8").reshape(-1, 2)
    assert np.array_equal(found, np.stack([values, counts.astype("u8")], axis=1))
    keys.sort(here / "sorted")
    assert np.array_equal(np.fromfile(here / "sorted", "<u8"), np.sort(ITEMS))
    with pytest.raises(outcore.UsageError):
        small.sort(here / "refused")


def test_fields_of_structured_arrays_have_names(here: Path) -> None:
    rows = np.zeros(5000, dtype=[("id", "<u4"), ("at", "<f8")])
    rows["id"], rows["at"] = np.arange(5000), np.arange(5000) / 4
    np.save(here / "rows.npy", rows)
    table = outcore.open(here / "rows.npy")
    late = table.filter((outcore.col("at") > 100) & (outcore.col("id") % 3 == 0))
    expected = rows[(rows["at"] > 100) & (rows["id"] % 3 == 0)]
    assert np.array_equal(np.concatenate(list(late)), expected)
    assert late.map("id * 2").sum() == int(expected["id"].sum()) * 2
    with pytest.raises(outcore.UsageError, match="unknown"):
        table.filter("nothing > 1")


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="truth"):
        bool(outcore.x > 1 and outcore.x < 3)
    with pytest.raises(outcore.UsageError, match="no file"):
        outcore.open("nothing-*.bin", dtype="u64")

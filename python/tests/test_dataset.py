"""Compares lazy datasets with NumPy: expressions, functions, reductions, iteration, failures."""

from __future__ import annotations

import collections
import operator
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


def all_of(dataset: outcore.Dataset) -> np.ndarray:
    """The items in iteration order."""
    return np.concatenate(list(dataset))


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


def test_steps_that_need_all_items_can_stand_anywhere(keys: outcore.Dataset, here: Path) -> None:
    small = keys.map("x % 1000")
    values, counts = np.unique(ITEMS % 1000, return_counts=True)
    assert small.unique().write("unique").records == len(values)
    assert np.array_equal(np.fromfile("unique", "<u8"), values)
    found = all_of(small.count_by())
    assert np.array_equal(found["value"], values) and np.array_equal(found["count"], counts)
    most = small.count_by().map("count").top(3)
    assert np.array_equal(most, np.sort(counts)[::-1][:3])
    keys.sort().write("sorted.npy")
    assert np.array_equal(np.load("sorted.npy"), np.sort(ITEMS))
    back = small.sort(descending=True, unique=True).map("x * 2").scan(exclusive=True)
    doubled = values[::-1] * 2
    expected = np.concatenate([[0], np.cumsum(doubled)[:-1]])
    assert np.array_equal(all_of(back), expected)
    assert "sort" in repr(back) and "scan" in back.explain()
    shuffled = keys.filter("x % 2 == 0").shuffle(3)
    items = all_of(shuffled)
    even = ITEMS[ITEMS % 2 == 0]
    assert not np.array_equal(items, even) and np.array_equal(np.sort(items), np.sort(even))
    keys.shuffle(7).write("shuffled")
    outcore.shuffle(["keys-0.bin", "keys-1.bin"], "direct", dtype="u64", seed=7)
    assert Path("shuffled").read_bytes() == Path("direct").read_bytes()


def test_what_lies_between_passes_is_spread_over_the_drives(
    keys: outcore.Dataset, here: Path
) -> None:
    for drive in ("one", "two"):
        (here / drive).mkdir()
    spread = outcore.open("keys-*.bin", dtype="u64", memory="64MiB", drives=["one", "two"])
    again = spread.sort().map("x // 3").shuffle(1).scan().sort(descending=True).unique()
    sums = np.cumsum(all_of(keys.sort().map("x // 3").shuffle(1)))
    assert np.array_equal(all_of(again), np.unique(sums))
    assert not list((here / "one").iterdir()) and not list((here / "two").iterdir())


def test_a_sort_by_fields_and_what_was_there_is_never_replaced_unasked(here: Path) -> None:
    rows = np.zeros(3000, dtype=[("id", "<u4"), ("at", "<f8")])
    rows["id"], rows["at"] = np.arange(3000) % 7, -np.arange(3000) / 4
    np.save("rows.npy", rows)
    table = outcore.open("rows.npy")
    ordered = table.sort(key=["id:desc", "at"])
    expected = np.sort(rows[np.argsort(-rows["id"].astype(int), kind="stable")], order=["at"])
    expected = expected[np.argsort(-expected["id"].astype(int), kind="stable")]
    assert np.array_equal(all_of(ordered), expected)
    assert np.array_equal(all_of(ordered.filter("id == 3")), expected[expected["id"] == 3])
    ordered.write("out.npy")
    assert np.array_equal(np.load("out.npy"), expected)
    with pytest.raises(outcore.UsageError, match="exists"):
        ordered.write("out.npy")
    with pytest.raises(outcore.UsageError, match="input"):
        ordered.write("rows.npy", force=True)
    ordered.write("out.npy", force=True)


def test_functions_fold_batches_in_order_on_several_threads(keys: outcore.Dataset) -> None:
    assert keys.reduce(lambda a, b: a + b) == int(ITEMS.astype(object).sum())
    assert keys.reduce(max) == int(ITEMS.max())
    # Not commutative: the order of the input counts.
    first_and_last = keys.reduce(
        lambda a, b: (a[0], b[1]), of_batch=lambda batch: (int(batch[0]), int(batch[-1]))
    )
    assert first_and_last == (int(ITEMS[0]), int(ITEMS[-1]))
    lengths = keys.filter("x % 3 == 0").reduce(lambda a, b: a + b, len)
    assert lengths == int((ITEMS % 3 == 0).sum())
    assert keys.filter("x < 0").reduce(max) is None
    for broken in [
        lambda: keys.reduce(lambda a, b: 1 // 0),
        lambda: keys.reduce(max, lambda batch: 1 // 0),
    ]:
        with pytest.raises(ZeroDivisionError):
            broken()


def test_selections_are_those_of_numpy(keys: outcore.Dataset) -> None:
    assert np.array_equal(keys.top(5), np.sort(ITEMS)[::-1][:5])
    assert np.array_equal(keys.top(5, smallest=True), np.sort(ITEMS)[:5])
    counts, borders = keys.map("x % 1000").histogram(10, (0, 1000))
    expected, expected_borders = np.histogram(ITEMS % 1000, 10, (0, 1000))
    assert np.array_equal(counts, expected) and np.allclose(borders, expected_borders)
    assert keys.find(outcore.x == int(ITEMS[250_000])) == 250_000
    assert keys.find("x == 1 and x == 2") is None
    places = [299_999, 0, 0, 150_000]
    assert np.array_equal(keys.gather(places), ITEMS[places])
    assert np.array_equal(keys.map("x + 1").gather(np.array(places)), ITEMS[places] + 1)
    assert len(keys.gather([])) == 0
    for wrong in ([-1], [0.5], [300_000]):
        with pytest.raises(outcore.UsageError):
            keys.gather(wrong)
    assert [len(batch) for batch in keys.batches(130_000)] == [130_000, 130_000, 40_000]
    assert np.array_equal(all_of(keys.batches(777)), ITEMS)


def test_items_are_mapped_and_reduced_in_one_pass(keys: outcore.Dataset) -> None:
    x = outcore.x
    squares = (ITEMS % 1000).astype(object) ** 2
    small = keys.map("x % 1000")
    assert small.map_reduce(x * x, "sum") == squares.sum()
    assert small.map_reduce("x * x", "a ^ b") == int(np.bitwise_xor.reduce(squares.astype("u8")))
    assert small.filter("x > 500").map_reduce("x", max) == 999

    def count(batch: np.ndarray) -> collections.Counter[int]:
        return collections.Counter((batch % 7).tolist())

    assert keys.map_reduce(count, operator.add) == collections.Counter((ITEMS % 7).tolist())
    # Results that do not commute come in order.
    assert keys.map_reduce(lambda batch: batch.tolist(), operator.add) == ITEMS.tolist()
    assert keys.filter("x < 0").map_reduce(count, operator.add) is None
    with pytest.raises(outcore.UsageError, match="`sum`"):
        keys.map_reduce(count, "sum")
    with pytest.raises(ZeroDivisionError):
        keys.map_reduce(lambda batch: 1 // 0, operator.add)
    with pytest.raises(ZeroDivisionError):
        keys.map_reduce(len, lambda a, b: a // 0)


def test_some_items_are_taken_in_the_order_of_all(keys: outcore.Dataset) -> None:
    assert np.array_equal(keys.head(), ITEMS[:10])
    assert np.array_equal(keys.map("x + 1").head(150_000), ITEMS[:150_000] + 1)
    assert len(keys.head(0)) == 0 and np.array_equal(keys.head(10**9), ITEMS)
    index = keys.map("index")
    sample = index.sample(1000, seed=5)
    assert len(sample) == 1000 and np.array_equal(sample, np.unique(sample))
    # Six standard deviations of the mean of this many values.
    assert abs(sample.mean() - 150_000) < 6 * 300_000 / np.sqrt(12 * 1000)
    assert np.array_equal(sample, index.sample(1000, seed=5))
    assert not np.array_equal(sample, index.sample(1000, seed=6))
    assert np.array_equal(keys.sample(10**9), ITEMS)
    odd = keys.filter("x % 2 == 1").sample(50)
    assert len(odd) == 50 and (odd % 2 == 1).all()
    # Impossible requests fail before a pass that counts.
    unread = keys.filter(lambda batch: batch > 1 // 0)
    for arguments in ({"k": -1}, {"k": 2.5}, {"k": 5, "seed": -1}):
        with pytest.raises(outcore.UsageError, match="k|seed"):
            unread.sample(**arguments)
    with pytest.raises(ZeroDivisionError):
        unread.sample(5)


def test_items_are_written_to_the_file_that_an_expression_numbers(
    keys: outcore.Dataset, here: Path
) -> None:
    counts = keys.partition(outcore.x % 5, "part-{part}.bin", 5)
    for part, count in enumerate(counts):
        expected = ITEMS[ITEMS % 5 == part]
        assert np.array_equal(np.fromfile(f"part-{part}.bin", "u8"), expected)
        assert count == len(expected)
    both = outcore.open("part.bin.outcore.json", dtype="u64")
    assert np.array_equal(np.sort(all_of(both)), np.sort(ITEMS))
    keys.sort().partition("x < 1000000", "sorted-{part}", force=True)
    assert np.array_equal(np.fromfile("sorted-1", "u8"), np.sort(ITEMS[ITEMS < 1000000]))
    with pytest.raises(outcore.UsageError, match="exists"):
        keys.partition("x % 5", "part-{part}.bin", 5)
    for wrong in (
        lambda: keys.partition("x % 5", "part.bin", 5),
        lambda: keys.partition("x % 5", "low-{part}", 4),
        lambda: keys.partition("x % 5", "keys-{part}.bin", 5, force=True),
    ):
        with pytest.raises(outcore.UsageError):
            wrong()
    assert not (here / "low-0").exists()
    assert np.array_equal(all_of(keys), ITEMS), "inputs are as they were"


def test_numbers_that_nothing_stores_go_through_the_same_steps(here: Path) -> None:
    numbers = outcore.tabulate(1_000_001, threads=2)
    assert numbers.dtype == np.dtype("u8") and numbers.count() == 1_000_001
    assert numbers.sum() == 500_000 * 1_000_001
    assert np.array_equal(all_of(numbers), np.arange(1_000_001))
    thirds = outcore.tabulate(30_000, outcore.x / 3)
    thirds.write("thirds.npy")
    assert np.array_equal(np.load("thirds.npy"), np.arange(30_000) / 3)
    shuffled = outcore.tabulate(30_000).shuffle(3)
    assert np.array_equal(np.sort(all_of(shuffled)), np.arange(30_000))
    assert np.array_equal(numbers.gather([5, 1_000_000]), [5, 1_000_000])
    assert outcore.tabulate(0).sum() == 0 and outcore.tabulate(0).max() is None
    with pytest.raises(outcore.UsageError, match="zip"):
        numbers.zip(numbers)


def test_datasets_are_zipped_side_by_side(keys: outcore.Dataset, here: Path) -> None:
    weights = np.arange(len(ITEMS), dtype=np.float32)
    np.save("weights.npy", weights)
    both = keys.zip(outcore.open("weights.npy"))
    items = all_of(both)
    assert np.array_equal(items["x"], ITEMS) and np.array_equal(items["y"], weights)
    assert both.map("x * u64(y) % 7").sum() == int((ITEMS * weights.astype("u8") % 7).sum())
    pairs = keys.zip(keys)
    assert np.array_equal(all_of(pairs), np.stack([ITEMS, ITEMS], axis=1))
    with pytest.raises(outcore.UsageError, match="unmodified files"):
        keys.zip(keys.map("x"))


def test_fields_of_structured_arrays_have_names(here: Path) -> None:
    rows = np.zeros(5000, dtype=[("id", "<u4"), ("at", "<f8")])
    rows["id"], rows["at"] = np.arange(5000), np.arange(5000) / 4
    np.save(here / "rows.npy", rows)
    table = outcore.open(here / "rows.npy")
    late = table.filter((outcore.col("at") > 100) & (outcore.col("id") % 3 == 0))
    expected = rows[(rows["at"] > 100) & (rows["id"] % 3 == 0)]
    assert np.array_equal(all_of(late), expected)
    assert late.map("id * 2").sum() == int(expected["id"].sum()) * 2
    with pytest.raises(outcore.UsageError, match="unknown"):
        table.filter("nothing > 1")


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="truth"):
        bool(outcore.x > 1 and outcore.x < 3)
    with pytest.raises(outcore.UsageError, match="no file"):
        outcore.open("nothing-*.bin", dtype="u64")


def test_a_plan_says_whether_values_are_counted_by_hash_or_by_a_sort(
    keys: outcore.Dataset, here: Path
) -> None:
    assert "by hash" in keys.map("x % 100").count_by().explain()
    assert "by hash" in keys.map("x % 100").unique().map("x + 1").explain()
    small = outcore.open("keys-*.bin", dtype="u64", memory="4MiB", threads=1)
    assert "sorted, equal ones side by side" in small.unique().explain()
    assert "predicted" in keys.sort().explain() and "permute" in keys.shuffle(1).explain()
    # Files that do not exist yet cannot be examined.
    later = keys.sort().map("x % 100").count_by().filter("count > 1").explain().splitlines()
    assert later[-2].endswith("count each") and later[-1].endswith("consume")


def test_nothing_is_selected_where_nothing_is_wanted(keys: outcore.Dataset) -> None:
    top = keys.top(0)
    assert len(top) == 0 and top.dtype == ITEMS.dtype


def test_a_histogram_may_be_wider_than_a_number(here: Path) -> None:
    most = np.finfo("f8").max
    np.array([-most, -1.0, 0.0, 1.0, most]).tofile("wide")
    counts, borders = outcore.open("wide", dtype="f64").histogram(4)
    assert counts.tolist() == [1, 1, 2, 1]
    assert borders[0] == -most and borders[-1] == most and np.isfinite(borders).all()


def test_items_are_numbered_turned_round_and_read_in_windows(
    keys: outcore.Dataset, here: Path
) -> None:
    assert np.array_equal(all_of(keys.reverse()), ITEMS[::-1])
    odd = ITEMS[ITEMS % 2 == 1]
    numbered = all_of(keys.enumerate())
    assert np.array_equal(numbered["value"], ITEMS)
    assert np.array_equal(numbered["position"], np.arange(len(ITEMS)))
    filtered = all_of(keys.filter("x % 2 == 1").enumerate())
    assert np.array_equal(filtered["value"], odd)
    assert np.array_equal(filtered["position"], np.arange(len(odd)))
    found = all_of(keys.enumerate().filter("value % 2 == 1").map("position"))
    assert np.array_equal(found, np.flatnonzero(ITEMS % 2 == 1))
    expected = np.lib.stride_tricks.sliding_window_view(ITEMS, 3)
    assert np.array_equal(all_of(keys.windows(3)), expected)
    steps = keys.sort().windows(2).map("y - x")
    assert steps.max() == int(np.diff(np.sort(ITEMS)).max())
    odd_windows = all_of(keys.filter("x % 2 == 1").windows(2))
    assert np.array_equal(odd_windows, np.lib.stride_tricks.sliding_window_view(odd, 2))
    keys.reverse().write("reversed.npy")
    assert np.array_equal(np.load("reversed.npy"), ITEMS[::-1])
    assert "reverse" in repr(keys.reverse().map("x")) and "windows" not in repr(keys)
    for wrong in (1, 9):
        with pytest.raises(outcore.UsageError, match="2 to 8"):
            keys.windows(wrong)


def test_one_item_becomes_any_number_of_items(keys: outcore.Dataset) -> None:
    x = outcore.x
    both = np.stack([ITEMS, ITEMS + np.uint64(1)], axis=1).reshape(-1)
    twice = keys.flat_map([x, x + 1])
    assert np.array_equal(all_of(twice), both)
    assert twice.count() == len(both) and twice.sum() == int(both.astype(object).sum())
    assert np.array_equal(twice.top(3), np.sort(both)[::-1][:3])
    sums = np.cumsum(both % np.uint64(7), dtype=np.uint64)
    assert np.array_equal(all_of(twice.map("x % 7").scan()), sums)
    assert np.array_equal(all_of(twice.sort()), np.sort(both))
    assert np.array_equal(all_of(keys.flat_map(lambda a: np.repeat(a, 5))), np.repeat(ITEMS, 5))
    values, counts = np.unique(np.repeat(ITEMS % 100, 3), return_counts=True)
    found = all_of(keys.map("x % 100").flat_map(["x", "x", "x"]).count_by())
    assert np.array_equal(found["value"], values) and np.array_equal(found["count"], counts)
    with pytest.raises(outcore.UsageError, match="one type"):
        keys.flat_map(["x", "x / 2"])


def test_files_in_order_are_merged_in_one_pass(here: Path) -> None:
    runs = [np.sort(ITEMS[start::3]) for start in range(3)]
    for number, run in enumerate(runs):
        run.tofile(f"run-{number}.bin")
    merged = outcore.open("run-*.bin", dtype="u64", memory="64MiB").merge()
    done = merged.write("merged.bin")
    assert done.passes == 1
    assert np.array_equal(np.fromfile("merged.bin", "u8"), np.sort(ITEMS))
    assert np.array_equal(all_of(merged.map("x // 2")), np.sort(ITEMS) // 2)


@pytest.mark.parametrize("dtype", ["u1", "i4", ">u8", "f4", "f8", "u8"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_ranks_are_those_of_searchsorted(here: Path, dtype: str, side: str) -> None:
    draw = np.random.default_rng(3)
    if np.dtype(dtype).kind == "f":
        items = draw.standard_normal(30_000).astype(dtype)
        items[:50] = [0.0, -0.0] * 25
        items[50:60] = np.nan
    else:
        items = draw.integers(0, min(np.iinfo(dtype).max, 40_000), 30_000).astype(dtype)
    items = np.sort(items)
    np.save(here / "sorted.npy", items)
    wanted = np.concatenate([draw.permutation(items)[:500], items[:2], items[-2:]]).reshape(2, -1)
    found = outcore.lookup("sorted.npy", wanted, side, memory="64MiB")
    assert found.dtype == np.int64 and found.shape == wanted.shape
    assert (found == np.searchsorted(items, wanted, side)).all()
    items.tofile(here / "sorted.bin")
    again = outcore.open("sorted.bin", dtype=np.dtype(dtype), memory="64MiB").searchsorted(wanted, side)
    assert (again == found).all()
    for _ in range(2):
        through = outcore.lookup("sorted.npy", wanted, side, index="sorted.index", memory="64MiB")
        assert (through == found).all()
    assert outcore.lookup("sorted.npy", [], side).shape == (0,)


def test_values_that_cannot_be_looked_up_are_refused(here: Path) -> None:
    np.save(here / "sorted.npy", np.arange(100, dtype="u4"))
    assert outcore.lookup("sorted.npy", 7).tolist() == 7
    for wrong in ([-1], [2**32], [0.5], [np.nan]):
        with pytest.raises(outcore.UsageError, match="does not fit in"):
            outcore.lookup("sorted.npy", wrong)
    for wrong in ([2**70], ["a"], [None]):
        with pytest.raises(outcore.UsageError, match="give numbers that fit in uint32"):
            outcore.lookup("sorted.npy", wrong)
    with pytest.raises(outcore.UsageError, match="side"):
        outcore.lookup("sorted.npy", [1], "both")
    np.save(here / "turned.npy", np.arange(100, dtype="u4")[::-1].copy())
    with pytest.raises(outcore.UsageError, match="ascending"):
        outcore.lookup("turned.npy", [1])


def test_a_notebook_shows_the_plan_and_the_first_items_where_they_are_cheap(tmp_path):
    numbers, text = tmp_path / "n.npy", tmp_path / "l.txt"
    np.save(numbers, np.arange(1_000, dtype=np.uint64) * 7)
    text.write_text("<b>one\n" + "x" * 500 + "\n")
    shown = outcore.open(numbers).map("x + 1")._repr_html_()
    assert "<td>1</td>" in shown and "<td>29</td>" in shown and "<td>36</td>" not in shown
    assert "<pre>" in shown
    assert "<td>" not in outcore.open(numbers).sort()._repr_html_()
    lines = outcore.open(text, lines=True)._repr_html_()
    assert "<td>&lt;b&gt;one</td>" in lines and "x" * 101 not in lines and "x" * 99 + "…" in lines
